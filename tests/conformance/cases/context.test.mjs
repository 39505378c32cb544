export default {
  async "waitUntil work goes on after the answer"(t) {
    t.equal(await t.text("/later?x"), "now");
    const seen = await t.until(
      async () => {
        const list = await t.json("/seen");
        return list.length === 2 && list;
      },
      3_000,
      "the work",
    );
    t.equal(seen, ["?x", "imported?x"]);
  },
  async "a rejection in waitUntil does not hurt the answer"(t) {
    const response = await t.fetch("/rejects");
    t.equal([response.status, await response.text()], [200, "fine"]);
    t.equal((await t.fetch("/seen")).status, 200);
  },
};
