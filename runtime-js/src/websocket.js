// WebSocket, WebSocketPair and the sockets that a cell keeps while it hibernates.
// @ts-check

import { core } from "ext:core/mod.js";
import {
  op_socket_accept,
  op_socket_attach,
  op_socket_attachment,
  op_socket_close,
  op_socket_drop,
  op_socket_next,
  op_socket_pair,
  op_socket_send,
  op_socket_tags,
} from "ext:core/ops";
import { currentEvent, runAs } from "./context.js";
import { logException } from "./console.js";
import { domException, event as eventApi, file, url as urlApi } from "./web.js";

const { URL } = urlApi;

const { EventTarget, Event, ErrorEvent, CloseEvent, MessageEvent, defineEventHandler } = eventApi;
const { Blob } = file;

const CONNECTING = 0;
const OPEN = 1;
const CLOSING = 2;
const CLOSED = 3;

/** Who reads the socket. */
const FRESH = "fresh";
const ACCEPTED = "accepted";
const HIBERNATABLE = "hibernatable";
const HANDED_OVER = "handed over";

const PRIVATE = Symbol("celld");

/** What binary messages arrive as, by the Worker's compatibility date. */
let defaultBinaryType = "blob";

/** @param {"blob" | "arraybuffer"} type */
export function setDefaultBinaryType(type) {
  defaultBinaryType = type;
}

/** Makes a socket of the host's number; set by the class, out of reach of scripts. */
/** @type {(rid: number) => any} */
let makeSocket;
/** The runtime's side of a socket. */
/** @type {(socket: any) => any} */
let insideOf;

/** @param {string | undefined} reason */
function checkReason(reason) {
  if (reason !== undefined && core.byteLength(reason) > 123) {
    throw new SyntaxError("WebSocket close reason must not exceed 123 bytes when encoded as UTF-8.");
  }
}

/** @param {number} code */
function isSendable(code) {
  return code >= 1000 && code < 5000 && code !== 1004 && code !== 1005 && code !== 1006 && code !== 1015;
}

export class WebSocket extends EventTarget {
  static CONNECTING = CONNECTING;
  static OPEN = OPEN;
  static CLOSING = CLOSING;
  static CLOSED = CLOSED;
  static READY_STATE_CONNECTING = CONNECTING;
  static READY_STATE_OPEN = OPEN;
  static READY_STATE_CLOSING = CLOSING;
  static READY_STATE_CLOSED = CLOSED;

  #rid = 0;
  #state = OPEN;
  #use = FRESH;
  #url = /** @type {string | null} */ (null);
  #protocol = "";
  #extensions = "";
  #binaryType = defaultBinaryType;
  #sentClose = false;
  #gotClose = false;
  /** Frames sent before an outgoing connection is established. */
  #early = /** @type {(string | Uint8Array)[]} */ ([]);

  /**
   * @param {any} address
   * @param {any} protocols
   */
  constructor(address, protocols) {
    super();
    if (address === PRIVATE) {
      this.#rid = protocols;
      return;
    }
    const parsed = parseSocketUrl(address);
    const offered =
      protocols === undefined ? [] : typeof protocols === "string" ? [protocols] : [...protocols].map(String);
    if (
      new Set(offered).size !== offered.length ||
      offered.some((name) => !/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name))
    ) {
      throw new SyntaxError("The protocols array must not contain duplicates or invalid tokens.");
    }
    this.#url = parsed.href;
    this.#state = CONNECTING;
    this.#use = ACCEPTED;
    connectSocket(parsed, offered).then(
      (/** @type {any} */ { rid, protocol }) => {
        this.#rid = rid;
        this.#protocol = protocol;
        const cell = currentEvent()?.cell ?? null;
        if (cell !== null && cell.isBroken) {
          op_socket_drop(rid);
          return;
        }
        unreachable.register(this, rid, this);
        cell?.accepted.add(rid);
        this.#state = OPEN;
        this.dispatchEvent(new Event("open"));
        for (const data of this.#early.splice(0)) this.#transmit(data);
        this.#attend(currentEvent());
      },
      (/** @type {any} */ error) => {
        this.#state = CLOSED;
        this.dispatchEvent(new ErrorEvent("error", { message: String(error?.message ?? error), error }));
        this.dispatchEvent(new CloseEvent("close", { code: 1006, reason: "", wasClean: false }));
      },
    );
  }

  static {
    makeSocket = (rid) => new WebSocket(PRIVATE, rid);
    insideOf = (socket) => socket.#inside();
  }

  get readyState() {
    return this.#state;
  }
  get url() {
    return this.#url;
  }
  get protocol() {
    return this.#protocol;
  }
  get extensions() {
    return this.#extensions;
  }
  get binaryType() {
    return this.#binaryType;
  }
  set binaryType(value) {
    if (value === "blob" || value === "arraybuffer") this.#binaryType = value;
  }

  /** @param {{ allowHalfOpen?: boolean }} [_options] */
  accept(_options) {
    if (this.#use === HIBERNATABLE)
      throw new TypeError("Can't accept() WebSocket after enabling hibernation.");
    if (this.#use === HANDED_OVER)
      throw new TypeError("Can't accept() this WebSocket because it was already used in a response.");
    if (this.#use === ACCEPTED) return;
    this.#use = ACCEPTED;
    currentEvent()?.cell?.accepted.add(this.#rid);
    this.#attend(currentEvent());
  }

  /** @param {any} data */
  send(data) {
    if (this.#use === FRESH)
      throw new TypeError(
        "You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.",
      );
    if (this.#use === HANDED_OVER)
      throw new TypeError("Can't call send() on a WebSocket that was already used in a response.");
    if (this.#sentClose) throw new TypeError("Can't call WebSocket send() after close().");
    if (this.#state === CLOSED) return;
    let payload;
    if (data instanceof ArrayBuffer) payload = new Uint8Array(data);
    else if (ArrayBuffer.isView(data))
      payload = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    else payload = String(data);
    if (this.#state === CONNECTING) {
      this.#early.push(payload);
      return;
    }
    this.#transmit(payload);
  }

  /** @param {string | Uint8Array} payload */
  #transmit(payload) {
    op_socket_send(this.#rid, payload, currentEvent()?.slot ?? 0);
  }

  /**
   * @param {number} [code]
   * @param {string} [reason]
   */
  close(code, reason) {
    if (code !== undefined) {
      code = Number(code);
      if (!isSendable(code)) {
        throw new domException.DOMException(`Invalid WebSocket close code: ${code}.`, "InvalidAccessError");
      }
    } else if (reason !== undefined) {
      throw new TypeError("If you specify a WebSocket close reason, you must also specify a code.");
    }
    if (reason !== undefined) reason = String(reason);
    checkReason(reason);
    if (this.#use === FRESH)
      throw new TypeError(
        "You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.",
      );
    if (this.#sentClose || this.#state === CLOSED) return;
    this.#sentClose = true;
    this.#state = this.#gotClose ? CLOSED : CLOSING;
    op_socket_close(this.#rid, code ?? 0, reason ?? "", currentEvent()?.slot ?? 0);
  }

  /** @param {any} value */
  serializeAttachment(value) {
    if (arguments.length === 0)
      throw new TypeError("Failed to execute 'serializeAttachment' on 'WebSocket': parameter 1 is required.");
    const bytes = core.serialize(value, { forStorage: true });
    if (bytes.byteLength > 16384) {
      throw new Error(
        `A WebSocket 'attachment' cannot be larger than 16384 bytes.'attachment' was ${bytes.byteLength} bytes.`,
      );
    }
    op_socket_attach(this.#rid, bytes);
  }

  deserializeAttachment() {
    const bytes = op_socket_attachment(this.#rid);
    return bytes === null ? null : core.deserialize(bytes, { forStorage: true });
  }

  /** Reads the socket; the event that opened it stays alive meanwhile. @param {EventContext | null} owner */
  #attend(owner) {
    const ended = this.#receive(owner);
    owner?.hold(ended);
  }

  /** @param {EventContext | null} owner */
  async #receive(owner) {
    for (;;) {
      const message = await op_socket_next(this.#rid);
      const deliver = () => this.#deliver(message);
      if (owner === null) deliver();
      else if (owner.cell !== null) owner.cell.resume(owner.section, () => runAs(owner, deliver));
      else runAs(owner, deliver);
      if (message === null || (typeof message === "object" && "code" in message)) {
        owner?.cell?.accepted.delete(this.#rid);
        return;
      }
    }
  }

  /** @param {any} message */
  #deliver(message) {
    try {
      if (message === null) {
        this.#state = CLOSED;
        if (!this.#gotClose)
          this.dispatchEvent(
            new CloseEvent("close", {
              code: 1006,
              reason: "WebSocket disconnected without sending Close frame.",
              wasClean: false,
            }),
          );
      } else if (typeof message === "object" && "code" in message) {
        this.#gotClose = true;
        this.#state = this.#sentClose ? CLOSED : CLOSING;
        if (!this.#sentClose) this.#replyToClose(message);
        this.dispatchEvent(
          new CloseEvent("close", { code: message.code, reason: message.reason, wasClean: true }),
        );
      } else {
        const data =
          typeof message === "string"
            ? message
            : this.#binaryType === "blob"
              ? new Blob([message])
              : message.buffer;
        this.dispatchEvent(new MessageEvent("message", { data }));
      }
    } catch (error) {
      logException(error, "Uncaught (in WebSocket listener) ");
    }
  }

  /** @param {{ code: number, reason: string }} frame */
  #replyToClose(frame) {
    this.#sentClose = true;
    this.#state = CLOSED;
    op_socket_close(this.#rid, frame.code === 1005 ? 0 : frame.code, frame.reason, currentEvent()?.slot ?? 0);
  }

  /** What the runtime alone does with a socket. */
  #inside() {
    return {
      rid: this.#rid,
      handOver: () => {
        if (this.#use !== FRESH)
          throw new TypeError("Can't return WebSocket in a Response after calling accept().");
        this.#use = HANDED_OVER;
        unreachable.unregister(this);
        return this.#rid;
      },
      hibernate: () => {
        if (this.#use === ACCEPTED)
          throw new Error(
            "Cannot call `acceptWebSocket()` if the WebSocket was already accepted via `accept()`",
          );
        if (this.#use === HIBERNATABLE)
          throw new Error("Tried to call `acceptWebSocket()` on a WebSocket that was already accepted.");
        if (this.#use === HANDED_OVER)
          throw new Error(
            "Tried to call `acceptWebSocket()` on a WebSocket that was already used in a response.",
          );
        this.#use = HIBERNATABLE;
        this.#binaryType = "arraybuffer";
        return this.#rid;
      },
      resume: (/** @type {number} */ state) => {
        this.#use = HIBERNATABLE;
        this.#state = state;
      },
      closedByPeer: (
        /** @type {boolean} */ clean,
        /** @type {{ code: number, reason: string } | null} */ reply,
      ) => {
        this.#gotClose = true;
        if (!clean) this.#state = CLOSED;
        else if (this.#sentClose) this.#state = CLOSED;
        else if (reply !== null) this.#replyToClose(reply);
      },
    };
  }
}
/** @typedef {import("./context.js").EventContext} EventContext */

for (const name of ["open", "message", "close", "error"]) defineEventHandler(WebSocket.prototype, name);
for (const [name, value] of Object.entries({
  CONNECTING,
  OPEN,
  CLOSING,
  CLOSED,
  READY_STATE_CONNECTING: CONNECTING,
  READY_STATE_OPEN: OPEN,
  READY_STATE_CLOSING: CLOSING,
  READY_STATE_CLOSED: CLOSED,
})) {
  Object.defineProperty(WebSocket.prototype, name, { value, enumerable: true });
}
Object.defineProperty(WebSocket, "length", { value: 1 });

/** Two connected sockets, as `pair[0]` and `pair[1]`. */
export function WebSocketPair() {
  const [a, b] = op_socket_pair();
  /** @type {any} */
  const pair = new.target === undefined ? {} : Object.create(new.target.prototype);
  pair[0] = socketFromHost(a);
  pair[1] = socketFromHost(b);
  return pair;
}

/** Ends connections that no script can reach any more, unless someone else has taken them over. */
const unreachable = new FinalizationRegistry((/** @type {number} */ rid) => op_socket_drop(rid));

/** @param {number} rid */
export function socketFromHost(rid) {
  const socket = makeSocket(rid);
  unreachable.register(socket, rid, socket);
  return socket;
}

/** @param {any} socket */
export function socketToHost(socket) {
  return insideOf(socket).handOver();
}

/**
 * Turns a socket into one that outlives its cell's residence.
 * @param {any} socket
 * @param {string[]} tags
 * @param {number} slot
 */
export function acceptHibernatable(socket, tags, slot) {
  op_socket_accept(insideOf(socket).hibernate(), tags, slot);
}

/**
 * The socket object of a hibernatable socket that the host knows by `rid`.
 * @param {number} rid
 * @param {number} state
 */
export function resumeSocket(rid, state) {
  const socket = makeSocket(rid);
  insideOf(socket).resume(state);
  return socket;
}

/** @param {any} socket @param {boolean} clean @param {{ code: number, reason: string } | null} reply */
export function markClosedByPeer(socket, clean, reply) {
  insideOf(socket).closedByPeer(clean, reply);
}

/** @param {any} socket */
export function socketTags(socket) {
  const tags = op_socket_tags(insideOf(socket).rid);
  if (tags === null) throw new Error("only hibernatable websockets can have tags.");
  return tags;
}

/** @param {any} socket */
export function socketRid(socket) {
  return insideOf(socket).rid;
}

/** @param {any} address */
function parseSocketUrl(address) {
  let parsed;
  try {
    parsed = new URL(String(address));
  } catch {
    throw new SyntaxError("WebSocket Constructor: The url is invalid.");
  }
  if (parsed.protocol === "http:") parsed.protocol = "ws:";
  if (parsed.protocol === "https:") parsed.protocol = "wss:";
  if (parsed.protocol !== "ws:" && parsed.protocol !== "wss:")
    throw new SyntaxError("WebSocket Constructor: The url scheme must be ws, wss, http or https.");
  if (parsed.hash !== "") throw new SyntaxError("WebSocket Constructor: The url fragment must be empty.");
  return parsed;
}

/** @type {(url: URL, protocols: string[]) => Promise<{ rid: number, protocol: string }>} */
let connectSocket = async () => {
  throw new Error("no network");
};

/** @param {typeof connectSocket} connect */
export function setSocketConnector(connect) {
  connectSocket = connect;
}
