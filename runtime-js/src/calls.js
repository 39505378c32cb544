// Calls that leave the isolate: to cells, to entrypoints, to the network.
// @ts-check

import {
  op_call_cancel,
  op_call_cell_fetch,
  op_call_fetch,
  op_call_worker_fetch,
  op_rpc_open_cell,
  op_rpc_open_worker,
  op_run_for,
} from "ext:core/ops";
import { pumpBody } from "./bodies.js";
import { currentEvent, forbidAtGlobalScope, ownedBy } from "./context.js";
import { rebuildError, sameAgain } from "./errors.js";
import { Request, markRedirected, requestToHost, responseFromHost } from "./http.js";
import { Session } from "./rpc_session.js";
import { Question } from "./rpc_stubs.js";
import { abort, url as urlApi } from "./web.js";

const { URL } = urlApi;

/** Calls under way: on whose behalf, and what to do with each answer. */
const waiting = /** @type {Map<number, { event: EventContext | null, settle: (answer: any) => void }>} */ (
  new Map()
);

/** @typedef {import("./context.js").EventContext} EventContext */

/** Takes a call out, which then holds its cell no more. @param {number} id */
function take(id) {
  const call = waiting.get(id);
  waiting.delete(id);
  if (call?.event?.cell) call.event.cell.holds--;
  return call;
}

/**
 * Called by the host when an answer arrives.
 * @param {number} id
 * @param {any} answer a value, or `{ error }`
 */
export function completeCall(id, answer) {
  const call = take(id);
  if (call === undefined) return;
  if (call.event !== null) op_run_for(call.event.slot, call.event.id);
  call.settle(answer);
}

/**
 * Waits for a call's answer. For a cell it is delivered when its input gate is open.
 * @template T
 * @param {number} id
 * @param {(answer: any) => T} convert
 * @returns {Promise<T>}
 */
export function answerOf(id, convert) {
  const event = currentEvent();
  const cell = event?.cell ?? null;
  const section = event?.section ?? null;
  return new Promise((resolve, reject) => {
    if (cell !== null) cell.holds++;
    const deliver = (/** @type {any} */ answer) => {
      const settle = () => {
        if (event?.cancelled) return;
        try {
          if (answer !== null && typeof answer === "object" && "error" in answer)
            reject(rebuildError(answer.error));
          else resolve(convert(answer));
        } catch (error) {
          reject(error);
        }
      };
      if (cell === null) settle();
      else cell.resume(section, settle);
    };
    waiting.set(id, { event, settle: deliver });
  });
}

/**
 * Sends a request by `start` and waits for the answer.
 * @param {any} input
 * @param {any} init
 * @param {(wire: any[], slot: number) => number} start
 */
export async function fetchThrough(input, init, start) {
  let request = input instanceof Request && init === undefined ? input : new Request(input, init);
  const asked = request.url;
  for (let hops = 0; ; hops++) {
    const response = await exchange(request, start);
    if (hops > 0) markRedirected(response, asked);
    const location =
      request.redirect === "follow" && response.webSocket === null && REDIRECTS.has(response.status)
        ? response.headers.get("location")
        : null;
    if (location === null) return response;
    if (hops === REDIRECTS_MAX) throw new TypeError("Too many redirects.");
    request = redirected(request, response.status, location);
  }
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Most redirects that are followed. */
const REDIRECTS_MAX = 20;

/**
 * The request that a redirect asks for.
 * @param {any} request @param {number} status @param {string} location
 */
function redirected(request, status, location) {
  const target = new URL(location, request.url).href;
  const toGet =
    (status === 303 && request.method !== "HEAD") ||
    ((status === 301 || status === 302) && request.method === "POST");
  if (!toGet && request.bodyUsed)
    throw new TypeError(
      "A request with a one-time-use body (it was initialized from a stream, not a buffer) encountered a redirect requiring the body to be retransmitted. To avoid this error in the future, construct this request from a buffer-like body initializer.",
    );
  return new Request(target, {
    method: toGet ? "GET" : request.method,
    headers: request.headers,
    redirect: "follow",
    signal: request.signal,
  });
}

/**
 * One request and its answer.
 * @param {any} request
 * @param {(wire: any[], slot: number) => number} start
 */
function exchange(request, start) {
  const wire = requestToHost(request);
  const slot = currentEvent()?.slot ?? 0;
  const signal = wire.signal;
  if (signal.aborted) return Promise.reject(signal.reason);
  const { body } = wire;
  const id = start(
    [
      wire.method,
      wire.url,
      wire.headers,
      body.whole,
      body.rid,
      body.length,
      wire.cf,
      wire.websocket,
      wire.manual,
    ],
    slot,
  );
  const answer = answerOf(id, (parts) => responseFromHost(parts, wire.url));
  // A failing request body fails the request; the pump's own rejection adds nothing.
  if (body.stream !== null) pumpBody(body.stream, body.rid, slot).catch(() => {});
  return abortable(answer, signal, id);
}

/**
 * @template T
 * @param {Promise<T>} answer
 * @param {AbortSignal} signal
 * @param {number} id
 * @returns {Promise<T>}
 */
function abortable(answer, signal, id) {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      take(id);
      op_call_cancel(id);
      reject(signal.reason);
    };
    signal[abort.add](onAbort);
    const done = () => signal[abort.remove](onAbort);
    answer.then(
      (value) => {
        done();
        resolve(value);
      },
      (error) => {
        done();
        reject(error);
      },
    );
  });
}

/**
 * The global `fetch`.
 * @param {any} input
 * @param {any} [init]
 */
export async function fetch(input, init) {
  forbidAtGlobalScope();
  if (arguments.length === 0)
    throw new TypeError("Failed to execute 'fetch': 1 argument required, but only 0 present.");
  return fetchThrough(input, init, (wire, slot) => {
    const scheme = wire[1].slice(0, wire[1].indexOf(":"));
    if (scheme !== "http" && scheme !== "https") throw new TypeError(`Fetch API cannot load: ${wire[1]}`);
    return op_call_fetch(slot, wire);
  });
}

/**
 * @typedef {object} Target where a stub's calls go
 * @property {(input: any, init: any) => Promise<any>} fetch
 * @property {(path: string[], args: any[] | null) => import("./rpc_stubs.js").Question} call
 * @property {any[]} cap what stands for it in messages
 */

/**
 * @param {number} namespace
 * @param {string} hex
 * @param {string | undefined} name
 * @param {boolean} namesObject errors say which object they come from
 * @returns {Target}
 */
export function cellTarget(namespace, hex, name, namesObject = true) {
  const check = ownedBy("OutgoingFactory");
  // A stub whose object was reset, or whose connection was lost, stays broken.
  /** @type {{ error: unknown } | null} */
  let broken = null;
  /** @param {any} error @param {boolean} isCall */
  const failed = (error, isCall) => {
    if (typeof error !== "object" || error === null) return;
    const isReset = error.durableObjectReset === true && error.remote !== true;
    if (isReset || error.message === "Network connection lost.") broken = { error: sameAgain(error) };
    if (isReset && !isCall) error.remote = true;
    if (isCall && namesObject && error.remote === true) error.durableObjectId = hex;
  };
  return {
    fetch: async (input, init) => {
      check();
      if (broken !== null) throw sameAgain(broken.error);
      try {
        return await fetchThrough(input, init, (wire, slot) =>
          op_call_cell_fetch(slot, namespace, hex, name ?? null, wire),
        );
      } catch (error) {
        failed(error, false);
        throw error;
      }
    },
    call: (path, args) => {
      try {
        check();
      } catch (error) {
        return Question.failed(error);
      }
      if (broken !== null) return Question.failed(sameAgain(broken.error));
      return Session.open(
        path,
        args,
        (slot, event, bytes, caps) =>
          op_rpc_open_cell(slot, event, namespace, hex, name ?? null, path, bytes, caps),
        (error) => failed(error, true),
      );
    },
    cap: [2, namespace, hex, name ?? null],
  };
}

/**
 * @param {string | null} worker null for this Worker
 * @param {string | null} entrypoint null for the default export
 * @param {string | null} props JSON
 * @returns {Target}
 */
export function workerTarget(worker, entrypoint, props) {
  return {
    fetch: async (input, init) =>
      fetchThrough(input, init, (wire, slot) => op_call_worker_fetch(slot, worker, entrypoint, props, wire)),
    call: (path, args) =>
      Session.open(path, args, (slot, event, bytes, caps) =>
        op_rpc_open_worker(slot, event, worker, entrypoint, props, path, bytes, caps),
      ),
    cap: [3, worker, entrypoint, props],
  };
}
