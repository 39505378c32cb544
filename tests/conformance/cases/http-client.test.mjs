export default {
  async "a body is echoed"(t) {
    const body = "x".repeat(100_000);
    const response = await t.fetch("/echo", { method: "POST", body });
    t.equal(response.headers.get("x-length"), "100000");
    t.equal((await response.text()) === body, true);
  },
  async "binary bodies pass unchanged"(t) {
    const body = new Uint8Array(70_000).map((_, i) => i * 7);
    const response = await t.fetch("/echo", { method: "PUT", body });
    t.equal(
      Buffer.compare(
        Buffer.from(await response.arrayBuffer()),
        Buffer.from(body),
      ),
      0,
    );
  },
  async "methods and queries arrive"(t) {
    t.equal(
      await t.text("/method?a=1&b=%20", { method: "DELETE" }),
      "DELETE ?a=1&b=%20",
    );
    t.equal(await t.text("/method?", { method: "OPTIONS" }), "OPTIONS ");
  },
  async "HEAD answers without a body"(t) {
    const response = await t.fetch("/fixed", { method: "HEAD" });
    t.equal(
      [
        response.status,
        response.headers.get("content-length"),
        await response.text(),
      ],
      [200, "5", ""],
    );
  },
  async "each cookie has its own header"(t) {
    const response = await t.fetch("/cookies");
    t.equal(response.headers.getSetCookie(), ["a=1", "b=2; Path=/"]);
  },
  async "statuses and their texts arrive"(t) {
    const response = await t.fetch("/status?code=418&text=Teapot");
    t.equal([response.status, response.statusText], [418, "Teapot"]);
    t.equal((await t.fetch("/status?code=503")).status, 503);
    t.equal((await t.fetch("/status?code=304")).status, 304);
  },
  async "an empty body has length 0"(t) {
    const response = await t.fetch("/empty");
    t.equal(
      [response.status, response.headers.get("content-length")],
      [200, "0"],
    );
    t.equal((await t.fetch("/null-204")).headers.get("content-length"), null);
  },
  async "a string body has a length and a content type"(t) {
    const response = await t.fetch("/method");
    t.equal(
      [
        response.headers.get("content-length"),
        response.headers.get("content-type"),
      ],
      ["4", "text/plain;charset=UTF-8"],
    );
  },
  async "an exception is a 500"(t) {
    t.equal((await t.fetch("/throw")).status, 500);
  },
  async "no Response is a 500"(t) {
    t.equal((await t.fetch("/no-response")).status, 500);
  },
  async "the URL comes from the Host header"(t) {
    const seen = await t.json("/host");
    t.equal(seen.host, new URL(t.url).host);
    t.equal(seen.header, new URL(t.url).host);
  },
  async "a stream of unknown length is sent in chunks"(t) {
    const response = await t.fetch("/stream");
    t.equal(response.headers.get("content-length"), null);
    t.equal(await response.text(), "one two three");
  },
  async "FixedLengthStream gives a content length"(t) {
    const response = await t.fetch("/fixed");
    t.equal(
      [response.headers.get("content-length"), await response.text()],
      ["5", "12345"],
    );
  },
  async "a stream that fails breaks the answer off"(t) {
    const response = await t.fetch("/broken-stream").catch(() => null);
    const text = response
      ? await response.text().catch(() => "broken off")
      : "broken off";
    t.equal(text, "broken off");
  },
};
