const call = (t, path, ...args) =>
  t.json(path, { method: "POST", body: JSON.stringify(args) });

export default {
  "rows outlive the process, migrations run once": [
    async (t) => {
      const rows = await call(t, "/a/add", "Ann", ["One", "Two"]);
      t.equal(
        rows.map(({ id, title, lent }) => [id, title, lent]),
        [
          [1, "One", false],
          [2, "Two", false],
        ],
      );
      t.equal(await call(t, "/a/lend", "Two"), [{ title: "Two", lent: true }]);
      t.equal(await call(t, "/a/counts"), { applied: [[2]], books: 2 });
    },
    async (t) => {
      t.equal(await call(t, "/a/counts"), { applied: [[2]], books: 2 });
      await call(t, "/a/add", "Bob", ["Three"]);
      await call(t, "/a/add", "Ann", ["Four"]);
      const book = (title, author, lent) => {
        return { title, lent, tags: [author, title] };
      };
      t.equal(await call(t, "/a/list"), [
        { id: 2, name: "Bob", books: [book("Three", "Bob", false)] },
        {
          id: 1,
          name: "Ann",
          books: [
            book("One", "Ann", false),
            book("Two", "Ann", true),
            book("Four", "Ann", false),
          ],
        },
      ]);
    },
  ],
  async "joins and placeholders"(t) {
    await call(t, "/j/add", "Ann", ["Sea", "Seal", "Land"]);
    const at = new Date(86_400_000).toJSON();
    t.equal(await call(t, "/j/search", "Sea"), [
      { title: "Sea", author: "Ann", at },
      { title: "Seal", author: "Ann", at },
    ]);
  },
  async "transactions and savepoints"(t) {
    t.equal(await call(t, "/t/undecided"), "undone with 1");
    t.equal(await call(t, "/t/list"), []);
  },
};
