// Closing handshakes of hibernatable sockets with clients on the wire.
import net from "node:net";
import { sleep, until, within } from "../../support/process.mjs";

/** A client that answers nothing by itself: it shows the frames that arrive. */
export class RawSocket {
  constructor(url, path) {
    const { port, host } = new URL(url);
    this.bytes = Buffer.alloc(0);
    this.frames = [];
    this.ended = false;
    this.socket = net.connect(Number(port), "127.0.0.1");
    this.socket.on("error", () => {});
    this.socket.write(
      `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    );
    this.opened = new Promise((resolve) => {
      let head = true;
      this.socket.on("data", (part) => {
        this.bytes = Buffer.concat([this.bytes, part]);
        if (head) {
          const end = this.bytes.indexOf("\r\n\r\n");
          if (end < 0) return;
          head = false;
          this.bytes = this.bytes.subarray(end + 4);
          resolve();
        }
        this.#read();
      });
    });
    this.closed = new Promise((resolve) =>
      this.socket.on("close", () => {
        this.ended = true;
        resolve();
      }),
    );
  }

  #read() {
    while (this.bytes.length >= 2 && this.bytes.length >= 2 + this.bytes[1]) {
      const payload = this.bytes.subarray(2, 2 + this.bytes[1]);
      const opcode = this.bytes[0] & 15;
      if (opcode === 8) {
        const code = payload.length ? payload.readUInt16BE() : "none";
        this.frames.push(`close ${code} ${payload.subarray(2)}`);
      } else if (opcode === 1) this.frames.push(String(payload));
      else this.frames.push(`opcode ${opcode} ${payload.toString("hex")}`);
      this.bytes = this.bytes.subarray(2 + this.bytes[1]);
    }
  }

  /** Sends a frame of fewer than 126 bytes; `masked` as the protocol demands. */
  send(opcode, payload, masked = true) {
    const body = Buffer.from(payload);
    const mask = masked ? Buffer.from([1, 2, 3, 4]) : Buffer.alloc(0);
    const bytes = masked ? body.map((byte, i) => byte ^ mask[i % 4]) : body;
    const head = Buffer.from([
      0x80 | opcode,
      (masked ? 0x80 : 0) | body.length,
    ]);
    this.socket.write(Buffer.concat([head, mask, bytes]));
  }

  text(text) {
    this.send(1, text);
  }

  close(code, reason = "") {
    const head = Buffer.alloc(code === undefined ? 0 : 2);
    if (code !== undefined) head.writeUInt16BE(code);
    this.send(8, Buffer.concat([head, Buffer.from(reason)]));
  }
}

export async function raw(t, path) {
  const socket = new RawSocket(t.url, path);
  t.sockets.push({ ws: { terminate: () => socket.socket.destroy() } });
  await within(socket.opened, 5_000, "an upgrade");
  return socket;
}

async function notes(t, room, count) {
  const all = [];
  await until(
    async () => {
      all.push(...(await t.json(`/${room}/log`)));
      return all.length >= count;
    },
    3_000,
    `${count} notes`,
  ).catch(() => {});
  await sleep(50);
  all.push(...(await t.json(`/${room}/log`)));
  return all;
}

const set = (t, room, fields) =>
  t.json(`/${room}/set`, { method: "POST", body: JSON.stringify(fields) });

/** Observations by name; the cases hold what each date makes of them. */
export const closings = {
  async "the client closes and the handler does not answer"(t) {
    const socket = await raw(t, "/w1/");
    socket.close(4001, "bye");
    const noted = await notes(t, "w1", 5);
    await sleep(200);
    return [...noted, socket.frames, await t.json("/w1/count")];
  },
  async "the client closes and the handler answers"(t) {
    await set(t, "w2", { answer: [4002, "answer"] });
    const socket = await raw(t, "/w2/");
    socket.close(4001, "bye");
    const noted = await notes(t, "w2", 7);
    await sleep(200);
    return [...noted, socket.frames, socket.ended, await t.json("/w2/count")];
  },
  async "the client closes without a code"(t) {
    const socket = await raw(t, "/w3/");
    socket.close();
    const noted = await notes(t, "w3", 5);
    await sleep(200);
    return [...noted, socket.frames];
  },
  async "the object closes and the client answers"(t) {
    const socket = await raw(t, "/w4/");
    socket.text(JSON.stringify({ do: "close", code: 4003, reason: "out" }));
    await until(() => socket.frames.length > 0, 3_000, "a close frame");
    const before = [
      await t.json("/w4/count"),
      await t.json("/w4/each?run=state"),
    ];
    socket.close(4003, "mine");
    const noted = await notes(t, "w4", 5);
    return [
      before,
      ...noted,
      socket.frames,
      socket.ended,
      await t.json("/w4/count"),
    ];
  },
  async "the object closes and the client talks on"(t) {
    const socket = await raw(t, "/w5/");
    socket.text(JSON.stringify({ do: "close", code: 4003, reason: "out" }));
    await until(() => socket.frames.length > 0, 3_000, "a close frame");
    socket.text("behind the close");
    const noted = await notes(t, "w5", 1);
    return [...noted, socket.frames];
  },
  async "the object closes and the client goes away"(t) {
    const socket = await raw(t, "/w6/");
    socket.text(JSON.stringify({ do: "close", code: 4003, reason: "out" }));
    await until(() => socket.frames.length > 0, 3_000, "a close frame");
    socket.socket.destroy();
    return [...(await notes(t, "w6", 5)), await t.json("/w6/count")];
  },
  async "the client goes away"(t) {
    const socket = await raw(t, "/w7/?attach=a&tag=t");
    socket.socket.destroy();
    return [...(await notes(t, "w7", 5)), await t.json("/w7/count")];
  },
  async "an object that is aborted"(t) {
    const socket = await raw(t, "/w8/");
    socket.text(JSON.stringify({ do: "abort" }));
    await within(socket.closed, 5_000, "the end");
    return [socket.frames, await t.json("/w8/log"), await t.json("/w8/count")];
  },
};

/**
 * Checks that hold each observation against its expectation: a list, or a list for each runtime
 * where they differ on purpose.
 */
export const checks = (expected) =>
  Object.fromEntries(
    Object.entries(closings).map(([name, observe]) => [
      name,
      async (t) => {
        const wanted = expected[name];
        t.equal(await observe(t), wanted[t.runtime] ?? wanted);
      },
    ]),
  );
