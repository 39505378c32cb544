export default {
  async "an object that is reset closes its sockets"(t) {
    const socket = await t.socket("/?room=abort");
    socket.send("hi");
    t.equal(await socket.next(), "hi");
    socket.send("abort");
    t.equal((await t.within(socket.closed, 5_000, "close")).code, 1006);
  },
  async "an upgrade may be refused"(t) {
    const refusal = await t
      .socket("/refuse?room=r")
      .catch((error) => error.message);
    t.equal(refusal, "upgrade answered 403");
    const thrown = await t
      .socket("/throw?room=r")
      .catch((error) => error.message);
    t.equal(thrown, "upgrade answered 500");
  },
  async "the object hears of a lost client"(t) {
    const socket = await t.socket("/?room=lost");
    socket.send("hi");
    await socket.next();
    socket.ws.terminate();
    await t.until(
      async () => (await t.text("/lives?room=lost")) === "1",
      5_000,
      "the close event",
    );
  },
};
