export default {
  async "parameters and queries"(t) {
    t.equal(await t.json("/items/7?a=1&a=2"), {
      id: "7",
      query: { a: ["1", "2"] },
    });
  },
  async "JSON bodies"(t) {
    const init = { method: "POST", body: '{"x":[1]}' };
    t.equal(await t.json("/items", init), { got: { x: [1] } });
  },
  async "errors are JSON"(t) {
    t.equal(await t.json("/fails"), { status: 418, error: "short and stout" });
    t.equal((await t.fetch("/throws")).status, 500);
    t.equal((await t.fetch("/none")).status, 404);
  },
  async "CORS headers are added"(t) {
    const { headers } = await t.fetch("/items/1");
    t.equal(headers.get("access-control-allow-origin"), "*");
  },
};
