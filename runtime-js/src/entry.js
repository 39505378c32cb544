// What the host calls: loading a Worker, and every kind of event.
// @ts-check

import { core } from "ext:core/mod.js";
import {
  op_alarm_begin,
  op_call_fetch,
  op_event_fail,
  op_event_respond,
  op_event_return,
  op_socket_unlist,
} from "ext:core/ops";
import { pumpBody } from "./bodies.js";
import { completeCall, fetchThrough, workerTarget } from "./calls.js";
import { Cell, liveCells } from "./cell.js";
import { consoleMethods, logException } from "./console.js";
import {
  EventContext,
  currentEvent,
  isLoading,
  runAs,
  setLoading,
  setOverrunReporter,
  setRejectionReporter,
  setWaitUntilMax,
} from "./context.js";
import { describeError, illegalInvocation, setErrorSerialization } from "./errors.js";
import { installCompatibility, installGlobals } from "./globals.js";
import { requestFromHost, responseToHost } from "./http.js";
import { makeId } from "./ids.js";
import { DurableObjectNamespace, makeFetcher, markUnsendable } from "./rpc.js";
import { Session, sessionEnded, sessionFrame, setParamsMove } from "./rpc_session.js";
import { invoke } from "./rpc_stubs.js";
import { DurableObjectState, cellSocket, setExports } from "./state.js";
import {
  concludeSocket,
  markClosedByPeer,
  setSocketConnector,
  setSocketRules,
  socketToHost,
} from "./websocket.js";
import { event as eventApi, timers } from "./web.js";

/** @type {any} */
let environment = {};
/** @type {Record<string, any>} */
let mainModule = {};
/** Class name to namespace number and kind of storage. */
let classes = /** @type {Map<string, { namespace: number, sqlite: boolean }>} */ (new Map());
/** @type {any} */
let loopback = {};

export function env() {
  const override = core.getAsyncContext()?.celldEnv;
  return override === undefined ? environment : override;
}

/** @param {any} value @param {() => any} work */
export function withEnvironment(value, work) {
  const before = core.getAsyncContext();
  core.setAsyncContext({ __proto__: null, ...before, celldEnv: value });
  try {
    return work();
  } finally {
    core.setAsyncContext(before);
  }
}

export function exportsOf() {
  return loopback;
}

/** @param {unknown} promise */
export function waitUntil(promise) {
  const event = currentEvent();
  if (event === null) throw new Error("waitUntil() can only be called while an event is handled.");
  event.waitUntil(promise);
}

/** Classes that scripts extend to receive remote calls. */
const bases = new Map();

/** @param {"WorkerEntrypoint" | "DurableObject"} name */
export function entrypointBase(name) {
  const made = {
    [name]: class {
      /** @param {any} ctx @param {any} environmentOfCall */
      constructor(ctx, environmentOfCall) {
        Object.defineProperty(this, "ctx", {
          value: ctx,
          writable: true,
          enumerable: false,
          configurable: true,
        });
        Object.defineProperty(this, "env", {
          value: environmentOfCall,
          writable: true,
          enumerable: false,
          configurable: true,
        });
      }
    },
  }[name];
  bases.set(name, made);
  return made;
}

/** @param {any} value @param {"WorkerEntrypoint" | "DurableObject"} base */
function extendsBase(value, base) {
  return typeof value === "function" && bases.get(base).prototype.isPrototypeOf(value.prototype);
}

/** `ctx` of a stateless event. */
class ExecutionContext {
  #event;

  /** @param {EventContext} event @param {any} props */
  constructor(event, props) {
    if (!(event instanceof EventContext)) throw new TypeError("Illegal constructor");
    this.#event = event;
    this.props = props;
  }

  /** @param {unknown} promise */
  waitUntil(promise) {
    if (!ExecutionContext.#owns(this)) throw illegalInvocation();
    this.#event.waitUntil(promise);
  }

  passThroughOnException() {
    if (!ExecutionContext.#owns(this)) throw illegalInvocation();
    // There is no origin behind a self-hosted Worker: an exception is answered as one.
  }

  /** @param {any} value */
  static #owns(value) {
    return typeof value === "object" && value !== null && #event in value;
  }

  get exports() {
    return loopback;
  }

  get [Symbol.toStringTag]() {
    return "ExecutionContext";
  }

  /** @param {any} [reason] */
  abort(reason) {
    throw reason ?? new Error("The execution context was aborted.");
  }
}

/**
 * @param {any[]} bindings `[name, kind, ...]` each
 * @param {any[]} durable `[class name, namespace, sqlite]` each
 * @param {string[]} flags compatibility flags in force
 * @param {number} waitUntilMaxMs how long a stateless event may go on after its answer
 * @param {number} longestAlarmMs how long an alarm handler may take
 */
function configure(bindings, durable, flags, waitUntilMaxMs, longestAlarmMs) {
  setWaitUntilMax(waitUntilMaxMs);
  alarmMaxMs = longestAlarmMs;
  setSocketRules(flags);
  installCompatibility(flags);
  setErrorSerialization(flags.includes("enhanced_error_serialization"));
  setParamsMove(!flags.includes("rpc_params_dup_stubs"));
  const made = /** @type {Record<string, any>} */ ({});
  for (const [name, kind, a, b, c] of bindings) {
    if (kind === "text") made[name] = a;
    else if (kind === "json") made[name] = JSON.parse(a);
    else if (kind === "durable") made[name] = new DurableObjectNamespace(a);
    else if (kind === "service") made[name] = makeFetcher(workerTarget(a, b, c));
  }
  environment = made;
  for (const [className, namespace, sqlite] of durable) classes.set(className, { namespace, sqlite });
  setLoading(true);
}

/**
 * Takes the evaluated main module and says what it offers.
 * @param {any} namespaceObject
 */
function loaded(namespaceObject) {
  setLoading(false);
  for (const reason of early.splice(0)) logException(reason, "Uncaught (in promise) ");
  mainModule = namespaceObject;
  const made = /** @type {Record<string, any>} */ ({});
  const durable = [];
  const entrypoints = [];
  for (const name of Object.keys(mainModule)) {
    const value = mainModule[name];
    const known = classes.get(name);
    if (known !== undefined) {
      durable.push(name);
      made[name] = new DurableObjectNamespace(known.namespace);
    } else if (extendsBase(value, "DurableObject")) {
      durable.push(name);
    } else if (extendsBase(value, "WorkerEntrypoint") || (typeof value === "object" && value !== null)) {
      if (name !== "default") entrypoints.push(name);
      made[name] = callableEntrypoint(name === "default" ? null : name);
    }
  }
  loopback = made;
  return [handlersOf(mainModule.default), durable, entrypoints];
}

/** @param {string | null} entrypoint */
function callableEntrypoint(entrypoint) {
  const plain = makeFetcher(workerTarget(null, entrypoint, null));
  const callable = new Proxy(function () {}, {
    get: (_target, key) => Reflect.get(plain, key),
    apply: (_target, _this, [options]) =>
      makeFetcher(
        workerTarget(null, entrypoint, options?.props === undefined ? null : JSON.stringify(options.props)),
      ),
  });
  return markUnsendable(callable, "LoopbackServiceStub");
}

/** @param {any} value */
function handlersOf(value) {
  if (value === undefined || value === null) return [];
  const names = new Set();
  for (
    let object = typeof value === "function" ? value.prototype : value;
    object !== null && object !== Object.prototype;
    object = Object.getPrototypeOf(object)
  ) {
    for (const name of Object.getOwnPropertyNames(object))
      if (name !== "constructor" && typeof object[name] === "function") names.add(name);
  }
  return [...names];
}

/**
 * The object whose methods handle an event of a stateless Worker.
 * @param {EventContext} event
 * @param {string | null} entrypoint
 * @param {string | null} props
 */
function openEntrypoint(event, entrypoint, props) {
  const name = entrypoint ?? "default";
  const value = mainModule[name];
  if (value === undefined) {
    throw new TypeError(
      entrypoint === null
        ? "The Worker has no default export, so it cannot handle this event."
        : `The Worker has no export named "${name}".`,
    );
  }
  const ctx = new ExecutionContext(event, props === null ? {} : JSON.parse(props));
  if (extendsBase(value, "WorkerEntrypoint"))
    return { handler: new value(ctx, environment), ctx, isClass: true };
  if (typeof value === "function" && (classes.has(name) || extendsBase(value, "DurableObject"))) {
    throw new TypeError(`"${name}" is a Durable Object class and cannot be used as a stateless entrypoint.`);
  }
  if (typeof value === "function") return { handler: new value(ctx, environment), ctx, isClass: true };
  return { handler: value, ctx, isClass: false };
}

/** @param {any} handler @param {string} name */
function requireHandler(handler, name) {
  if (typeof handler[name] !== "function")
    throw new TypeError(`Handler does not export a ${name}() function.`);
}

/**
 * Sends an answer and whatever streams after it.
 * @param {EventContext} event
 * @param {any} response
 */
function respond(event, response) {
  // A handler that went on after it had ended its object has nobody to answer: see `fail`.
  if (event.cell?.isBroken) return;
  const wire = responseToHost(response);
  const { body } = wire;
  event.answered = true;
  op_event_respond(
    event.id,
    wire.status,
    wire.statusText,
    wire.headers,
    body.whole,
    body.rid,
    wire.socket,
    wire.encoded,
  );
  if (body.stream !== null) {
    const pumped = pumpBody(body.stream, body.rid, event.slot);
    // A stream that fails breaks the answer off; what it says of it belongs into the log.
    pumped.catch((error) => runAs(event, () => logException(error, "Uncaught (in response stream) ")));
    event.hold(pumped);
  }
  event.maybeFinish();
}

/** @param {EventContext} event @param {unknown} error @param {boolean} isRemote the caller is another script */
function fail(event, error, isRemote) {
  event.answered = true;
  // Events of an instance that has ended get the error of its end, from the host.
  if (event.cell?.isBroken) return;
  runAs(event, () => logException(error, "Uncaught "));
  op_event_fail(event.id, describeError(error, isRemote));
  event.maybeFinish();
}

/**
 * Runs a handler and passes its outcome on; synchronous answers cost no extra turn.
 * @param {EventContext} event
 * @param {() => any} handler
 * @param {(value: any) => void} done
 * @param {boolean} isRemote
 */
function handle(event, handler, done, isRemote) {
  /** @param {unknown} error */
  const failed = (error) => fail(event, error, isRemote);
  runAs(event, () => {
    let result;
    try {
      result = handler();
    } catch (error) {
      failed(error);
      return;
    }
    Promise.resolve(result).then((value) => {
      try {
        done(value);
      } catch (error) {
        failed(error);
      }
    }, failed);
  });
}

/** @param {[string, string, string[], Uint8Array | null, number, number, string | null]} parts */
function wireRequest([method, url, headers, bytes, rid, length, cf]) {
  return { method, url, headers, bytes, rid, length, cf };
}

/** @type {Record<string, Function>} */
const host = {
  configure,
  loaded,
  completeCall,

  /**
   * @param {number} id @param {string | null} entrypoint @param {string | null} props
   * @param {[string, string, string[], Uint8Array | null, number, number, string | null]} parts
   */
  workerFetch(id, entrypoint, props, ...parts) {
    const wire = wireRequest(parts);
    const event = new EventContext(id, null, `${wire.method} ${wire.url}`);
    handle(
      event,
      () => {
        const { handler, ctx, isClass } = openEntrypoint(event, entrypoint, props);
        requireHandler(handler, "fetch");
        const request = requestFromHost(wire);
        return isClass ? handler.fetch(request) : handler.fetch(request, environment, ctx);
      },
      (response) => respond(event, response),
      entrypoint !== null,
    );
  },

  /**
   * @param {number} id @param {string | null} entrypoint @param {string | null} props
   * @param {number} session @param {number} question @param {string[]} path
   * @param {Uint8Array | null} bytes @param {any[][] | null} caps
   */
  workerRpc(id, entrypoint, props, session, question, path, bytes, caps) {
    const event = new EventContext(id, null, `${path.join(".")}()`);
    Session.accept(session, event).begin(question, bytes, caps, (args) => {
      const { handler, ctx, isClass } = openEntrypoint(event, entrypoint, props);
      return invoke(handler, path, args, (list) => (isClass ? list : [...list, environment, ctx]));
    });
  },

  /** @param {number} id @param {string} cron @param {number} scheduledTime */
  workerScheduled(id, cron, scheduledTime) {
    const event = new EventContext(id, null, `scheduled ${cron}`);
    handle(
      event,
      () => {
        const { handler, ctx, isClass } = openEntrypoint(event, null, null);
        requireHandler(handler, "scheduled");
        const controller = { scheduledTime, cron, noRetry() {}, type: "scheduled" };
        return isClass ? handler.scheduled(controller) : handler.scheduled(controller, environment, ctx);
      },
      () => finishEvent(event),
      false,
    );
  },

  /**
   * Constructs a Durable Object. Its events follow; they wait for the constructor's sections.
   * @param {number} slot @param {string} className @param {string} hex @param {string | null} name
   */
  construct(slot, className, hex, name) {
    const cell = new Cell(slot, makeId(hex, name ?? undefined), className);
    const value = mainModule[className];
    if (typeof value !== "function")
      throw new TypeError(`The Worker does not export a class named "${className}".`);
    liveCells.set(slot, cell);
    const state = new DurableObjectState(cell, classes.get(className)?.sqlite ?? true, {});
    const event = new EventContext(0, cell, "constructor");
    try {
      cell.instance = runAs(event, () => new value(state, environment));
    } catch (error) {
      liveCells.delete(slot);
      runAs(event, () => logException(error, "Uncaught (in constructor) "));
      return describeError(error, true);
    }
    return null;
  },

  /** @param {number} slot */
  admit(slot) {
    liveCells.get(slot)?.admit();
  },

  /** @param {number} slot */
  mayRest(slot) {
    return liveCells.get(slot)?.mayRest() === true;
  },

  /** @param {number} slot */
  dispose(slot) {
    liveCells.get(slot)?.dispose();
  },

  /**
   * @param {number} id @param {number} slot
   * @param {[string, string, string[], Uint8Array | null, number, number, string | null]} parts
   */
  cellFetch(id, slot, ...parts) {
    const wire = wireRequest(parts);
    const cell = cellOf(slot);
    const event = new EventContext(id, cell, `${wire.method} ${wire.url}`);
    cell.deliver(() =>
      handle(
        event,
        () => {
          requireHandler(cell.instance, "fetch");
          return cell.instance.fetch(requestFromHost(wire));
        },
        (response) => respond(event, response),
        true,
      ),
    );
  },

  /**
   * @param {number} id @param {number} slot
   * @param {number} session @param {number} question @param {string[]} path
   * @param {Uint8Array | null} bytes @param {any[][] | null} caps
   */
  cellRpc(id, slot, session, question, path, bytes, caps) {
    const cell = cellOf(slot);
    const event = new EventContext(id, cell, `${path.join(".")}()`);
    Session.accept(session, event).begin(question, bytes, caps, (args) => {
      if (!extendsBase(mainModule[cell.className], "DurableObject")) {
        throw new TypeError(
          'The receiving Durable Object does not support RPC, because its class was not declared with `extends DurableObject`. In order to enable RPC, make sure your class extends the special class `DurableObject`, which can be imported from the module "cloudflare:workers".',
        );
      }
      return invoke(cell.instance, path, args, (list) => list);
    });
  },

  rpcFrame: sessionFrame,
  rpcEnded: sessionEnded,

  /** @param {number} id @param {number} slot @param {number} scheduledTime @param {number} retryCount */
  cellAlarm(id, slot, scheduledTime, retryCount) {
    const cell = cellOf(slot);
    const event = new EventContext(id, cell, "alarm");
    cell.deliver(() => {
      // Events ahead in the queue may have moved or deleted it.
      if (!op_alarm_begin(slot, scheduledTime)) {
        finishEvent(event);
        return;
      }
      handle(
        event,
        () => {
          requireHandler(cell.instance, "alarm");
          return limited(cell, cell.instance.alarm({ retryCount, isRetry: retryCount > 0, scheduledTime }));
        },
        () => finishEvent(event),
        false,
      );
    });
  },

  /**
   * @param {number} id @param {number} slot @param {number} rid
   * @param {number} closing what is known of the socket's closing handshake
   * @param {any} message string, Uint8Array, `{ code, reason, clean }`, `{ failure }`
   * @param {number} timeoutMs how long the handler may take; 0 for as long as it wants
   */
  cellSocket(id, slot, rid, closing, message, timeoutMs) {
    const cell = cellOf(slot);
    const event = new EventContext(id, cell, "webSocket");
    cell.deliver(() =>
      handle(
        event,
        () => {
          /** @type {Bounded} */
          const bounded = (run) => (timeoutMs === 0 ? run() : withTimeout(event, run(), timeoutMs));
          return socketEvent(cell, cellSocket(cell, rid, closing), rid, message, bounded);
        },
        () => finishEvent(event),
        false,
      ),
    );
  },
};

/** Runs a handler within its time. @typedef {(run: () => unknown) => unknown} Bounded */

/**
 * Hands what arrived at a hibernatable socket to its handler.
 * @param {Cell} cell @param {any} socket @param {number} rid @param {any} message
 * @param {Bounded} bounded
 */
function socketEvent(cell, socket, rid, message, bounded) {
  const { instance } = cell;
  if (typeof message === "string" || message instanceof Uint8Array) {
    const data = typeof message === "string" ? message : message.buffer;
    return bounded(() => instance.webSocketMessage?.(socket, data));
  }
  markClosedByPeer(socket);
  if (message.failure !== undefined) {
    const failed = () => instance.webSocketError?.(socket, new Error(message.failure));
    return closed(cell, socket, rid, null, () => bounded(failed));
  }
  const { code, reason, clean } = message;
  const handler = () => instance.webSocketClose?.(socket, code, reason, clean);
  return closed(cell, socket, rid, clean ? { code, reason } : null, () => bounded(handler));
}

/**
 * Ends the event of a handler that takes too long; what it still waits for never comes.
 * @param {EventContext} event @param {unknown} result @param {number} timeoutMs
 */
function withTimeout(event, result, timeoutMs) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      event.cancelled = true;
      resolve(undefined);
    }, timeoutMs);
    Promise.resolve(result)
      .finally(() => clearTimeout(timer))
      .then(resolve, reject);
  });
}

/** How long an alarm handler may take, in ms. */
let alarmMaxMs = 15 * 60 * 1000;
const { setTimeout, clearTimeout } = timers;

/**
 * Resets an object whose alarm handler does not come to an end; it is tried again.
 * @param {Cell} cell @param {unknown} result
 */
function limited(cell, result) {
  const timer = setTimeout(
    () =>
      cell.break(
        new Error(
          `The alarm handler exceeded its time limit of ${alarmMaxMs / 1000} seconds. The Durable Object was reset, and the alarm is tried again.`,
        ),
      ),
    alarmMaxMs,
  );
  cell.timers.set(-1, () => clearTimeout(timer));
  return Promise.resolve(result).finally(() => {
    clearTimeout(timer);
    cell.timers.delete(-1);
  });
}

/**
 * Handles the end of a hibernatable socket; afterwards it is not listed any more.
 * @param {Cell} cell @param {any} socket @param {number} rid
 * @param {{ code: number, reason: string } | null} frame the peer's close frame
 * @param {() => unknown} handler
 */
async function closed(cell, socket, rid, frame, handler) {
  try {
    await handler();
  } finally {
    cell.sockets.delete(rid);
    op_socket_unlist(rid);
    concludeSocket(socket, frame);
  }
}

/** @param {number} slot */
function cellOf(slot) {
  const cell = liveCells.get(slot);
  if (cell === undefined) throw new Error("This Durable Object instance has ended.");
  return cell;
}

/** @param {EventContext} event */
function finishEvent(event) {
  event.answered = true;
  if (event.cell?.isBroken) return;
  op_event_return(event.id);
  event.maybeFinish();
}

setExports(() => loopback);
setOverrunReporter((event) =>
  runAs(event, () =>
    consoleMethods.warn(
      "waitUntil() tasks did not complete within the allowed time after invocation end and have been cancelled. See: https://developers.cloudflare.com/workers/runtime-apis/context/#waituntil",
    ),
  ),
);
setRejectionReporter((error, event) => {
  const report = () => logException(error, "Uncaught (in promise) ");
  if (event === null) report();
  else runAs(event, report);
});
setSocketConnector(async (address, protocols) => {
  const target = new URL(address.href);
  target.protocol = target.protocol === "wss:" ? "https:" : "http:";
  const headers = /** @type {Record<string, string>} */ ({ upgrade: "websocket" });
  if (protocols.length > 0) headers["sec-websocket-protocol"] = protocols.join(", ");
  const response = /** @type {any} */ (
    await fetchThrough(target.href, { headers }, (wire, slot) => op_call_fetch(slot, wire))
  );
  if (response.webSocket === null)
    throw new Error(
      `Failed to establish the WebSocket connection: expected HTTP 101 but received ${response.status}.`,
    );
  return {
    rid: socketToHost(response.webSocket),
    protocol: response.headers.get("sec-websocket-protocol") ?? "",
  };
});

/** Rejections while the main module is evaluated: the module's own failure is reported by the host. */
const early = /** @type {unknown[]} */ ([]);

core.setUnhandledPromiseRejectionHandler(
  (/** @type {Promise<unknown>} */ promise, /** @type {unknown} */ reason) => {
    if (isLoading()) {
      early.push(reason);
      return true;
    }
    const event = new eventApi.PromiseRejectionEvent("unhandledrejection", {
      cancelable: true,
      promise,
      reason,
    });
    if (/** @type {any} */ (globalThis).dispatchEvent(event)) logException(reason, "Uncaught (in promise) ");
    return true;
  },
);

installGlobals();
// Read and removed by the host before any user code runs.
/** @type {any} */ (globalThis).__celld = host;
