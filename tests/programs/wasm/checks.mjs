export default {
  async "the module adds up bytes in its memory"(t) {
    const body = new Uint8Array([1, 2, 250]);
    t.equal(await t.json("/", { method: "POST", body }), {
      sum: 253,
      license: "Do as you like.\n",
    });
    t.equal(
      (await t.json("/", { method: "POST", body: new Uint8Array() })).sum,
      0,
    );
  },
};
