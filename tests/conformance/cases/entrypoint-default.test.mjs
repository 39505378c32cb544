export default {
  async "a class can be the default export"(t) {
    t.equal(await t.json("/a"), { env: "object", ctx: "function", path: "/a" });
  },
  async "each request has an instance of its own"(t) {
    t.equal([await t.text("/fresh"), await t.text("/fresh")], ["1", "1"]);
  },
};
