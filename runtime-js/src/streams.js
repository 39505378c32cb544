// Stream classes that only Workers have.
// @ts-check

import { chunkBytes, fixedLength } from "./bodies.js";
import { streams } from "./web.js";

const { ReadableStream, WritableStream, TransformStream, ReadableStreamBYOBReader } = streams;

/**
 * A byte pipe: what is written comes out, unchanged, and a write waits for its reader.
 * @param {(length: number) => void} onChunk
 * @param {() => void} onEnd throws when the end comes too early
 */
function bytePipe(onChunk, onEnd) {
  /** @type {any} */
  let controller;
  /** @type {(() => void) | null} */
  let wanted = null;
  let demand = Promise.resolve();
  const arm = () => {
    demand = new Promise((resolve) => {
      wanted = () => resolve(undefined);
    });
  };
  arm();
  /** @type {any} */
  let failure = null;
  const readable = new ReadableStream({
    type: "bytes",
    start(/** @type {any} */ c) {
      controller = c;
    },
    pull() {
      wanted?.();
    },
    cancel(/** @type {unknown} */ reason) {
      failure = { reason };
      wanted?.();
    },
  });
  /** Runs a check whose failure is the reader's as well. @param {() => void} check */
  const failing = (check) => {
    try {
      check();
    } catch (error) {
      controller.error(error);
      throw error;
    }
  };
  const writable = new WritableStream({
    async write(chunk) {
      const bytes = chunkBytes(chunk);
      failing(() => onChunk(bytes.byteLength));
      if (bytes.byteLength === 0) return;
      await demand;
      if (failure !== null) throw failure.reason;
      arm();
      // A byte stream takes ownership of the buffer; the writer keeps its own.
      controller.enqueue(bytes.slice());
    },
    close() {
      failing(onEnd);
      controller.close();
      controller.byobRequest?.respond(0);
    },
    abort(reason) {
      controller.error(reason);
    },
  });
  return { readable, writable };
}

export class IdentityTransformStream extends TransformStream {
  #pipe;

  constructor() {
    super();
    this.#pipe = bytePipe(
      () => {},
      () => {},
    );
  }

  get readable() {
    return this.#pipe.readable;
  }

  get writable() {
    return this.#pipe.writable;
  }
}

export class FixedLengthStream extends TransformStream {
  #pipe;

  /** @param {number | bigint} expected total length in bytes */
  constructor(expected) {
    super();
    const total = Number(expected);
    if (!Number.isSafeInteger(total) || total < 0)
      throw new TypeError("FixedLengthStream requires an integer expected length less than 2^53.");
    let seen = 0;
    this.#pipe = bytePipe(
      (length) => {
        seen += length;
        if (seen > total) throw new TypeError("Attempt to write too many bytes through a FixedLengthStream.");
      },
      () => {
        if (seen < total)
          throw new TypeError("FixedLengthStream did not see all expected bytes before close().");
      },
    );
    fixedLength.set(this.#pipe.readable, total);
  }

  get readable() {
    return this.#pipe.readable;
  }

  get writable() {
    return this.#pipe.writable;
  }
}

Object.defineProperty(ReadableStreamBYOBReader.prototype, "readAtLeast", {
  value: function readAtLeast(/** @type {number} */ minimum, /** @type {ArrayBufferView} */ view) {
    return this.read(view, { min: minimum });
  },
  writable: true,
  enumerable: true,
  configurable: true,
});
