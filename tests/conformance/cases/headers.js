import { equal, suite, throws } from "../support/check.js";

export default suite({
  worker: {
    "names are lower case, sorted and combined"() {
      const headers = new Headers([
        ["X-B", "2"],
        ["x-a", "1"],
        ["X-b", "3"],
      ]);
      equal(
        [...headers],
        [
          ["x-a", "1"],
          ["x-b", "2, 3"],
        ],
      );
      equal(headers.get("X-B"), "2, 3");
      equal(headers.get("none"), null);
    },
    "Set-Cookie is never combined"() {
      const headers = new Headers();
      headers.append("Set-Cookie", "a=1");
      headers.append("set-cookie", "b=2");
      equal(headers.getSetCookie(), ["a=1", "b=2"]);
      equal(
        [...headers],
        [
          ["set-cookie", "a=1"],
          ["set-cookie", "b=2"],
        ],
      );
      equal(headers.getAll("set-cookie"), ["a=1", "b=2"]);
    },
    "getAll is for Set-Cookie only"() {
      throws(() => new Headers().getAll("x"), {
        name: "TypeError",
        message: 'getAll() can only be used with the header name "Set-Cookie".',
      });
    },
    "a bad name or value is a TypeError"() {
      throws(() => new Headers({ "a b": "1" }), { name: "TypeError" });
      throws(() => new Headers({ a: "1\n2" }), { name: "TypeError" });
    },
    "values are trimmed"() {
      equal(new Headers({ a: "  x y \t" }).get("a"), "x y");
    },
    "entries, keys, values and forEach agree"() {
      const headers = new Headers({ b: "2", a: "1" });
      const seen = [];
      headers.forEach((value, key) => seen.push([key, value]));
      equal(seen, [...headers.entries()]);
      equal([...headers.keys()], ["a", "b"]);
      equal([...headers.values()], ["1", "2"]);
    },
    "set replaces, delete removes, has answers"() {
      const headers = new Headers({ a: "1" });
      headers.append("a", "2");
      headers.set("A", "3");
      equal(headers.get("a"), "3");
      headers.delete("A");
      equal(headers.has("a"), false);
    },
    "the headers of an incoming request are immutable"({ request }) {
      throws(() => request.headers.set("a", "1"), {
        name: "TypeError",
        message: "Can't modify immutable headers.",
      });
    },
  },
});
