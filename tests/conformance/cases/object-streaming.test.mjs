export default {
  async "a large body reaches the object"(t) {
    const body = Buffer.alloc(3_000_000, 7);
    t.equal(await t.text("/count", { method: "POST", body }), "3000000");
  },
  async "chunks leave one by one"(t) {
    const response = await t.fetch("/parts");
    const reader = response.body.getReader();
    const first = await reader.read();
    t.equal(Buffer.from(first.value).toString(), "part 0\n");
    await t.text("/release");
    let rest = "";
    for (
      let next = await reader.read();
      !next.done;
      next = await reader.read()
    ) {
      rest += Buffer.from(next.value).toString();
    }
    t.equal(rest, "part 1\npart 2\n");
  },
};
