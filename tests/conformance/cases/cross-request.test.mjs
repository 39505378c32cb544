export default {
  async "a promise resolved by another request wakes its own"(t) {
    const began = Date.now();
    const waiting = t.text("/await");
    await t.sleep(100);
    t.equal(await t.text("/release"), "releasing");
    t.equal(await waiting, "released");
    t.equal(Date.now() - began < 4_000, true, "woken at once");
  },
};
