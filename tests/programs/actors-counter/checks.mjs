export default {
  "counts outlive the process": [
    async (t) => {
      t.equal(await t.json("/apples/up"), { name: "apples", n: 1 });
      t.equal(await t.json("/apples/up"), { name: "apples", n: 2 });
    },
    async (t) => {
      t.equal(await t.json("/apples/up"), { name: "apples", n: 3 });
      t.equal(await t.json("/apples/list"), [
        { who: "apples", n: 1 },
        { who: "apples", n: 2 },
        { who: "apples", n: 3 },
      ]);
    },
  ],
  async "an alarm calls a method"(t) {
    t.equal(await t.text("/bell/ring"), "set");
    const rung = await t.until(
      async () => {
        const rows = await t.json("/bell/rung");
        return rows.length > 0 && rows;
      },
      8_000,
      "the alarm",
    );
    t.equal(rung, [{ at: "payload" }]);
  },
};
