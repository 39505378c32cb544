// A Durable Object instance: its input gate, its critical sections, its life and end.
// @ts-check

import { core } from "ext:core/mod.js";
import { op_cell_reset, op_cell_wake, op_socket_close } from "ext:core/ops";
import { logException } from "./console.js";
import { EventContext, currentEvent, runAs, runWithin } from "./context.js";
import { describeError } from "./errors.js";
import { domException, timers } from "./web.js";

const { DOMException } = domException;
const { setTimeout, clearTimeout } = timers;

/** How deep critical sections may nest. */
const SECTIONS_MAX = 64;
/** How long a critical section may take, in ms. */
const SECTION_MAX_MS = 30_000;

/**
 * A stretch during which only its own work runs.
 * @typedef {object} Section
 * @property {Section | null} outer
 * @property {number} depth
 * @property {boolean} ended its promise has settled; work that it began may still go on
 */

/**
 * The innermost section around something that has not ended.
 * @param {Section | null} section
 */
function live(section) {
  while (section !== null && section.ended) section = section.outer;
  return section;
}

/** One residence of one Durable Object in this isolate. A reset object gets a fresh one. */
export class Cell {
  /**
   * @param {number} slot number of this instance, never used twice
   * @param {import("./ids.js").DurableObjectId} id
   * @param {string} className
   */
  constructor(slot, id, className) {
    this.slot = slot;
    this.id = id;
    this.className = className;
    /** @type {any} */
    this.instance = null;
    /** @type {unknown} */
    this.broken = undefined;
    this.isBroken = false;
    /** @type {Section | null} */
    this.section = null;
    /** Sections that wait for the running one; they go before events. */
    this.sections = /** @type {{ event: EventContext, start: () => void }[]} */ ([]);
    /** Events and continuations that wait for the running section. */
    this.waiting = /** @type {(() => void)[]} */ ([]);
    /** Socket objects by the host's number. */
    this.sockets = new Map();
    /** Sockets that the instance reads itself, by the host's number. */
    this.accepted = new Set();
    /** Answers from outside that its work waits for: they keep the object in memory. */
    this.holds = 0;
    /** RPC sessions, which end with the object. */
    this.sessions = /** @type {Set<import("./rpc_session.js").Session> | null} */ (null);
    /** Timers, so that they end with the object. */
    this.timers = /** @type {Map<number, () => void>} */ (new Map());
  }

  /** True for real cells alone: what scripts make up has not the mark. @param {any} value */
  static isCell(value) {
    return typeof value === "object" && value !== null && #mark in value;
  }

  #mark = true;

  /**
   * Runs `work` when the input gate is open, in the order of arrival.
   * @param {() => void} work
   */
  deliver(work) {
    if (this.isBroken) return;
    if (this.section === null && this.waiting.length === 0) work();
    else this.waiting.push(work);
  }

  /**
   * Runs a continuation (a timer, an answer) of work that began in `section`: inside that
   * section at once, otherwise like an event.
   * @param {Section | null} section
   * @param {() => void} work
   */
  resume(section, work) {
    section = live(section);
    if (section !== null) {
      for (let inner = this.section; inner !== null; inner = inner.outer) {
        if (inner === section) {
          if (!this.isBroken) work();
          return;
        }
      }
    }
    this.deliver(work);
  }

  /**
   * Lets one waiter in. Called by the host when the microtasks of the one before have run, so
   * that storage operations keep others out here as they do when nothing waits.
   */
  admit() {
    if (this.section !== null || this.isBroken) return;
    const next = this.sections.shift()?.start ?? this.waiting.shift();
    if (next !== undefined) next();
    this.#wake();
  }

  /** A section has ended: the next one that belongs where it was begins, or the gate opens. */
  #left() {
    this.section = live(this.section);
    if (this.section === null) {
      this.#wake();
      return;
    }
    const next = this.sections.findIndex((entry) => live(entry.event.section) === this.section);
    if (next >= 0) this.sections.splice(next, 1)[0].start();
  }

  #wake() {
    if (this.section === null && this.sections.length + this.waiting.length > 0) op_cell_wake(this.slot);
  }

  /**
   * Runs `work` as a critical section: other events wait until its promise settles.
   * @template T
   * @param {() => T | Promise<T>} work
   * @param {boolean} fatal a failure or a timeout resets the object
   * @returns {Promise<T>}
   */
  critical(work, fatal) {
    const event = currentEvent() ?? new EventContext(0, this, "constructor");
    const around = live(event.section);
    if (around !== null && around.depth >= SECTIONS_MAX) {
      return Promise.reject(new Error("blockConcurrencyWhile() calls are nested too deeply."));
    }
    return new Promise((resolve, reject) => {
      const start = () => {
        const outer = live(event.section);
        const section = { outer, depth: (outer?.depth ?? 0) + 1, ended: false };
        this.section = section;
        const inner = new EventContext(0, this, event.label);
        inner.section = section;
        let timer = 0;
        const leave = () => {
          if (timer !== 0) clearTimeout(timer);
          section.ended = true;
          this.#left();
        };
        /** @param {unknown} error */
        const fail = (error) => {
          if (fatal) {
            runAs(inner, () => logException(error, "Uncaught (in blockConcurrencyWhile) "));
            this.break(error);
            // The old instance learns nothing more; its callers get the error from the host.
          } else {
            leave();
            reject(error);
          }
        };
        if (fatal) {
          timer = setTimeout(() => {
            fail(
              new Error(
                "A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and the Durable Object was reset.",
              ),
            );
          }, SECTION_MAX_MS);
        }
        // The gate is shut at once; the work begins when the running code has come to its end.
        runWithin(inner, () => Promise.resolve().then(work)).then((value) => {
          if (this.isBroken) return;
          leave();
          resolve(value);
        }, fail);
      };
      if (this.section === around) start();
      else this.sections.push({ event, start });
    });
  }

  /**
   * Ends this instance: its events fail with `error`, what it did not commit is undone, and the
   * next event finds a new instance.
   * @param {unknown} error
   */
  break(error) {
    if (this.isBroken) return;
    this.isBroken = true;
    this.broken = error;
    this.dispose();
    op_cell_reset(this.slot, describeError(error, true));
  }

  /** Something is under way that needs the object. */
  retain() {
    this.holds++;
  }

  release() {
    this.holds--;
  }

  /** True when an object without events may be dropped: nothing of it is under way. */
  mayRest() {
    return (
      this.holds === 0 &&
      this.timers.size === 0 &&
      this.accepted.size === 0 &&
      this.section === null &&
      this.sections.length + this.waiting.length === 0
    );
  }

  /** Ends what would otherwise go on running. */
  dispose() {
    this.isBroken = true;
    for (const end of [...this.timers.values()]) end();
    this.timers.clear();
    for (const rid of this.accepted) op_socket_close(rid, 1006, "", 0);
    this.accepted.clear();
    // The host ends them on its side, with the reason.
    for (const session of [...(this.sessions ?? [])]) session.end(null);
    this.waiting.length = 0;
    this.sections.length = 0;
    liveCells.delete(this.slot);
  }

  /** Refuses work of an instance that is no more. */
  check() {
    if (this.isBroken) throw this.broken ?? new Error("This Durable Object instance has ended.");
  }
}

/** Instances by slot. */
export const liveCells = /** @type {Map<number, Cell>} */ (new Map());

/** Bytes that a value takes in V8's format. @param {unknown} value */
export function serialize(value) {
  return core.serialize(value, { forStorage: true }, (/** @type {string} */ message) => {
    throw new DOMException(message, "DataCloneError");
  });
}

/** @param {Uint8Array} bytes */
export function deserialize(bytes) {
  return core.deserialize(bytes, { forStorage: true });
}
