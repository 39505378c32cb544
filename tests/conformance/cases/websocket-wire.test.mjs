import { raw } from "../support/hibernation-wire.mjs";

const notes = async (t, path, count) => {
  await t
    .until(
      async () => ((await t.json(`${path}/notes`)) ?? []).length >= count,
      3_000,
      "notes",
    )
    .catch(() => {});
  return t.json(`${path}/notes`);
};

export default {
  async "the client closes"(t) {
    const socket = await raw(t, "/a");
    socket.close(4001, "bye");
    const seen = await notes(t, "/a", 1);
    await t.sleep(100);
    t.equal(
      [seen, socket.frames, socket.ended],
      [["close 4001 bye true in 3"], ["close 4001 bye"], true],
    );
  },
  async "the client closes without a code"(t) {
    const socket = await raw(t, "/b");
    socket.close();
    const seen = await notes(t, "/b", 1);
    await t.sleep(100);
    t.equal(
      [seen, socket.frames, socket.ended],
      [["close 1005  true in 3"], ["close none "], true],
    );
  },
  async "the client goes away"(t) {
    const socket = await raw(t, "/c");
    socket.socket.destroy();
    t.equal(await notes(t, "/c", 1), [
      "close 1006 WebSocket disconnected without sending Close frame. false in 1",
    ]);
  },
  async "the server closes and the client answers"(t) {
    const socket = await raw(t, "/d");
    socket.text("close");
    await t.until(() => socket.frames.length > 0, 3_000, "a frame");
    socket.close(4009, "mine");
    const seen = await notes(t, "/d", 1);
    await t.within(socket.closed, 5_000, "the end");
    t.equal(
      [seen, socket.frames],
      [["close 4009 mine true in 3"], ["close 4003 out"]],
    );
  },
  async "the server closes without a code"(t) {
    const socket = await raw(t, "/e");
    socket.text("close plain");
    await t.until(() => socket.frames.length > 0, 3_000, "a frame");
    t.equal(socket.frames, ["close none "]);
  },
  async "the server closes and the client goes away"(t) {
    const socket = await raw(t, "/f");
    socket.text("close");
    await t.until(() => socket.frames.length > 0, 3_000, "a frame");
    socket.socket.destroy();
    t.equal(await notes(t, "/f", 1), [
      "close 1006 WebSocket disconnected without sending Close frame. false in 2",
    ]);
  },
  async "the server closes and the client talks on"(t) {
    const socket = await raw(t, "/g");
    socket.text("close");
    await t.until(() => socket.frames.length > 0, 3_000, "a frame");
    socket.text("still here");
    t.equal(
      [await notes(t, "/g", 1), socket.frames],
      [
        [
          "message still here",
          "error Uncaught TypeError: Can't call WebSocket send() after close().",
        ],
        ["close 4003 out"],
      ],
    );
  },
  async "a listener that throws"(t) {
    const socket = await raw(t, "/h");
    socket.text("throw");
    await t.sleep(300);
    t.equal(
      [await notes(t, "/h", 1), socket.frames, socket.ended],
      [["error Uncaught Error: in a listener"], [], true],
    );
  },
  async "pings are answered and not told"(t) {
    const socket = await raw(t, "/i");
    socket.send(9, "beat");
    socket.send(10, "unasked pong");
    socket.text("x");
    await t.until(() => socket.frames.length >= 2, 3_000, "frames");
    t.equal(
      [socket.frames, await notes(t, "/i", 1)],
      [["opcode 10 62656174", "got x"], ["message x"]],
    );
  },
  async "messages up to and over the limit"(t) {
    const limit = 32 * 1024 * 1024;
    const whole = await t.socket("/j");
    whole.send(Buffer.alloc(limit));
    t.equal((await whole.next(9_000)).length, limit);
    const over = await t.socket("/k");
    over.send(Buffer.alloc(limit + 1));
    const { code } = await t.within(over.closed, 5_000, "a close");
    t.equal(
      [code, await notes(t, "/k", 1)],
      [
        1009,
        [
          "error Uncaught Error: WebSocket protocol error; protocolError.statusCode = 1009; protocolError.description = Message is too large",
        ],
      ],
    );
  },
};
