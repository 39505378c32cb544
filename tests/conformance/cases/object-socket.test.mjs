export default {
  async "a client talks to an object through the Worker"(t) {
    const socket = await t.socket("/");
    socket.send("x");
    t.equal(await socket.next(), "x 1");
    const other = await t.socket("/");
    other.send("y");
    t.equal(await other.next(), "y 2");
    t.equal((await socket.close(1000, "")).code, 1000);
  },
};
