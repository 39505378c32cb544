// The public listener speaks HTTP/1.1 and HTTP/2 without TLS, WebSockets on both:
//   node tests/protocols/run.mjs [--celld PATH]
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import http2 from "node:http2";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { dev } from "../support/celld.mjs";
import { Client } from "../support/client.mjs";
import { within } from "../support/process.mjs";
import { checker, print } from "../support/report.mjs";
import { readText, textFrame } from "./frames.mjs";

const { values: options } = parseArgs({
  options: { celld: { type: "string", default: process.env.CELLD ?? "" } },
});

/** Runs `body` with an HTTP/2 session by prior knowledge. */
async function session(t, body) {
  const client = http2.connect(t.url);
  try {
    await new Promise((resolve, reject) => {
      client.once("connect", resolve);
      client.once("error", reject);
    });
    return await body(client);
  } finally {
    client.destroy();
  }
}

function ask(client, headers, body) {
  const stream = client.request(headers);
  const done = new Promise((resolve, reject) => {
    let head;
    const parts = [];
    stream.on("response", (seen) => (head = seen));
    stream.on("data", (part) => parts.push(part));
    stream.on("error", reject);
    stream.on("end", () => resolve({ head, body: Buffer.concat(parts) }));
  });
  stream.end(body);
  return done;
}

/** Opens a WebSocket by extended CONNECT, sends one text and returns the answer. */
async function talk(client, path) {
  if (!client.remoteSettings.enableConnectProtocol) {
    await new Promise((resolve) => client.once("remoteSettings", resolve));
  }
  const stream = client.request({
    ":method": "CONNECT",
    ":protocol": "websocket",
    ":path": path,
    ":scheme": "http",
    "sec-websocket-version": "13",
  });
  const head = await new Promise((resolve, reject) => {
    stream.once("response", resolve);
    stream.once("error", reject);
  });
  stream.write(textFrame("over h2"));
  let bytes = Buffer.alloc(0);
  const answer = new Promise((resolve) => {
    stream.on("data", (part) => {
      bytes = Buffer.concat([bytes, part]);
      const text = readText(bytes);
      if (text !== null) resolve(text);
    });
  });
  const text = await within(answer, 5_000, "a frame");
  stream.close();
  return [head[":status"], text];
}

/** Sends bytes and returns everything that comes back. */
function exchange(t, bytes) {
  const { port } = new URL(t.url);
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), "127.0.0.1");
    let text = "";
    socket.setTimeout(5_000, () => socket.destroy(new Error("timed out")));
    socket.on("data", (part) => (text += part));
    socket.on("error", reject);
    socket.on("end", () => resolve(text));
    socket.write(bytes);
  });
}

const checks = {
  async "HTTP/2: a request and its answer"(t) {
    await session(t, async (client) => {
      const { head, body } = await ask(
        client,
        { ":path": "/echo", ":method": "POST" },
        "payload",
      );
      t.equal(
        [head[":status"], head["x-method"], String(body)],
        [200, "POST", "payload"],
      );
      t.equal(head["x-host"], new URL(t.url).host);
    });
  },
  async "HTTP/2: many requests share a connection"(t) {
    await session(t, async (client) => {
      const all = Array.from({ length: 60 }, (_, i) =>
        ask(client, { ":path": `/slow?ms=${50 + (i % 7) * 5}&i=${i}` }),
      );
      const began = Date.now();
      const answers = await Promise.all(all);
      t.equal(
        answers.map(({ head }) => head[":status"]),
        Array(60).fill(200),
      );
      t.equal(Date.now() - began < 2_000, true, "they ran side by side");
    });
  },
  async "HTTP/2: megabytes in both directions"(t) {
    await session(t, async (client) => {
      const sent = Buffer.alloc(3_000_000, "abc");
      const { body } = await ask(
        client,
        { ":path": "/echo", ":method": "PUT" },
        sent,
      );
      t.equal(Buffer.compare(body, sent), 0);
    });
  },
  async "HTTP/2: a reset stream cancels the answer"(t) {
    await session(t, async (client) => {
      const stream = client.request({ ":path": "/endless" });
      stream.on("error", () => {});
      await new Promise((resolve) => stream.once("data", resolve));
      stream.close(http2.constants.NGHTTP2_CANCEL);
      const seen = async () =>
        String((await ask(client, { ":path": "/cancelled" })).body) === "1";
      await t.until(seen, 5_000, "cancel()");
    });
  },
  async "HTTP/2: a WebSocket to the Worker"(t) {
    await session(t, async (client) => {
      t.equal(await talk(client, "/socket"), [200, "worker over h2"]);
    });
  },
  async "HTTP/2: a WebSocket to an object"(t) {
    await session(t, async (client) => {
      t.equal(await talk(client, "/room"), [200, "object over h2"]);
    });
  },
  async "HTTP/1.1: a WebSocket to each"(t) {
    for (const [path, text] of [
      ["/socket", "worker hi"],
      ["/room", "object hi"],
    ]) {
      const socket = await t.socket(path);
      socket.send("hi");
      t.equal(await socket.next(), text);
    }
  },
  async "HTTP/1.1: pipelined requests are answered in order"(t) {
    const one = (ms, close) =>
      `GET /slow?ms=${ms} HTTP/1.1\r\nHost: x\r\n${close ? "Connection: close\r\n" : ""}\r\n`;
    const text = await exchange(t, one(40) + one(1) + one(2, true));
    t.equal(text.match(/\?ms=\d+/g), ["?ms=40", "?ms=1", "?ms=2"]);
  },
  async "HTTP/1.1: Expect: 100-continue is answered"(t) {
    const text = await exchange(
      t,
      "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
    );
    t.match(text, /^HTTP\/1\.1 100 [^]*HTTP\/1\.1 200 [^]*hi/);
  },
  async "HTTP/1.0: the connection is closed"(t) {
    const text = await exchange(t, "GET / HTTP/1.0\r\nHost: x\r\n\r\n");
    t.match(text, /^HTTP\/1\.[01] 200 [^]*hello$/);
  },
  async "HTTP/1.1: chunked requests with trailers are read"(t) {
    const text = await exchange(
      t,
      "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n",
    );
    t.match(text, /abc[^]*de/);
  },
};

if (!options.celld) {
  console.error("say where celld is: --celld PATH");
  process.exit(2);
}
const scratch = mkdtempSync(join(tmpdir(), "celld-protocols-"));
const results = [];
try {
  const source = fileURLToPath(new URL("project", import.meta.url));
  cpSync(source, scratch, { recursive: true });
  const server = await dev(options.celld, scratch);
  const client = new Client(server.url, "celld");
  const check = checker(results, { case: "protocols", runtime: "celld" });
  for (const [name, body] of Object.entries(checks)) {
    await check(name, () => body(client));
    client.dispose();
  }
  await server.handle.stop();
  const failed = results.find(({ verdict }) => verdict !== "pass");
  if (failed) failed.log = server.handle.output.slice(-3_000);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(print({ cases: ["protocols"], results }) ? 0 : 1);
