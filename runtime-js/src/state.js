// `ctx` of a Durable Object.
// @ts-check

import { core } from "ext:core/mod.js";
import {
  op_auto_response_get,
  op_auto_response_set,
  op_auto_response_time,
  op_cell_sockets,
  op_event_timeout_get,
  op_event_timeout_set,
} from "ext:core/ops";
import { currentEvent } from "./context.js";
import { logException } from "./console.js";
import { illegalInvocation } from "./errors.js";
import { wrongArgument } from "./receive.js";
import { DurableObjectStorage } from "./storage.js";
import { acceptHibernatable, isSocket, resumeSocket, socketRid, socketTags } from "./websocket.js";

import { Cell } from "./cell.js";

/** Longest event timeout for hibernatable sockets, in ms. */
const EVENT_TIMEOUT_MAX_MS = 604_800_000;
/** Most tags of a hibernatable socket. */
const TAGS_MAX = 10;
/** Longest tag, in bytes of UTF-8. */
const TAG_MAX_BYTES = 256;
/** Longest request and answer of an auto-response, in bytes of UTF-8. */
const AUTO_RESPONSE_MAX_BYTES = 2048;

/** @param {string} method @param {number} at @param {string} type */
function wrongType(method, at, type) {
  return new TypeError(
    `Failed to execute '${method}' on 'DurableObjectState': parameter ${at} is not of type '${type}'.`,
  );
}

/** @param {string} method @param {unknown} socket */
function requireSocket(method, socket) {
  if (!isSocket(socket)) throw wrongType(method, 1, "WebSocket");
}

/** A request and its answer that need no waking of the object. */
export class WebSocketRequestResponsePair {
  #request;
  #response;

  /** @param {string} request @param {string} response */
  constructor(request, response) {
    if (arguments.length < 2)
      throw new TypeError(
        `Failed to construct 'WebSocketRequestResponsePair': constructor parameter ${arguments.length + 1} is not of type 'string'.`,
      );
    this.#request = String(request);
    this.#response = String(response);
  }

  get request() {
    return this.#request;
  }

  get response() {
    return this.#response;
  }
}

/** @type {(cell: Cell) => any} */
let exportsFor = () => ({});

/** @param {(cell: Cell) => any} make */
export function setExports(make) {
  exportsFor = make;
}

export class DurableObjectState {
  #cell;
  #storage;

  /** @param {Cell} cell @param {boolean} sqlite @param {any} props */
  constructor(cell, sqlite, props) {
    if (!Cell.isCell(cell)) throw new TypeError("Illegal constructor");
    this.#cell = cell;
    this.#storage = new DurableObjectStorage(cell, sqlite);
    this.props = props;
  }

  get id() {
    return this.#cell.id;
  }

  get storage() {
    return this.#storage;
  }

  get exports() {
    return exportsFor(this.#cell);
  }

  /** @param {unknown} promise */
  waitUntil(promise) {
    const event = currentEvent();
    if (event !== null && event.cell === this.#cell && event.id !== 0) event.waitUntil(promise);
    else Promise.resolve(promise).catch((error) => logException(error, "Uncaught (in waitUntil) "));
  }

  /**
   * @template T
   * @param {() => Promise<T>} callback
   * @returns {Promise<T>}
   */
  blockConcurrencyWhile(callback) {
    if (typeof callback !== "function")
      return Promise.reject(wrongArgument("blockConcurrencyWhile", "DurableObjectState", 1, "function"));
    this.#cell.check();
    return this.#cell.critical(callback, true);
  }

  /** @param {any} [reason] */
  abort(reason) {
    const error = new Error(
      reason === undefined ? "Application called abort() to reset Durable Object." : String(reason),
    );
    this.#cell.break(error);
    throw error;
  }

  /**
   * @param {WebSocket} socket
   * @param {string[]} [tags]
   */
  acceptWebSocket(socket, tags = []) {
    this.#cell.check();
    requireSocket("acceptWebSocket", socket);
    if (!Array.isArray(tags)) throw wrongType("acceptWebSocket", 2, "Array");
    const list = [...new Set(tags.map(String))];
    if (list.length > TAGS_MAX) throw new Error("a Hibernatable WebSocket cannot have more than 10 tags");
    for (const tag of list) {
      if (core.byteLength(tag) > TAG_MAX_BYTES)
        throw new Error(`"${tag}" is longer than the max tag length (256 characters).`);
    }
    acceptHibernatable(socket, list, this.#cell.slot);
    this.#cell.sockets.set(socketRid(socket), socket);
  }

  /** @param {string} [tag] @returns {WebSocket[]} */
  getWebSockets(tag) {
    this.#cell.check();
    const flat = op_cell_sockets(this.#cell.slot, tag === undefined ? null : String(tag));
    const sockets = [];
    for (let i = 0; i < flat.length; i += 2) sockets.push(cellSocket(this.#cell, flat[i], flat[i + 1]));
    return sockets;
  }

  /** @param {WebSocket} socket @returns {string[]} */
  getTags(socket) {
    requireSocket("getTags", socket);
    return socketTags(socket);
  }

  /** @param {WebSocketRequestResponsePair} [pair] */
  setWebSocketAutoResponse(pair) {
    this.#cell.check();
    if (pair === undefined) {
      op_auto_response_set(this.#cell.slot, null, null);
      return;
    }
    if (!(pair instanceof WebSocketRequestResponsePair))
      throw wrongType("setWebSocketAutoResponse", 1, "WebSocketRequestResponsePair");
    for (const [what, text] of [
      ["Request", pair.request],
      ["Response", pair.response],
    ]) {
      const bytes = core.byteLength(text);
      if (bytes > AUTO_RESPONSE_MAX_BYTES)
        throw new RangeError(
          `${what} cannot be larger than 2048 bytes. A ${what.toLowerCase()} of size ${bytes} was provided.`,
        );
    }
    op_auto_response_set(this.#cell.slot, pair.request, pair.response);
  }

  getWebSocketAutoResponse() {
    this.#cell.check();
    const pair = op_auto_response_get(this.#cell.slot);
    return pair === null ? null : new WebSocketRequestResponsePair(pair[0], pair[1]);
  }

  /** @param {WebSocket} socket */
  getWebSocketAutoResponseTimestamp(socket) {
    requireSocket("getWebSocketAutoResponseTimestamp", socket);
    const at = op_auto_response_time(socketRid(socket));
    return at === 0 ? null : new Date(at);
  }

  /** @param {number} [timeout] */
  setHibernatableWebSocketEventTimeout(timeout) {
    const ms = timeout === undefined || timeout === null ? 0 : Math.trunc(Number(timeout));
    if (Number.isNaN(ms)) throw new TypeError("The value cannot be converted because it is not an integer.");
    if (ms < 0)
      throw new TypeError(
        "The value cannot be converted because it is negative and this API expects a positive number.",
      );
    if (ms > 0xffffffff) throw new TypeError("Value out of range. Must be less than or equal to 4294967295.");
    if (ms > EVENT_TIMEOUT_MAX_MS)
      throw new Error(`Event timeout should not exceed ${EVENT_TIMEOUT_MAX_MS} ms.`);
    op_event_timeout_set(this.#cell.slot, ms);
  }

  getHibernatableWebSocketEventTimeout() {
    const ms = op_event_timeout_get(this.#cell.slot);
    return ms === 0 ? null : ms;
  }

  get [Symbol.toStringTag]() {
    return "DurableObjectState";
  }

  /** @param {any} value */
  static #owns(value) {
    return typeof value === "object" && value !== null && #cell in value;
  }

  static {
    // A method that is taken off `ctx` says so, in words that people can look up.
    for (const [name, { value: method }] of Object.entries(
      Object.getOwnPropertyDescriptors(this.prototype),
    )) {
      if (typeof method !== "function" || name === "constructor") continue;
      const checked = {
        /** @param {any[]} args */
        [name](...args) {
          if (!DurableObjectState.#owns(this)) throw illegalInvocation();
          return Reflect.apply(method, this, args);
        },
      };
      Object.defineProperty(this.prototype, name, { value: checked[name] });
    }
  }

  get facets() {
    throw new Error("ctx.facets is not supported by this version of celld.");
  }

  get container() {
    return undefined;
  }
}

/**
 * The one object that stands for a hibernatable socket in this instance.
 * @param {Cell} cell
 * @param {number} rid
 * @param {number} closing what is known of its closing handshake
 */
export function cellSocket(cell, rid, closing) {
  let socket = cell.sockets.get(rid);
  if (socket === undefined) {
    socket = resumeSocket(rid, closing);
    cell.sockets.set(rid, socket);
  }
  return socket;
}
