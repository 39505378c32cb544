export default {
  async "a client check that is wrong"(t) {
    t.equal(await t.text("/"), "another answer");
  },
};
