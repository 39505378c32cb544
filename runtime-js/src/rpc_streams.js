// Streams over RPC: the side that has the stream serves it, the other one asks chunk by chunk.
// @ts-check

import { core } from "ext:core/mod.js";
import { chunkBytes, supply } from "./bodies.js";
import { RpcTarget } from "./rpc_target.js";
import { streams } from "./web.js";

const { ReadableStream, WritableStream } = streams;

/** @typedef {import("./rpc_stubs.js").Hook} Hook */

/** Largest chunk that is sent at once, in bytes. */
const CHUNK_MAX_BYTES = 1024 * 1024;
/** Chunks that are asked for before the first has come. */
const READ_AHEAD = 2;

/** @param {string} message */
function retryable(message) {
  return Object.assign(new Error(message), { retryable: true });
}

/** Streams whose other side is elsewhere, so that one that nobody holds is let go. */
const unreachable = new FinalizationRegistry((/** @type {Hook} */ hook) => hook.dispose());

/** Serves a readable stream. */
class Source extends RpcTarget {
  #reader;
  #rest = /** @type {Uint8Array | null} */ (null);
  #ended = false;

  /** @param {any} reader */
  constructor(reader) {
    super();
    this.#reader = reader;
  }

  /** The next chunk; null at the end. */
  async read() {
    for (;;) {
      if (this.#rest !== null) {
        const chunk = this.#rest.subarray(0, CHUNK_MAX_BYTES);
        const rest = this.#rest.subarray(CHUNK_MAX_BYTES);
        this.#rest = rest.byteLength > 0 ? rest : null;
        return chunk.slice();
      }
      if (this.#ended) return null;
      let next;
      try {
        next = await this.#reader.read();
      } catch (error) {
        this.#ended = true;
        throw error;
      }
      if (next.done) {
        this.#ended = true;
        return null;
      }
      const bytes = typeof next.value === "string" ? core.encode(next.value) : chunkBytes(next.value);
      if (bytes.byteLength > 0) this.#rest = bytes;
    }
  }

  [Symbol.dispose]() {
    if (this.#ended) return;
    this.#ended = true;
    this.#reader.cancel(retryable("Network connection lost.")).catch(() => {});
  }
}

/** Serves a writable stream. */
class Sink extends RpcTarget {
  #writer;
  #ended = false;

  /** @param {any} writer */
  constructor(writer) {
    super();
    this.#writer = writer;
    writer.closed.catch(() => {});
  }

  /** @param {Uint8Array} chunk */
  async write(chunk) {
    await this.#writer.write(chunk.buffer);
  }

  async close() {
    this.#ended = true;
    await this.#writer.close();
  }

  [Symbol.dispose]() {
    if (this.#ended) return;
    this.#ended = true;
    const error = retryable(
      "WritableStream received over RPC was disconnected because the remote execution context has ended.",
    );
    this.#writer.abort(error).catch(() => {});
  }
}

/** @param {any} stream */
export function sourceOf(stream) {
  if (stream.locked) throw new TypeError("The ReadableStream has been locked to a reader.");
  return new Source(stream.getReader());
}

/** @param {any} stream */
export function sinkOf(stream) {
  if (stream.locked) throw new TypeError("This WritableStream is currently locked to a writer.");
  return new Sink(stream.getWriter());
}

/**
 * A stream that is read from elsewhere.
 * @param {Hook} hook
 */
export function streamFromSource(hook) {
  /** Chunks that were asked for. */
  const asked = /** @type {Promise<Uint8Array | null>[]} */ ([]);
  const done = () => {
    asked.length = 0;
    unreachable.unregister(hook);
    hook.dispose();
  };
  const stream = new ReadableStream({
    type: "bytes",
    async pull(controller) {
      while (asked.length < READ_AHEAD) asked.push(hook.call(["read"], []).promise);
      let chunk;
      try {
        chunk = await /** @type {Promise<Uint8Array | null>} */ (asked.shift());
      } catch {
        done();
        throw new Error("ReadableStream received over RPC disconnected prematurely.");
      }
      if (chunk === null) done();
      supply(controller, chunk);
    },
    cancel: done,
  });
  unreachable.register(stream, hook, hook);
  return stream;
}

/**
 * A stream that is written from here. A write is done when the other side has taken the chunk.
 * @param {Hook} hook
 */
export function streamFromSink(hook) {
  const done = () => {
    unreachable.unregister(hook);
    hook.dispose();
  };
  const stream = new WritableStream({
    async write(chunk) {
      const bytes = typeof chunk === "string" ? core.encode(chunk) : chunkBytes(chunk);
      for (let at = 0; at < bytes.byteLength; at += CHUNK_MAX_BYTES) {
        try {
          await hook.call(["write"], [bytes.slice(at, at + CHUNK_MAX_BYTES)]).promise;
        } catch (error) {
          done();
          throw error;
        }
      }
    },
    async close() {
      try {
        await hook.call(["close"], []).promise;
      } finally {
        done();
      }
    },
    abort: done,
  });
  unreachable.register(stream, hook, hook);
  return stream;
}
