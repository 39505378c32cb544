import { equal, suite, throws } from "../support/check.js";

export default suite({
  worker: {
    "defaults of a new Response"() {
      const response = new Response();
      equal(
        [
          response.status,
          response.statusText,
          response.ok,
          response.body,
          response.type,
        ],
        [200, "", true, null, "default"],
      );
    },
    "a status outside of 200 to 599 is refused"() {
      throws(() => new Response(null, { status: 99 }), {
        name: "RangeError",
        message:
          "Responses may only be constructed with status codes in the range 200 to 599, inclusive.",
      });
      throws(() => new Response(null, { status: 600 }), { name: "RangeError" });
      throws(() => new Response(null, { status: 101 }), { name: "RangeError" });
    },
    "a null body status takes no body"() {
      throws(() => new Response("x", { status: 204 }), {
        name: "TypeError",
        message:
          "Response with null body status (101, 204, 205, or 304) cannot have a body.",
      });
      equal(new Response(null, { status: 304 }).status, 304);
    },
    async "Response.json"() {
      const response = Response.json({ a: [1] }, { status: 201 });
      equal(
        [
          response.status,
          response.headers.get("content-type"),
          await response.text(),
        ],
        [201, "application/json", '{"a":[1]}'],
      );
    },
    "Response.redirect"() {
      const response = Response.redirect("https://x.com/ü", 307);
      equal(
        [response.status, response.headers.get("location")],
        [307, "https://x.com/%C3%BC"],
      );
      throws(() => Response.redirect("https://x.com", 200), {
        name: "RangeError",
        message: /^200 is not a redirect status code/,
      });
    },
    "Response.error is a network error"() {
      const response = Response.error();
      equal([response.type, response.status], ["error", 0]);
    },
    async "a Response from a stream"() {
      const body = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode("he"));
          controller.enqueue(new TextEncoder().encode("llo"));
          controller.close();
        },
      });
      equal(await new Response(body).text(), "hello");
    },
    async "clone and new Response(old.body, old)"() {
      const first = new Response("x", { status: 404, headers: { a: "1" } });
      const second = new Response(first.clone().body, first);
      equal(
        [
          second.status,
          second.headers.get("a"),
          await second.text(),
          await first.text(),
        ],
        [404, "1", "x", "x"],
      );
    },
    async "blob keeps the content type"() {
      const response = new Response("x", {
        headers: { "content-type": "Text/HTML" },
      });
      equal((await response.blob()).type, "text/html");
    },
    "a used body cannot make a Response"() {
      const stream = new Response("x").body;
      stream.getReader();
      throws(() => new Response(stream), { name: "TypeError" });
    },
    "webSocket is null by default"() {
      equal(new Response().webSocket, null);
    },
  },
});
