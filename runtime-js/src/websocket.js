// WebSocket, WebSocketPair and the sockets that a cell keeps while it hibernates.
// @ts-check

import { core } from "ext:core/mod.js";
import {
  op_socket_accept,
  op_socket_attach,
  op_socket_attachment,
  op_socket_close,
  op_socket_drop,
  op_socket_forget,
  op_socket_next,
  op_socket_pair,
  op_socket_send,
  op_socket_tags,
} from "ext:core/ops";
import { currentEvent, runAs } from "./context.js";
import { logException } from "./console.js";
import { domException, event as eventApi, file, url as urlApi } from "./web.js";

const { URL } = urlApi;
const { DOMException } = domException;

const { EventTarget, Event, ErrorEvent, CloseEvent, MessageEvent } = eventApi;
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

/** Longest reason of a close frame, in bytes of UTF-8. */
const REASON_MAX_BYTES = 123;
/** Largest attachment, in bytes of V8's format. */
const ATTACHMENT_MAX_BYTES = 16384;

/** Bits of what is known of a hibernatable socket's closing handshake. */
const SENT_CLOSE = 1;
const GOT_CLOSE = 2;

/** What a lost connection is told as. */
const LOST = "WebSocket disconnected without sending Close frame.";

/** What the Worker's compatibility date decides. */
const rules = {
  /** What binary messages arrive as. */
  binaryType: "blob",
  /** A close frame is answered before its event. */
  answersClose: true,
  /** Reasons that are too long are refused. */
  limitsReason: true,
};

/** @param {string[]} flags compatibility flags in force */
export function setSocketRules(flags) {
  rules.binaryType = flags.includes("websocket_standard_binary_type") ? "blob" : "arraybuffer";
  rules.answersClose = flags.includes("web_socket_auto_reply_to_close");
  rules.limitsReason = flags.includes("websocket_close_reason_byte_limit");
}

/** Makes a socket of the host's number; set by the class, out of reach of scripts. */
/** @type {(rid: number, pair: boolean[] | null, end: number) => any} */
let makeSocket;
/** True for sockets alone. */
/** @type {(value: unknown) => boolean} */
export let isSocket;
/** The runtime's side of a socket. */
/** @type {(socket: any) => any} */
let insideOf;

/** @param {number} code */
function isSendable(code) {
  return code >= 1000 && code < 5000 && code !== 1004 && code !== 1005 && code !== 1006 && code !== 1015;
}

/**
 * Code and reason of a close frame, checked. Code 0 stands for a frame without one.
 * @param {any} code @param {any} reason @returns {[number, string]}
 */
function closeArguments(code, reason) {
  if (code === undefined) {
    if (reason !== undefined)
      throw new DOMException(
        "If you specify a WebSocket close reason, you must also specify a code.",
        "InvalidAccessError",
      );
    return [0, ""];
  }
  code = Number(code) | 0;
  if (!isSendable(code))
    throw new DOMException(`Invalid WebSocket close code: ${code}.`, "InvalidAccessError");
  const text = reason === undefined ? "" : String(reason).toWellFormed();
  if (rules.limitsReason && core.byteLength(text) > REASON_MAX_BYTES)
    throw new SyntaxError("WebSocket close reason must not be longer than 123 bytes when UTF-8 encoded.");
  return [code, text];
}

/** Listeners as they are registered: what they throw is gathered. */
const guarded = new WeakMap();
/** What listeners of the event that is being dispatched have thrown. */
/** @type {unknown[] | null} */
let thrown = null;

/** @param {any} listener */
function guard(listener) {
  if (listener === null || (typeof listener !== "function" && typeof listener !== "object")) return listener;
  let wrapped = guarded.get(listener);
  if (wrapped === undefined) {
    wrapped = (/** @type {any} */ event) => {
      try {
        if (typeof listener === "function") listener.call(event.currentTarget, event);
        else listener.handleEvent(event);
      } catch (error) {
        if (thrown === null) throw error;
        thrown.push(error);
      }
    };
    guarded.set(listener, wrapped);
  }
  return wrapped;
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
  #binaryType = rules.binaryType;
  #sentClose = false;
  #gotClose = false;
  /** Nothing more is delivered. */
  #ended = false;
  #allowHalfOpen = false;
  /** Which ends of a pair are in use, shared by both; `null` for other sockets. */
  #pair = /** @type {boolean[] | null} */ (null);
  #end = 0;
  /** Attachment of a socket that is not hibernatable (yet). */
  #attachment = /** @type {Uint8Array | null} */ (null);
  /** Frames sent before an outgoing connection is established. */
  #early = /** @type {(string | Uint8Array)[]} */ ([]);

  /**
   * @param {any} address
   * @param {any} protocols
   */
  constructor(address, protocols) {
    super();
    if (address === PRIVATE) {
      [this.#rid, this.#pair, this.#end] = protocols;
      return;
    }
    if (arguments.length === 0)
      throw new TypeError(
        "Failed to construct 'WebSocket': constructor parameter 1 is not of type 'string'.",
      );
    const parsed = parseSocketUrl(address);
    const offered = offeredProtocols(protocols);
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
        this.#dispatch(new Event("open"));
        for (const data of this.#early.splice(0)) this.#transmit(data);
        this.#attend(currentEvent());
      },
      (/** @type {any} */ error) => {
        this.#state = CLOSED;
        this.#dispatch(new ErrorEvent("error", { message: String(error?.message ?? error), error }));
        this.#dispatch(new CloseEvent("close", { code: 1006, reason: "", wasClean: false }));
      },
    );
  }

  static {
    // Two arguments, whatever the class's length says.
    makeSocket = (rid, pair, end) => new WebSocket(PRIVATE, [rid, pair, end]);
    insideOf = (socket) => socket.#inside();
    isSocket = (value) => typeof value === "object" && value !== null && #rid in value;
  }

  /** @param {string} type @param {any} listener @param {any} [options] */
  addEventListener(type, listener, options) {
    super.addEventListener(type, guard(listener), options);
  }

  /** @param {string} type @param {any} listener @param {any} [options] */
  removeEventListener(type, listener, options) {
    super.removeEventListener(type, guard(listener), options);
  }

  get [Symbol.toStringTag]() {
    return "WebSocket";
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

  /** @param {{ allowHalfOpen?: boolean }} [options] */
  accept(options) {
    if (this.#use === HIBERNATABLE)
      throw new TypeError("Can't accept() WebSocket after enabling hibernation.");
    if (this.#use === HANDED_OVER)
      throw new TypeError("Can't accept() this WebSocket because it was already used in a response.");
    if (this.#use === ACCEPTED) return;
    this.#take(ACCEPTED);
    this.#allowHalfOpen = Boolean(options?.allowHalfOpen);
    currentEvent()?.cell?.accepted.add(this.#rid);
    this.#attend(currentEvent());
  }

  /** @param {string} use */
  #take(use) {
    this.#use = use;
    if (this.#pair !== null) this.#pair[this.#end] = true;
  }

  /** @param {any} data */
  send(data) {
    if (arguments.length === 0)
      throw new TypeError(
        "Failed to execute 'send' on 'WebSocket': parameter 1 is not of type 'ArrayBuffer or ArrayBufferView or string'.",
      );
    let payload;
    if (data instanceof ArrayBuffer) payload = new Uint8Array(data);
    else if (ArrayBuffer.isView(data))
      payload = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    else payload = `${data}`;
    this.#mayBeUsed("send()");
    if (this.#sentClose) throw new TypeError("Can't call WebSocket send() after close().");
    if (this.#state === CLOSED || this.#ended) return;
    if (this.#state === CONNECTING) {
      this.#early.push(payload);
      return;
    }
    this.#transmit(payload);
  }

  /** @param {string} what */
  #mayBeUsed(what) {
    if (this.#use === FRESH)
      throw new TypeError(
        "You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.",
      );
    if (this.#use === HANDED_OVER)
      throw new TypeError(`Can't call ${what} on a WebSocket that was already used in a response.`);
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
    const [sent, text] = closeArguments(code, reason);
    this.#mayBeUsed("close()");
    if (this.#sentClose || this.#state === CLOSED) return;
    this.#sendClose(sent, text);
  }

  /** @param {number} code @param {string} reason */
  #sendClose(code, reason) {
    this.#sentClose = true;
    this.#state = this.#gotClose ? CLOSED : CLOSING;
    op_socket_close(this.#rid, code, reason, currentEvent()?.slot ?? 0);
  }

  /** @param {any} value */
  serializeAttachment(value) {
    if (arguments.length === 0)
      throw new TypeError(
        "Failed to execute 'serializeAttachment' on 'WebSocket': parameter 1 is not of type 'Value'.",
      );
    const bytes = core.serialize(value, { forStorage: true }, (/** @type {string} */ message) => {
      throw new DOMException(message, "DataCloneError");
    });
    if (bytes.byteLength > ATTACHMENT_MAX_BYTES) {
      throw new Error(
        `A WebSocket 'attachment' cannot be larger than 16384 bytes.'attachment' was ${bytes.byteLength} bytes.`,
      );
    }
    if (this.#use === HIBERNATABLE) op_socket_attach(this.#rid, bytes);
    else this.#attachment = bytes;
  }

  deserializeAttachment() {
    const bytes = this.#use === HIBERNATABLE ? op_socket_attachment(this.#rid) : this.#attachment;
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
      if (message === null || isEnd(message)) {
        owner?.cell?.accepted.delete(this.#rid);
        return;
      }
    }
  }

  /** @param {any} message */
  #deliver(message) {
    if (this.#ended) return;
    if (message === null) this.#lost();
    else if (typeof message === "object" && "code" in message) this.#closedBy(message);
    else if (typeof message === "object" && "failure" in message) this.#fail(new Error(message.failure));
    else {
      const data =
        typeof message === "string"
          ? message
          : this.#binaryType === "blob"
            ? new Blob([message])
            : message.buffer;
      this.#dispatch(new MessageEvent("message", { data }));
    }
  }

  /** The connection ended without a close frame. */
  #lost() {
    this.#ended = true;
    if (!this.#gotClose)
      this.#dispatch(new CloseEvent("close", { code: 1006, reason: LOST, wasClean: false }));
    this.#state = CLOSED;
    op_socket_drop(this.#rid);
  }

  /** @param {{ code: number, reason: string }} frame */
  #closedBy({ code, reason }) {
    this.#gotClose = true;
    this.#state = CLOSING;
    if (this.#sentClose) this.#state = CLOSED;
    else if (rules.answersClose && !this.#allowHalfOpen) this.#sendClose(code === 1005 ? 0 : code, reason);
    this.#dispatch(new CloseEvent("close", { code, reason, wasClean: true }));
    if (this.#state === CLOSED) {
      this.#ended = true;
      op_socket_drop(this.#rid);
    }
  }

  /**
   * Ends the connection because a listener threw, or because the peer broke the protocol.
   * @param {unknown} error
   */
  #fail(error) {
    if (this.#ended) return;
    this.#ended = true;
    this.#state = CLOSED;
    op_socket_close(this.#rid, 1006, "", currentEvent()?.slot ?? 0);
    this.#dispatch(new ErrorEvent("error", { message: `Uncaught ${error}`, error }));
  }

  /** Tells the listeners; what one of them throws ends the connection. @param {Event} event */
  #dispatch(event) {
    const before = thrown;
    /** @type {unknown[]} */
    const failures = [];
    thrown = failures;
    try {
      this.dispatchEvent(event);
    } finally {
      thrown = before;
    }
    if (failures.length === 0) return;
    for (const error of failures) logException(error, "Uncaught ");
    this.#fail(failures[0]);
  }

  /** What the runtime alone does with a socket. */
  #inside() {
    return {
      rid: this.#rid,
      isHibernatable: this.#use === HIBERNATABLE,
      isFresh: this.#use === FRESH,
      handOver: () => {
        if (this.#use !== FRESH)
          throw new TypeError("Can't return WebSocket in a Response after calling accept().");
        this.#take(HANDED_OVER);
        unreachable.unregister(this);
        return this.#rid;
      },
      /** Refuses what cannot become hibernatable. */
      checkHibernatable: () => {
        if (this.#use === ACCEPTED || this.#use === HIBERNATABLE)
          throw new Error(
            "Cannot call `acceptWebSocket()` if the WebSocket was already accepted via `accept()`",
          );
        if (this.#use === HANDED_OVER)
          throw new Error(
            "Tried to call `acceptWebSocket()` on a WebSocket that was already used in a response.",
          );
        if (this.#pair?.[1 - this.#end])
          throw new Error(
            "Cannot call `acceptWebSocket()` on this WebSocket because its pair has already been accepted or used in a Response.",
          );
      },
      hibernate: () => {
        this.#take(HIBERNATABLE);
        if (this.#attachment !== null) op_socket_attach(this.#rid, this.#attachment);
        this.#attachment = null;
      },
      resume: (/** @type {number} */ closing) => {
        this.#use = HIBERNATABLE;
        this.#sentClose = (closing & SENT_CLOSE) !== 0;
        this.#gotClose = (closing & GOT_CLOSE) !== 0;
        this.#state = closing === 0 ? OPEN : this.#sentClose && this.#gotClose ? CLOSED : CLOSING;
      },
      /** The peer has closed, or is gone: the handler is about to hear of it. */
      closedByPeer: () => {
        this.#gotClose = true;
        this.#state = this.#sentClose ? CLOSED : CLOSING;
      },
      /**
       * The handler has heard of the close. A frame that it left unanswered is answered, or the
       * connection is let go.
       */
      conclude: (/** @type {{ code: number, reason: string } | null} */ frame) => {
        if (frame !== null && !this.#sentClose && rules.answersClose)
          this.#sendClose(frame.code === 1005 ? 0 : frame.code, frame.reason);
        else if (!this.#sentClose) op_socket_close(this.#rid, 1006, "", currentEvent()?.slot ?? 0);
        this.#sentClose = true;
        this.#state = CLOSED;
        forgettable.register(this, this.#rid);
      },
    };
  }
}
/** @typedef {import("./context.js").EventContext} EventContext */

/** True for what ends a conversation. @param {any} message */
function isEnd(message) {
  return typeof message === "object" && ("code" in message || "failure" in message);
}

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
/** @this {any} */
export function WebSocketPair() {
  if (new.target === undefined)
    throw new TypeError(
      "Failed to construct 'WebSocketPair': Please use the 'new' operator, this object constructor cannot be called as a function.",
    );
  const [a, b] = op_socket_pair();
  const used = [false, false];
  this[0] = register(makeSocket(a, used, 0), a);
  this[1] = register(makeSocket(b, used, 1), b);
}
Object.defineProperty(WebSocketPair.prototype, Symbol.toStringTag, {
  value: "WebSocketPair",
  configurable: true,
});
Object.defineProperty(WebSocketPair.prototype, Symbol.iterator, {
  /** @this {any} */
  *value() {
    yield this[0];
    yield this[1];
  },
  configurable: true,
});

/** Ends connections that no script can reach any more, unless someone else has taken them over. */
const unreachable = new FinalizationRegistry((/** @type {number} */ rid) => op_socket_drop(rid));

/** Hibernatable sockets that have ended are known until no script can ask about them. */
const forgettable = new FinalizationRegistry((/** @type {number} */ rid) => op_socket_forget(rid));

/** @param {any} socket @param {number} rid */
function register(socket, rid) {
  unreachable.register(socket, rid, socket);
  return socket;
}

/** @param {number} rid */
export function socketFromHost(rid) {
  return register(makeSocket(rid, null, 0), rid);
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
  const inside = insideOf(socket);
  inside.checkHibernatable();
  op_socket_accept(inside.rid, tags, slot);
  inside.hibernate();
}

/**
 * The socket object of a hibernatable socket that the host knows by `rid`.
 * @param {number} rid
 * @param {number} closing what is known of its closing handshake
 */
export function resumeSocket(rid, closing) {
  const socket = makeSocket(rid, null, 0);
  insideOf(socket).resume(closing);
  return socket;
}

/** @param {any} socket */
export function markClosedByPeer(socket) {
  insideOf(socket).closedByPeer();
}

/** @param {any} socket @param {{ code: number, reason: string } | null} frame `null` for a lost connection */
export function concludeSocket(socket, frame) {
  insideOf(socket).conclude(frame);
}

/** @param {any} socket */
export function socketTags(socket) {
  const { rid, isHibernatable, isFresh } = insideOf(socket);
  if (isFresh)
    throw new Error("you must call 'acceptWebSocket()' before attempting to access the tags of a WebSocket.");
  if (!isHibernatable) throw new Error("only hibernatable websockets can have tags.");
  return op_socket_tags(rid) ?? [];
}

/** @param {any} socket */
export function socketRid(socket) {
  return insideOf(socket).rid;
}

/** @param {any} address */
function parseSocketUrl(address) {
  const text = String(address);
  let parsed;
  try {
    parsed = new URL(text);
  } catch {
    throw new SyntaxError("WebSocket Constructor: The url is invalid.");
  }
  if (parsed.protocol === "http:") parsed.protocol = "ws:";
  if (parsed.protocol === "https:") parsed.protocol = "wss:";
  if (parsed.protocol !== "ws:" && parsed.protocol !== "wss:")
    throw new SyntaxError("WebSocket Constructor: The url scheme must be ws or wss.");
  // An empty fragment has no `hash`, but it is one.
  if (parsed.href.includes("#"))
    throw new SyntaxError("WebSocket Constructor: The url fragment must be empty.");
  return parsed;
}

/** A token of RFC 9110. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** @param {any} protocols @returns {string[]} */
function offeredProtocols(protocols) {
  if (protocols === undefined || protocols === null) return [];
  if (typeof protocols === "string") {
    if (!TOKEN.test(protocols))
      throw new SyntaxError("WebSocket Constructor: The protocol header token is invalid.");
    return [protocols];
  }
  const offered = [...protocols].map(String);
  if (!offered.every((name) => TOKEN.test(name)))
    throw new SyntaxError("WebSocket Constructor: One of the protocol header tokens is invalid.");
  if (new Set(offered).size !== offered.length)
    throw new SyntaxError("WebSocket Constructor: The protocols header cannot have repeating values.");
  return offered;
}

/** @type {(url: URL, protocols: string[]) => Promise<{ rid: number, protocol: string }>} */
let connectSocket = async () => {
  throw new Error("no network");
};

/** @param {typeof connectSocket} connect */
export function setSocketConnector(connect) {
  connectSocket = connect;
}
