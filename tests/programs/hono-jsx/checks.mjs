export default {
  async "JSX is rendered and escaped"(t) {
    const response = await t.fetch("/");
    t.equal(response.headers.get("content-type"), "text/html; charset=UTF-8");
    t.equal(
      await response.text(),
      '<html lang="en"><head><title>Start</title></head><body class="page"><p>Hello &amp; &lt;welcome&gt;</p></body></html>',
    );
  },
  async "middleware runs around the handler"(t) {
    const { headers } = await t.fetch("/");
    t.equal(
      [headers.get("x-middleware"), headers.get("x-frame-options")],
      ["number", "SAMEORIGIN"],
    );
  },
  async "routes take parameters and queries"(t) {
    t.equal(await t.json("/api/items/42?q=x"), { id: 42, q: "x" });
    t.equal((await t.fetch("/api/items/abc")).status, 404);
  },
  async "JSON is posted"(t) {
    const body = JSON.stringify({ name: "thing" });
    const response = await t.fetch("/api/items", { method: "POST", body });
    t.equal(
      [response.status, await response.json()],
      [201, { created: "thing" }],
    );
  },
  async "a preflight request is answered"(t) {
    const response = await t.fetch("/api/items", {
      method: "OPTIONS",
      headers: {
        origin: "https://app.example",
        "access-control-request-method": "POST",
      },
    });
    t.equal(
      [response.status, response.headers.get("access-control-allow-origin")],
      [204, "https://app.example"],
    );
  },
  async "multipart forms are parsed"(t) {
    const body = new FormData();
    body.set("text", "ü");
    body.set("file", new File(["content"], "a.txt"));
    t.equal(await (await t.fetch("/form", { method: "POST", body })).json(), {
      text: "ü",
      file: ["a.txt", "content"],
    });
  },
  async "an ETag gives 304"(t) {
    const tag = (await t.fetch("/cached")).headers.get("etag");
    const again = await t.fetch("/cached", {
      headers: { "if-none-match": tag },
    });
    t.equal(again.status, 304);
  },
  async "basic auth guards"(t) {
    t.equal((await t.fetch("/admin/area")).status, 401);
    const authorization = `Basic ${btoa("admin:secret")}`;
    t.equal(
      await t.text("/admin/area", { headers: { authorization } }),
      "inside",
    );
  },
  async "text is streamed"(t) {
    t.equal(await t.text("/stream"), "abc");
  },
  async "errors reach onError"(t) {
    const response = await t.fetch("/throws");
    t.equal(
      [response.status, await response.text()],
      [500, "handled: thrown in a handler"],
    );
  },
  async "notFound answers"(t) {
    t.equal(await t.text("/none"), "nothing here");
  },
};
