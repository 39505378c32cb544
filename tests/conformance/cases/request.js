import { equal, rejects, suite, throws } from "../support/check.js";

const url = "https://example.com/a?b#c";

export default suite({
  worker: {
    "defaults of a new Request"() {
      const request = new Request(url);
      equal(
        [request.method, request.url, request.body, request.redirect],
        ["GET", url, null, "follow"],
      );
      equal(request.signal instanceof AbortSignal, true);
    },
    "methods are upper case"() {
      equal(new Request(url, { method: "patch" }).method, "PATCH");
      equal(new Request(url, { method: "post" }).method, "POST");
    },
    "GET with a body is refused"() {
      throws(() => new Request(url, { body: "x" }), {
        name: "TypeError",
        message: "Request with a GET or HEAD method cannot have a body.",
      });
    },
    "a relative URL is refused"() {
      throws(() => new Request("/a"), {
        name: "TypeError",
        message: "Invalid URL: /a",
      });
    },
    async "a string body sets the content type"() {
      const request = new Request(url, { method: "POST", body: "ü" });
      equal(request.headers.get("content-type"), "text/plain;charset=UTF-8");
      equal(
        new Uint8Array(await request.arrayBuffer()),
        new Uint8Array([0xc3, 0xbc]),
      );
    },
    async "URLSearchParams body sets the content type"() {
      const body = new URLSearchParams({ a: "1 2" });
      const request = new Request(url, { method: "POST", body });
      equal(
        request.headers.get("content-type"),
        "application/x-www-form-urlencoded;charset=UTF-8",
      );
      equal(await request.text(), "a=1+2");
    },
    async "a body can be read once"() {
      const request = new Request(url, { method: "POST", body: "x" });
      equal(request.bodyUsed, false);
      await request.text();
      equal(request.bodyUsed, true);
      await rejects(request.text(), {
        name: "TypeError",
        message:
          "Body has already been used. It can only be used once. Use tee() first if you need to read it twice.",
      });
    },
    async "clone gives two readable bodies"() {
      const request = new Request(url, { method: "POST", body: "twice" });
      const copy = request.clone();
      equal([await request.text(), await copy.text()], ["twice", "twice"]);
    },
    async "a Request from a Request takes over its parts"() {
      const first = new Request(url, {
        method: "PUT",
        body: "b",
        headers: { "x-a": "1" },
      });
      const second = new Request(first, { headers: { "x-b": "2" } });
      equal(
        [second.method, second.headers.get("x-a"), second.headers.get("x-b")],
        ["PUT", null, "2"],
      );
      equal(await second.text(), "b");
    },
    "an aborted signal is seen"() {
      const controller = new AbortController();
      const request = new Request(url, { signal: controller.signal });
      controller.abort();
      equal(request.signal.aborted, true);
    },
    async "json, bytes and blob read the body"() {
      const make = () => new Request(url, { method: "POST", body: '{"a":1}' });
      equal(await make().json(), { a: 1 });
      equal(await make().bytes(), new TextEncoder().encode('{"a":1}'));
      const blob = await make().blob();
      equal(
        [blob.size, blob.type.toLowerCase()],
        [7, "text/plain;charset=utf-8"],
      );
    },
    async "bad JSON is a SyntaxError"() {
      await rejects(new Request(url, { method: "POST", body: "{" }).json(), {
        name: "SyntaxError",
      });
    },
    async "iterables are bodies"() {
      async function* parts() {
        yield new TextEncoder().encode("a");
        yield new TextEncoder().encode("b");
      }
      const request = new Request(url, { method: "POST", body: parts() });
      equal(await request.text(), "ab");
    },
  },
});
