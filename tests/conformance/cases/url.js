import { equal, suite, throws } from "../support/check.js";

export default suite({
  worker: {
    "parts of a URL"() {
      const url = new URL("https://u:p@ex.com:8443/a/../b?x=1&y=%20#h");
      equal(
        [
          url.origin,
          url.host,
          url.pathname,
          url.search,
          url.hash,
          url.username,
        ],
        ["https://ex.com:8443", "ex.com:8443", "/b", "?x=1&y=%20", "#h", "u"],
      );
    },
    "a bad URL is a TypeError"() {
      throws(() => new URL("nope"), {
        name: "TypeError",
        message: "Invalid URL string.",
      });
      equal(URL.canParse("nope"), false);
      equal(URL.parse("nope"), null);
    },
    "search parameters keep order and encode as forms do"() {
      const params = new URLSearchParams([
        ["b", "2 3"],
        ["a", "ü"],
        ["b", "&"],
      ]);
      equal(String(params), "b=2+3&a=%C3%BC&b=%26");
      params.delete("b", "&");
      params.sort();
      equal(
        [...params],
        [
          ["a", "ü"],
          ["b", "2 3"],
        ],
      );
      equal([params.size, params.has("b", "x")], [2, false]);
    },
    "host names are converted to ASCII"() {
      equal(
        new URL("http://bücher.example/ä").href,
        "http://xn--bcher-kva.example/%C3%A4",
      );
      equal(new URL("http://0x7f.1/").hostname, "127.0.0.1");
    },
    "URLPattern matches groups"() {
      const pattern = new URLPattern({ pathname: "/books/:id(\\d+)/*" });
      const found = pattern.exec("https://x.com/books/12/a/b");
      equal(found.pathname.groups, { 0: "a/b", id: "12" });
      equal(pattern.test("https://x.com/books/x/a"), false);
      equal(
        new URLPattern("https://*.example.com/:x").test(
          "https://a.example.com/y",
        ),
        true,
      );
    },
  },
});
