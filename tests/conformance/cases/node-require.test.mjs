export default {
  async "CommonJS modules require those of Node.js"(t) {
    t.equal(await t.json("/"), {
      joined: "a/b",
      same: true,
      callable: true,
      heard: 1,
      store: 2,
      missing: true,
    });
  },
};
