// What a client script is handed: requests, sockets and assertions.
import { isDeepStrictEqual, inspect } from "node:util";
import { load } from "./deps.mjs";
import { sleep, until, within } from "./process.mjs";

const WebSocket = load("ws");

/** A WebSocket client whose messages are read one by one. */
export class Socket {
  constructor(url, protocols, options) {
    this.ws = new WebSocket(url.replace(/^http/, "ws"), protocols, options);
    this.messages = [];
    this.waiting = [];
    this.pings = [];
    this.ws.on("message", (data, binary) => {
      const message = binary ? new Uint8Array(data) : data.toString();
      const next = this.waiting.shift();
      if (next) next(message);
      else this.messages.push(message);
    });
    this.closed = new Promise((resolve) => {
      this.ws.on("close", (code, reason) =>
        resolve({ code, reason: reason.toString() }),
      );
    });
    this.opened = new Promise((resolve, reject) => {
      this.ws.on("open", resolve);
      this.ws.on("error", reject);
      this.ws.on("unexpected-response", (_, response) =>
        reject(new Error(`upgrade answered ${response.statusCode}`)),
      );
    });
    this.opened.catch(() => {});
  }

  send(data) {
    this.ws.send(data);
  }

  /** The next message, as a string or bytes. */
  next(ms = 5_000) {
    if (this.messages.length > 0) {
      return Promise.resolve(this.messages.shift());
    }
    const message = new Promise((resolve) => this.waiting.push(resolve));
    return within(message, ms, "a WebSocket message");
  }

  /** Starts the closing handshake and waits for its end. */
  close(code, reason) {
    this.ws.close(code, reason);
    return within(this.closed, 5_000, "the close of a WebSocket");
  }
}

/** The assertions and requests of one check against one server. */
export class Client {
  /** `after` is what lies between the phases of a check: "evict", "kill" or nothing. */
  constructor(url, runtime, after = "") {
    this.url = url;
    this.runtime = runtime;
    this.after = after;
    /** What is to be called when the check ends. */
    this.closers = [];
    this.sockets = [];
  }

  fetch(path, init = {}) {
    return fetch(this.url + path, {
      redirect: "manual",
      signal: AbortSignal.timeout(15_000),
      ...init,
    });
  }

  async text(path, init) {
    return (await this.fetch(path, init)).text();
  }

  async json(path, init) {
    const text = await this.text(path, init);
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`${path} did not answer JSON: ${text.slice(0, 300)}`);
    }
  }

  async socket(path = "/", protocols = [], options = {}) {
    const socket = new Socket(this.url + path, protocols, options);
    this.sockets.push(socket);
    await within(socket.opened, 5_000, "a WebSocket upgrade");
    return socket;
  }

  equal(actual, expected, what = "value") {
    if (!isDeepStrictEqual(actual, expected)) {
      const show = (v) => inspect(v, { depth: 8, breakLength: Infinity });
      throw new Error(
        `${what}: expected ${show(expected)}, got ${show(actual)}`,
      );
    }
  }

  match(actual, pattern, what = "value") {
    if (!pattern.test(actual)) {
      throw new Error(`${what}: expected ${pattern}, got ${inspect(actual)}`);
    }
  }

  sleep = sleep;
  until = until;
  within = within;

  dispose() {
    for (const close of this.closers.splice(0)) close();
    for (const { ws } of this.sockets) ws.terminate();
  }
}
