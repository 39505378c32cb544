// `ctx` of a Durable Object.
// @ts-check

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
import { DurableObjectStorage } from "./storage.js";
import { WebSocket, acceptHibernatable, resumeSocket, socketRid, socketTags } from "./websocket.js";

import { Cell } from "./cell.js";

/** Longest event timeout for hibernatable sockets, in ms. */
const EVENT_TIMEOUT_MAX_MS = 604_800_000;

/** A request and its answer that need no waking of the object. */
export class WebSocketRequestResponsePair {
  #request;
  #response;

  /** @param {string} request @param {string} response */
  constructor(request, response) {
    if (arguments.length < 2)
      throw new TypeError("Failed to construct 'WebSocketRequestResponsePair': 2 arguments required.");
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
    if (!(socket instanceof WebSocket))
      throw new TypeError(
        "Failed to execute 'acceptWebSocket' on 'DurableObjectState': parameter 1 is not of type 'WebSocket'.",
      );
    const list = [...new Set(Array.from(tags, String))];
    if (list.length > 10) throw new Error("a Hibernatable WebSocket cannot have more than 10 tags");
    for (const tag of list) {
      if (tag.length > 256) throw new Error(`"${tag}" is longer than the max tag length (256 characters).`);
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
    return socketTags(socket);
  }

  /** @param {WebSocketRequestResponsePair} [pair] */
  setWebSocketAutoResponse(pair) {
    this.#cell.check();
    if (pair === undefined || pair === null) {
      op_auto_response_set(this.#cell.slot, null, null);
      return;
    }
    for (const [what, text] of [
      ["Request", pair.request],
      ["Response", pair.response],
    ]) {
      if (text.length > 2048)
        throw new RangeError(
          `${what} cannot be larger than 2048 bytes. A ${what.toLowerCase()} of size ${text.length} was provided.`,
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
    const at = op_auto_response_time(socketRid(socket));
    return at === 0 ? null : new Date(at);
  }

  /** @param {number} [timeout] */
  setHibernatableWebSocketEventTimeout(timeout) {
    const ms = timeout === undefined || timeout === null ? 0 : Number(timeout);
    if (!(ms >= 0) || ms > EVENT_TIMEOUT_MAX_MS)
      throw new RangeError(`Event timeout must be between 0 and ${EVENT_TIMEOUT_MAX_MS} ms.`);
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
 * @param {number} state
 */
export function cellSocket(cell, rid, state) {
  let socket = cell.sockets.get(rid);
  if (socket === undefined) {
    socket = resumeSocket(rid, state);
    cell.sockets.set(rid, socket);
  }
  return socket;
}
