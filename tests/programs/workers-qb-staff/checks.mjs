const call = (t, path, ...args) =>
  t.json(path, { method: "POST", body: JSON.stringify(args) });

export default {
  "migrations run once, rows outlive the process": [
    async (t) => {
      const both = ["0001_staff.sql", "0002_wage.sql"];
      t.equal(await call(t, "/m/applied"), both);
      t.equal(await call(t, "/m/hire", "Ann", "lead", 2.5), {
        id: 1,
        name: "Ann",
        wage: 2.5,
      });
    },
    async (t) => {
      t.equal((await call(t, "/m/applied")).length, 2);
      t.equal(await call(t, "/m/list", "lead"), [{ name: "Ann", wage: 2.5 }]);
    },
  ],
  async "insert, upsert, update, delete"(t) {
    await call(t, "/q/hire", "Ann", "cook", 2);
    t.equal(await call(t, "/q/hire", "Ann", "cook", 3), {
      id: 1,
      name: "Ann",
      wage: 3,
    });
    await call(t, "/q/hireMany", ["Bob", "Cy", "Ann"]);
    t.equal(await call(t, "/q/list", "many"), [
      { name: "Cy", wage: 1 },
      { name: "Bob", wage: 1 },
    ]);
    t.equal(
      (await call(t, "/q/raise", "many", 1.5)).map(({ wage }) => wage),
      [1.5, 1.5],
    );
    t.equal((await call(t, "/q/fire", "Bob")).length, 1);
    t.equal(await call(t, "/q/names"), [{ name: "Ann" }, { name: "Cy" }]);
  },
  async groups(t) {
    await call(t, "/g/hire", "Ann", "lead", 2);
    await call(t, "/g/hireMany", ["Bob", "Cy", "Dan"]);
    t.equal(await call(t, "/g/summary"), [{ role: "many", n: 3, wages: 3 }]);
  },
};
