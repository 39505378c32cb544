export default {
  "messages reach the object that comes back": [
    async (t) => {
      const socket = await t.socket("/?room=wake&who=ann");
      socket.send("one");
      t.equal(await socket.next(), "ann: one");
      return socket;
    },
    async (t, socket) => {
      socket.send("two");
      t.equal(await socket.next(), "ann: two");
      socket.send(new Uint8Array(3));
      t.equal(await socket.next(), "ann: 3");
      return socket;
    },
    async (t, socket) => {
      socket.send("three");
      t.equal(await socket.next(), "ann: three");
    },
  ],
  "attachments and tags are kept, memory is not": [
    async (t) => {
      await t.socket("/?room=kept&who=ann&tag=even&tag=a");
      await t.socket("/?room=kept&who=bob&tag=odd");
      t.equal((await t.json("/state?room=kept")).memory, "in memory");
    },
    async (t) => {
      const state = await t.json("/state?room=kept");
      const at = new Date(5).toJSON();
      const both = [
        { who: "ann", at },
        { who: "bob", at },
      ];
      const byName = (a, b) => (a.who < b.who ? -1 : 1);
      t.equal(state.attachments.sort(byName), both);
      t.equal(state.tags.map((list) => list.sort().join()).sort(), [
        "a,even",
        "odd",
      ]);
      t.equal([state.even, state.states], [1, [1, 1]]);
      if (t.after && t.runtime === "celld") {
        t.equal([state.found.sort(byName), state.memory], [both, null]);
      }
    },
  ],
  "the auto-response outlives the object's memory": [
    async (t) => {
      const socket = await t.socket("/?room=auto&who=ann");
      t.equal(await t.text("/auto?room=auto"), "set");
      return socket;
    },
    async (t, socket) => {
      socket.send("ping");
      t.equal(await socket.next(), "pong");
      t.equal((await t.json("/state?room=auto")).auto, "pong");
    },
  ],
  "a close by the client wakes the object": [
    (t) => t.socket("/?room=bye&who=ann"),
    async (t, socket) => {
      t.equal((await socket.close(4005, "bye")).code, 4005);
      const closed = await t.until(
        async () => (await t.json("/state?room=bye")).closed,
        5_000,
        "webSocketClose",
      );
      t.equal(closed, {
        who: "ann",
        code: 4005,
        reason: "bye",
        wasClean: true,
      });
    },
  ],
  "the woken object closes": [
    (t) => t.socket("/?room=close&who=ann"),
    async (t, socket) => {
      socket.send("close");
      t.equal(await t.within(socket.closed, 5_000, "close"), {
        code: 4002,
        reason: "by the object",
      });
    },
  ],
};
