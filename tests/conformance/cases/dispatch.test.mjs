export default {
  async "one request of an object wakes another"(t) {
    const waiting = [t.text("/wait"), t.text("/wait")];
    await t.until(
      async () => (await t.text("/count")) === "2",
      5_000,
      "both requests wait",
    );
    t.equal(await t.text("/wake"), "woke them");
    t.equal(await Promise.all(waiting), [
      "woken by another request",
      "woken by another request",
    ]);
  },
};
