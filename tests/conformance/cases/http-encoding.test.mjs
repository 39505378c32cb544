export default {
  async "a Content-Encoding packs the body"(t) {
    const response = await t.fetch("/gzip");
    t.equal(
      [response.headers.get("content-encoding"), await response.text()],
      ["gzip", "packed on the way out"],
    );
  },
  async "encodeBody manual leaves it as it is"(t) {
    t.equal(await t.text("/manual"), "packed by hand");
  },
  async "header names are lower case, equal ones are combined"(t) {
    const headers = new Headers([
      ["X-Abc", "1"],
      ["x-abc", "2"],
      ["X-B", "ü".normalize()],
    ]);
    const seen = await t.json("/headers", { headers });
    t.equal(seen[0], ["x-abc", "1, 2"]);
  },
  async "repeated response headers arrive"(t) {
    const { headers } = await t.fetch("/many");
    t.equal(headers.get("x-many"), "a, b");
  },
  async "paths arrive as they were sent"(t) {
    for (const path of ["/a%20b/%C3%BC?x=%2F&y", "/a//b/", "/a;b,c@d:e"]) {
      t.equal(await t.text(path), path);
    }
  },
  async "long URLs pass"(t) {
    const path = `/${"x".repeat(6_000)}`;
    t.equal(await t.text(path), path);
  },
};
