// Bodies between JavaScript streams and the host's channels.
// @ts-check

import { core } from "ext:core/mod.js";
import {
  op_body_cancel,
  op_body_end,
  op_body_fail,
  op_body_open,
  op_body_read,
  op_body_write,
} from "ext:core/ops";
import { body as bodyApi, streams } from "./web.js";
import { ownedBy, throughGate } from "./context.js";
import { unwrap } from "./errors.js";

const { InnerBody } = bodyApi;
const { ReadableStream, isReadableStreamDisturbed } = streams;

const unread = new FinalizationRegistry((/** @type {number} */ rid) => op_body_cancel(rid));

/** Streams that still stand for an untouched host channel: they can move on without JavaScript. */
const native = new WeakMap();

/**
 * Hands a byte stream its next chunk, into the reader's own buffer where it fits.
 * @param {any} controller of a stream of type "bytes"
 * @param {Uint8Array | null} chunk null ends the stream
 */
export function supply(controller, chunk) {
  const request = controller.byobRequest;
  if (chunk === null) {
    controller.close();
    request?.respond(0);
    return;
  }
  const view = request?.view;
  if (view && view.byteLength >= chunk.byteLength) {
    new Uint8Array(view.buffer, view.byteOffset, chunk.byteLength).set(chunk);
    request.respond(chunk.byteLength);
  } else {
    controller.enqueue(chunk);
  }
}

/**
 * A stream that reads a body channel of the host.
 * @param {number} rid
 */
function hostStream(rid) {
  const check = ownedBy("ReadableStreamSource");
  const stream = new ReadableStream({
    type: "bytes",
    async pull(controller) {
      check();
      const chunk = /** @type {Uint8Array | null} */ (
        unwrap(/** @type {any} */ (await throughGate(op_body_read(rid))))
      );
      supply(controller, chunk);
    },
    cancel() {
      op_body_cancel(rid);
    },
  });
  native.set(stream, rid);
  // A body that nobody reads and nobody holds must not hold its sender.
  unread.register(stream, rid, stream);
  return stream;
}

/**
 * @param {Uint8Array | null} bytes a body that is here as a whole
 * @param {number} rid a body channel; 0 for none
 * @param {number} length declared length in bytes; -1 when unknown
 */
export function bodyFromHost(bytes, rid, length) {
  if (rid !== 0) {
    const body = new InnerBody(hostStream(rid));
    if (length >= 0) body.length = length;
    return body;
  }
  if (bytes === null) return null;
  const body = new InnerBody({ body: bytes, consumed: false });
  body.length = bytes.byteLength;
  return body;
}

/**
 * What the host needs to send a body on.
 * @typedef {object} OutgoingBody
 * @property {string | Uint8Array | null} whole
 * @property {number} rid
 * @property {number} length
 * @property {any} stream a stream that must be pumped into `rid`; null when there is nothing to do
 */

/**
 * Takes the body out of a request or an answer.
 * @param {any} inner InnerBody or null
 * @returns {OutgoingBody}
 */
export function bodyToHost(inner) {
  if (inner === null) return { whole: null, rid: 0, length: -1, stream: null };
  const held = inner.streamOrStatic;
  if (!(held instanceof ReadableStream)) {
    if (held.consumed)
      throw new TypeError(
        "Body has already been used. It can only be used once. Use tee() first if you need to read it twice.",
      );
    held.consumed = true;
    return { whole: held.body, rid: 0, length: -1, stream: null };
  }
  if (held.locked || isReadableStreamDisturbed(held)) {
    throw new TypeError(
      "Body has already been used. It can only be used once. Use tee() first if you need to read it twice.",
    );
  }
  const length = typeof inner.length === "number" ? inner.length : (fixedLength.get(held) ?? -1);
  const whole = wholes.get(held);
  if (whole !== undefined) {
    held.getReader();
    return { whole, rid: 0, length: -1, stream: null };
  }
  const rid = native.get(held);
  if (rid !== undefined) {
    native.delete(held);
    unread.unregister(held);
    held.getReader();
    return { whole: null, rid, length, stream: null };
  }
  return { whole: null, rid: op_body_open(length), length, stream: held };
}

/**
 * Takes the body out of a message that is sent by RPC.
 * @param {any} inner InnerBody or null
 * @returns {{ whole: string | Uint8Array | null, stream: any, length: number } | null}
 */
export function bodyToValue(inner) {
  if (inner === null) return null;
  const held = inner.streamOrStatic;
  if (held instanceof ReadableStream) {
    const whole = wholes.get(held);
    if (whole === undefined && !held.locked && !isReadableStreamDisturbed(held)) {
      const length = typeof inner.length === "number" ? inner.length : (fixedLength.get(held) ?? -1);
      return { whole: null, stream: held, length };
    }
  }
  const isUsed =
    held instanceof ReadableStream ? held.locked || isReadableStreamDisturbed(held) : held.consumed;
  if (isUsed) throw new TypeError("The ReadableStream has been locked to a reader.");
  const { whole } = bodyToHost(inner);
  return { whole, stream: null, length: -1 };
}

/**
 * The body of a message that came by RPC.
 * @param {string | Uint8Array | null} whole @param {any} stream @param {number} length
 */
export function bodyFromValue(whole, stream, length) {
  if (stream !== null) {
    if (!(stream instanceof ReadableStream)) throw new TypeError("malformed RPC value");
    const body = new InnerBody(stream);
    if (length >= 0) body.length = length;
    return body;
  }
  return whole === null ? null : bodyFromHost(typeof whole === "string" ? core.encode(whole) : whole, 0, -1);
}

/** Whole bodies that were turned into streams, by stream. */
const wholes = new WeakMap();

/**
 * Replaces a whole, unread body by a byte stream over it.
 * @param {any} inner InnerBody
 */
export function wholeToStream(inner) {
  const held = inner.streamOrStatic;
  if (held instanceof ReadableStream || held.consumed) return;
  const bytes = typeof held.body === "string" ? core.encode(held.body) : held.body;
  const stream = new ReadableStream({
    type: "bytes",
    pull(controller) {
      if (bytes.byteLength > 0) controller.enqueue(bytes.slice());
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
  wholes.set(stream, held.body);
  if (inner.length === null && typeof held.body !== "string") inner.length = bytes.byteLength;
  inner.streamOrStatic = stream;
}

/** Readable ends whose total length is known (FixedLengthStream). */
export const fixedLength = new WeakMap();

/**
 * Pumps a JavaScript stream into a body channel, as fast as the other side takes it.
 * @param {any} stream
 * @param {number} rid
 * @param {number} slot cell on whose behalf this happens: its output gate holds each chunk
 */
export async function pumpBody(stream, rid, slot) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const bytes = chunkBytes(value);
      if (bytes.byteLength > 0 && !(await throughGate(op_body_write(rid, bytes, slot)))) {
        op_body_end(rid);
        await reader.cancel(new Error("Network connection lost."));
        return;
      }
    }
    op_body_end(rid);
  } catch (error) {
    op_body_fail(rid, String(error));
    throw error;
  }
}

/** @param {unknown} value */
export function chunkBytes(value) {
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  throw new TypeError(
    typeof value === "string"
      ? "This TransformStream is being used as a byte stream, but received a string on its writable side. If you wish to write a string, you'll probably want to explicitly UTF-8-encode it with TextEncoder."
      : "This TransformStream is being used as a byte stream, but received an object of non-ArrayBuffer/ArrayBufferView type on its writable side.",
  );
}
