// The event that runs at this moment, carried through promises and timers by V8's
// continuation-preserved data.
// @ts-check

import { core } from "ext:core/mod.js";
import { op_event_finish } from "ext:core/ops";
import { timers } from "./web.js";

/** @typedef {import("./cell.js").Cell} Cell */

const { setTimeout, clearTimeout } = timers;

/** How long work may go on after the answer of a stateless event, in ms. */
let waitUntilMaxMs = 30_000;

/** @param {number} milliseconds */
export function setWaitUntilMax(milliseconds) {
  waitUntilMaxMs = milliseconds;
}

/** One invocation of user code: a request, an RPC call, an alarm, a socket message. */
export class EventContext {
  #deadline;
  #holds = 0;

  /**
   * @param {number} id number by which the host knows the event; 0 for none
   * @param {Cell | null} cell the cell that handles it; null in a stateless Worker
   * @param {string} label what the event is, for log lines
   */
  constructor(id, cell, label) {
    this.id = id;
    this.cell = cell;
    this.label = label;
    /** Promises that keep the event alive. */
    this.pending = 0;
    this.answered = false;
    this.finished = false;
    /** It took too long: nothing that it waits for is delivered any more. */
    this.cancelled = false;
    this.#deadline = 0;
    /** Set while the event runs inside a critical section: that section. */
    this.section = /** @type {import("./cell.js").Section | null} */ (null);
    /** RPC sessions of a stateless event, which end with it. */
    this.sessions = /** @type {Set<import("./rpc_session.js").Session> | null} */ (null);
  }

  /** Slot of the cell; 0 in a stateless Worker. */
  get slot() {
    return this.cell === null ? 0 : this.cell.slot;
  }

  /**
   * Keeps the event alive until the promise settles; a rejection is logged, not fatal.
   * @param {unknown} promise
   */
  waitUntil(promise) {
    this.pending++;
    Promise.resolve(promise).then(
      () => this.#settled(),
      (error) => {
        reportRejection(error, this);
        this.#settled();
      },
    );
  }

  /**
   * Keeps the event alive without a limit in time, until the promise settles: a streamed answer,
   * an open WebSocket.
   * @param {Promise<unknown>} promise
   */
  hold(promise) {
    this.retain();
    const release = () => this.release();
    promise.then(release, release);
  }

  /** Keeps the event alive without a limit in time, until `release`. */
  retain() {
    this.#holds++;
  }

  release() {
    this.#holds--;
    this.maybeFinish();
  }

  #settled() {
    this.pending--;
    this.maybeFinish();
  }

  /** Tells the host when nothing of the event is left. */
  maybeFinish() {
    if (!this.answered || this.finished || this.id === 0) return;
    if (this.#holds > 0) return;
    if (this.pending === 0) this.#finish();
    else if (this.cell === null && this.#deadline === 0) this.#limitRest();
  }

  #finish() {
    this.finished = true;
    if (this.#deadline !== 0) clearTimeout(this.#deadline);
    for (const session of [...(this.sessions ?? [])]) session.close();
    op_event_finish(this.id);
  }

  /** What a stateless event still does after its answer has an end. */
  #limitRest() {
    this.#deadline = setTimeout(() => {
      if (this.finished) return;
      this.#finish();
      reportOverrun(this);
    }, waitUntilMaxMs);
  }
}

/** @type {(event: EventContext) => void} */
let reportOverrun = () => {};

/** @param {(event: EventContext) => void} report */
export function setOverrunReporter(report) {
  reportOverrun = report;
}

/** @type {(error: unknown, event: EventContext | null) => void} */
let reportRejection = () => {};

/** @param {(error: unknown, event: EventContext | null) => void} report */
export function setRejectionReporter(report) {
  reportRejection = report;
}

/**
 * The current event, if any user code of an event is running.
 * @returns {EventContext | null}
 */
export function currentEvent() {
  const mapping = core.getAsyncContext();
  return mapping === undefined || mapping === null ? null : (mapping.celld ?? null);
}

/**
 * Runs `work` on behalf of `event`; its continuations keep the association.
 * @template T
 * @param {EventContext} event
 * @param {() => T} work
 * @returns {T}
 */
export function runAs(event, work) {
  const before = core.getAsyncContext();
  core.setAsyncContext({ __proto__: null, ...marksOf(event) });
  try {
    return work();
  } finally {
    core.setAsyncContext(before);
  }
}

/**
 * Runs `work` on behalf of `event`, which is part of the current one: values that follow the
 * computation (`AsyncLocalStorage`) go on.
 * @template T
 * @param {EventContext} event
 * @param {() => T} work
 * @returns {T}
 */
export function runWithin(event, work) {
  const before = core.getAsyncContext();
  core.setAsyncContext({ __proto__: null, ...before, ...marksOf(event) });
  try {
    return work();
  } finally {
    core.setAsyncContext(before);
  }
}

/**
 * What a context holds of its event. The numbers let the CPU watchdog name the culprit without
 * running JavaScript.
 * @param {EventContext} event
 */
function marksOf(event) {
  return { celld: event, celldSlot: event.slot, celldEvent: event.id };
}

/**
 * Runs `work` with the values of a context that was captured earlier, on behalf of the current
 * event.
 * @template T
 * @param {any} values
 * @param {() => T} work
 * @returns {T}
 */
export function withValues(values, work) {
  const before = core.getAsyncContext();
  const event = before?.celld;
  const marks = event === undefined ? { celld: undefined, celldSlot: 0, celldEvent: 0 } : marksOf(event);
  core.setAsyncContext({ __proto__: null, ...values, ...marks });
  try {
    return work();
  } finally {
    core.setAsyncContext(before);
  }
}

/**
 * A check that what was made in this event is used in no other. All events of one cell may share
 * what they make.
 * @param {string} kind what it is, for the error
 * @param {EventContext | null} maker
 * @returns {() => void}
 */
export function ownedBy(kind, maker = currentEvent()) {
  const owner = maker?.cell ?? maker;
  return () => {
    const event = currentEvent();
    const user = event?.cell ?? event;
    if (owner === null || user === null || owner === user) return;
    throw new Error(
      `Cannot perform I/O on behalf of a different request. I/O objects (such as streams, request/response bodies, and others) created in the context of one request handler cannot be accessed from a different request's handler. This is a limitation of Cloudflare Workers which allows us to improve overall performance. (I/O type: ${kind})`,
    );
  };
}

const realNow = Date.now;

/**
 * Runs `work` with a context that was captured earlier.
 * @param {unknown} context
 * @param {() => void} work
 */
export function withContext(context, work) {
  const before = core.getAsyncContext();
  core.setAsyncContext(context);
  try {
    work();
  } finally {
    core.setAsyncContext(before);
  }
}

/**
 * Delivers the outcome of an operation of the host as the input gate of the current cell wants it.
 * @template T
 * @param {Promise<T>} outcome
 * @returns {Promise<T>}
 */
export function throughGate(outcome) {
  const event = currentEvent();
  const cell = event?.cell ?? null;
  if (event === null || cell === null) return outcome;
  const { section } = event;
  cell.holds++;
  const pass = () => {
    cell.holds--;
    return new Promise((go) =>
      cell.resume(section, () => {
        if (!event.cancelled) go(undefined);
      }),
    );
  };
  return outcome.then(
    async (value) => {
      await pass();
      return value;
    },
    async (error) => {
      await pass();
      throw error;
    },
  );
}

/** True while the main module is evaluated: no I/O, timers or randomness then. */
let loading = false;

/** @param {boolean} value */
export function setLoading(value) {
  loading = value;
  // Time does not exist at module scope.
  Date.now = value ? () => 0 : realNow;
}

/** True while the main module is evaluated. */
export function isLoading() {
  return loading;
}

/** Refuses what Workers refuse at module scope. */
export function forbidAtGlobalScope() {
  if (loading && currentEvent() === null) {
    throw new Error(
      "Disallowed operation called within global scope. Asynchronous I/O (ex: fetch() or connect()), setting a timeout, and generating random values are not allowed within global scope. To fix this error, perform this operation within a handler. https://developers.cloudflare.com/workers/runtime-apis/handlers/",
    );
  }
}
