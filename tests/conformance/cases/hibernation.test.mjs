export default {
  async "messages reach webSocketMessage"(t) {
    const socket = await t.socket("/a?room=echo&greet");
    t.equal(await socket.next(), "hello");
    socket.send("hi");
    t.equal(await socket.next(), "echo hi");
    socket.send(new Uint8Array([1, 2]));
    t.equal(
      [await socket.next(), await socket.next()],
      [new Uint8Array([1, 2]), "ArrayBuffer"],
    );
  },
  async "attachments are kept"(t) {
    const socket = await t.socket("/one?room=attach");
    socket.send("who");
    t.equal(JSON.parse(await socket.next()), { path: "/one", map: 1 });
    socket.send("note");
    t.equal(await socket.next(), "noted");
    t.equal((await t.json("/state?room=attach")).attachments, ["noted"]);
  },
  async "tags select sockets"(t) {
    const all = [];
    for (const tags of ["tag=even&tag=x", "tag=odd", "tag=even"]) {
      all.push(await t.socket(`/s?room=tags&${tags}`));
    }
    const state = await t.json("/state?room=tags");
    t.equal(
      [
        state.count,
        state.tagged,
        state.tags.map((list) => list.sort().join()).sort(),
      ],
      [3, 2, ["even", "even,x", "odd"]],
    );
    t.equal(await t.text("/broadcast?room=tags"), "sent");
    t.equal([await all[0].next(), await all[2].next()], ["to even", "to even"]);
    t.equal(all[1].messages, []);
  },
  async "the auto-response answers without the handler"(t) {
    const socket = await t.socket("/a?room=auto");
    t.equal((await t.json("/state?room=auto")).auto, [false]);
    socket.send("ping");
    t.equal(await socket.next(), "pong");
    t.equal((await t.json("/state?room=auto")).auto, [true]);
  },
  async "the object closes with code and reason"(t) {
    const socket = await t.socket("/a?room=close");
    socket.send("close");
    t.equal(await t.within(socket.closed, 5_000, "close"), {
      code: 4001,
      reason: "as you wish",
    });
  },
  async "webSocketClose hears of a close by the client"(t) {
    const socket = await t.socket("/a?room=bye");
    t.equal((await socket.close(4005, "bye")).code, 4005);
    const closed = await t.until(
      async () => (await t.json("/state?room=bye")).closed,
      3_000,
      "webSocketClose",
    );
    t.equal(closed, { code: 4005, reason: "bye", wasClean: true });
    t.equal((await t.json("/state?room=bye")).count, 0);
  },
  async "webSocketClose hears of a lost client as 1006"(t) {
    const socket = await t.socket("/a?room=lost");
    socket.ws.terminate();
    const closed = await t.until(
      async () => (await t.json("/state?room=lost")).closed,
      3_000,
      "webSocketClose",
    );
    t.equal([closed.code, closed.wasClean], [1006, false]);
  },
  async "a handler that throws leaves other sockets open"(t) {
    const [one, two] = [
      await t.socket("/1?room=throw"),
      await t.socket("/2?room=throw"),
    ];
    one.send("throw");
    two.send("still here");
    t.equal(await two.next(), "echo still here");
  },
  async "messages keep their order"(t) {
    const socket = await t.socket("/a?room=order");
    for (let i = 0; i < 100; i++) socket.send(String(i));
    for (let i = 0; i < 100; i++) t.equal(await socket.next(), `echo ${i}`);
  },
};
