// The event that runs at this moment, carried through promises and timers by V8's
// continuation-preserved data.
// @ts-check

import { core } from "ext:core/mod.js";
import { op_event_finish } from "ext:core/ops";

/** @typedef {import("./cell.js").Cell} Cell */

/** One invocation of user code: a request, an RPC call, an alarm, a socket message. */
export class EventContext {
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
    /** Set while the event runs inside a critical section: that section. */
    this.section = /** @type {import("./cell.js").Section | null} */ (null);
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

  #settled() {
    this.pending--;
    this.maybeFinish();
  }

  /** Tells the host when nothing of the event is left. */
  maybeFinish() {
    if (this.answered && this.pending === 0 && !this.finished && this.id !== 0) {
      this.finished = true;
      op_event_finish(this.id);
    }
  }
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
  // The numeric slot lets the CPU watchdog name the culprit without running JavaScript.
  core.setAsyncContext({ __proto__: null, celld: event, celldSlot: event.slot, celldEvent: event.id });
  try {
    return work();
  } finally {
    core.setAsyncContext(before);
  }
}

const realNow = Date.now;

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
