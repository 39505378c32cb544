export default {
  async "files are uploaded as they are"(t) {
    t.equal(await t.json("/"), {
      bytes: [0, 255, 128, 7],
      old: { answer: 42, exportsIsObject: "object" },
      twice: 42,
      text: "grüße\n",
      sum: 3,
      lazy: "lazy",
    });
  },
};
