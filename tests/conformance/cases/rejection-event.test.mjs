export default {
  async "unhandledrejection is fired for what nobody catches"(t) {
    t.equal(await t.text("/reject"), "answered");
    t.equal(await t.json("/seen"), ["nobody"]);
  },
};
