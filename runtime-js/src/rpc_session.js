// RPC sessions: what the two ends of a remote call tell each other.
//
// Each end keeps what it exported, what it imported, the questions that it asked and the answers
// that it owes. A call may name the answer to an earlier question before it is there.
// @ts-check

import {
  op_event_return,
  op_rpc_call,
  op_rpc_close,
  op_rpc_finish,
  op_rpc_release,
  op_rpc_return,
  op_rpc_throw,
} from "ext:core/ops";
import { logException } from "./console.js";
import { currentEvent, ownedBy, runAs } from "./context.js";
import { describeError, rebuildError } from "./errors.js";
import { Entry, Forward, LocalHook, Question, invoke } from "./rpc_stubs.js";
import { Holdings, pack, packResult, unpack } from "./rpc_values.js";

/** @typedef {import("./context.js").EventContext} EventContext */
/** @typedef {import("./cell.js").Cell} Cell */
/** @typedef {import("./rpc_stubs.js").Hook} Hook */
/** @typedef {import("./rpc_stubs.js").StubHandler} StubHandler */
/** @typedef {import("./rpc_values.js").Packed} Packed */

/** Most entries of each table of a session. */
const TABLE_MAX = 65_536;

/** Sessions by the host's number. */
const sessions = /** @type {Map<number, Session>} */ (new Map());

/** What calls get whose other side has ended. */
function ended() {
  return new Error("The execution context which hosts this callback is no longer running.");
}

/** A question whose answer comes by a session. */
class RemoteQuestion extends Question {
  /**
   * @param {Session} session
   * @param {number} id
   * @param {RemoteQuestion | null} parent the question on whose answer this one is asked
   * @param {string[]} path
   * @param {boolean} isCall
   */
  constructor(session, id, parent, path, isCall) {
    super();
    this.session = session;
    this.id = id;
    this.parent = parent;
    this.path = path;
    this.isCall = isCall;
    this.section = currentEvent()?.section ?? null;
    session.cell?.retain();
  }

  /** @param {any} value @param {Holdings} holdings */
  settle(value, holdings) {
    this.session.cell?.release();
    super.settle(value, holdings);
  }

  /** @param {unknown} error */
  fail(error) {
    this.session.cell?.release();
    super.fail(error);
  }

  /** @param {string[]} path @param {any[] | null} args */
  pipeline(path, args) {
    return this.session.isEnded ? this.callHere(path, args) : this.session.ask(this, this.id, path, args);
  }
}

/** A reference to something that the other side of a session exported. @implements {Hook} */
class ImportHook {
  /** @param {Session} session @param {number} id */
  constructor(session, id) {
    this.session = session;
    this.id = id;
  }

  /** @param {string[]} path @param {any[] | null} args */
  call(path, args) {
    return this.session.ask(null, this.id, path, args);
  }

  dup() {
    this.session.retain(this.id);
    return new ImportHook(this.session, this.id);
  }

  dispose() {
    this.session.release(this.id);
  }
}

/**
 * A call that somebody else made.
 * @typedef {object} Answer
 * @property {Promise<any>} result
 * @property {StubHandler[]} stubs what the result holds; the caller's, once it has the result
 */

/**
 * How an answer comes about.
 * @typedef {object} Work
 * @property {Promise<any> | null} on the result that the call is made on, if it is made on one
 * @property {(args: any, on: any) => any} run
 * @property {() => void} done
 * @property {import("./cell.js").Section | null} section where it belongs
 * @property {boolean} isFirst
 */

/** Stubs that are passed are the receiver's from then on; newer Workers pass duplicates. */
let movesParams = false;

/** @param {boolean} value */
export function setParamsMove(value) {
  movesParams = value;
}

/** @type {(cap: any[]) => any} */
let entrypointStub = () => undefined;

/** @param {(cap: any[]) => any} make */
export function setEntrypointStub(make) {
  entrypointStub = make;
}

/**
 * One end of a session.
 * @implements {Codec}
 * @typedef {import("./rpc_values.js").Codec} Codec
 */
export class Session {
  id = 0;
  isEnded = false;
  #questions = /** @type {Map<number, RemoteQuestion>} */ (new Map());
  #nextQuestion = 1;
  #answers = /** @type {Map<number, Answer>} */ (new Map());
  #exports = /** @type {Map<number, { entry: Entry, count: number }> | null} */ (null);
  #nextExport = 1;
  /** References held here, and how many the other side has given. */
  #imports = /** @type {Map<number, { held: number, given: number }> | null} */ (null);
  /** Imports that are on their way home and must not be released before they are there. */
  #spent = /** @type {Hook[] | null} */ (null);
  #checkOwner;
  #hold = /** @type {EventContext | Cell | null} */ (null);

  /**
   * @param {EventContext | null} event on whose behalf this end takes part
   * @param {boolean} isOpener
   * @param {(error: any) => void} [onError] sees errors that come from the other side
   */
  constructor(event, isOpener, onError) {
    this.event = event;
    this.cell = event?.cell ?? null;
    this.#checkOwner = event === null ? () => {} : ownedBy("Client", event);
    this.isOpener = isOpener;
    this.onError = onError;
  }

  /** @param {number} id */
  #register(id) {
    this.id = id;
    sessions.set(id, this);
    const owner = this.cell ?? this.event;
    if (owner !== null) (owner.sessions ??= new Set()).add(this);
  }

  /**
   * Opens a session with its first call.
   * @param {string[]} path
   * @param {any[] | null} args
   * @param {(slot: number, event: number, bytes: Uint8Array | null, caps: any[][] | null) => number} send
   * @param {(error: any) => void} [onError]
   */
  static open(path, args, send, onError) {
    const event = currentEvent();
    const session = new Session(event, true, onError);
    try {
      const sent = args === null ? null : pack(args, session);
      session.#register(send(event?.slot ?? 0, event?.id ?? 0, sent?.bytes ?? null, sent?.caps ?? null));
      session.#sent(sent, true);
    } catch (error) {
      return Question.failed(error);
    }
    const question = new RemoteQuestion(session, 0, null, path, args !== null);
    session.#questions.set(0, question);
    session.#updateHold();
    return question;
  }

  /**
   * Takes part in a session that was opened from elsewhere.
   * @param {number} id @param {EventContext} event
   */
  static accept(id, event) {
    const session = new Session(event, false);
    session.#register(id);
    return session;
  }

  // Outgoing calls.

  /**
   * Asks a question on an import, or on the answer to another question.
   * @param {RemoteQuestion | null} parent
   * @param {number} target
   * @param {string[]} path
   * @param {any[] | null} args
   */
  ask(parent, target, path, args) {
    try {
      this.#checkOwner();
    } catch (error) {
      return Question.failed(error);
    }
    if (this.isEnded) return Question.failed(ended());
    const id = this.#nextQuestion++;
    try {
      if (this.#questions.size >= TABLE_MAX) throw tooMany("calls without an answer");
      const sent = args === null ? null : pack(args, this);
      op_rpc_call(this.id, id, parent !== null, target, path, sent?.bytes ?? null, sent?.caps ?? null);
      this.#sent(sent, true);
    } catch (error) {
      return Question.failed(error);
    }
    const question = new RemoteQuestion(this, id, parent, path, args !== null);
    this.#questions.set(id, question);
    return question;
  }

  /** After a message has been sent. @param {Packed | null} sent @param {boolean} isParams */
  #sent(sent, isParams) {
    this.#letSpentGo();
    if (isParams && sent !== null && movesParams) for (const stub of sent.stubs) stub.dispose();
    if (sent?.caps) this.#updateHold();
  }

  #letSpentGo() {
    const spent = this.#spent;
    this.#spent = null;
    if (spent !== null) for (const hook of spent) hook.dispose();
  }

  // Capabilities.

  /** @param {number} count */
  admit(count) {
    if ((this.#exports?.size ?? 0) + count > TABLE_MAX) throw tooMany("references that the other side holds");
  }

  /** @param {Hook} hook @returns {any[]} */
  give(hook) {
    if (hook instanceof ImportHook && hook.session === this) {
      (this.#spent ??= []).push(hook);
      return [1, hook.id, null, null];
    }
    const entry = hook instanceof LocalHook ? hook.entry : new Entry(new Forward(hook));
    const id = this.#nextExport++;
    (this.#exports ??= new Map()).set(id, { entry, count: 1 });
    return [0, id, null, null];
  }

  /** @param {any[]} cap @returns {any} */
  take([kind, id, a, b]) {
    if (kind === 0) {
      this.#imports ??= new Map();
      const known = this.#imports.get(id);
      if (known === undefined) {
        if (this.#imports.size >= TABLE_MAX) throw tooMany("references of the other side");
        this.#imports.set(id, { held: 1, given: 1 });
      } else {
        known.held++;
        known.given++;
      }
      return new ImportHook(this, id);
    }
    if (kind === 1) {
      const found = this.#exports?.get(id);
      if (found === undefined) throw new Error("RPC session broken: a reference to what was released.");
      return new LocalHook(found.entry.retain());
    }
    return { fetcher: entrypointStub([kind, id, a, b]) };
  }

  /** @param {number} id */
  retain(id) {
    const found = this.#imports?.get(id);
    if (found !== undefined) found.held++;
  }

  /** @param {number} id */
  release(id) {
    const found = this.#imports?.get(id);
    if (found === undefined || --found.held > 0) return;
    this.#imports?.delete(id);
    if (this.isEnded) return;
    op_rpc_release(this.id, id, found.given);
    this.#closeIfDone();
  }

  // Incoming messages.

  /**
   * The call that opened the session.
   * @param {number} question
   * @param {Uint8Array | null} bytes
   * @param {any[][] | null} caps
   * @param {(args: any) => any} run
   */
  begin(question, bytes, caps, run) {
    this.#answer(question, bytes, caps, { on: null, run, done: () => {}, section: null, isFirst: true });
  }

  /**
   * @param {number} question @param {boolean} onAnswer @param {number} target @param {string[]} path
   * @param {Uint8Array | null} bytes @param {any[][] | null} caps
   */
  onCall(question, onAnswer, target, path, bytes, caps) {
    if (this.#answers.has(question)) throw new Error("a question was asked twice");
    if (onAnswer) {
      const on = this.#answers.get(target)?.result;
      if (on === undefined) throw new Error("a call on an answer that is not there");
      const run = (/** @type {any} */ args, /** @type {any} */ value) => invoke(value, path, args);
      this.#answer(question, bytes, caps, { on, run, done: () => {}, section: null, isFirst: false });
      return;
    }
    const entry = this.#exports?.get(target)?.entry;
    if (entry === undefined) throw new Error("a call on an export that is not there");
    entry.retain();
    const run = (/** @type {any} */ args) => entry.call(path, args);
    const done = () => entry.release();
    const { section } = entry;
    this.#answer(question, bytes, caps, { on: null, run, done, section, isFirst: false });
  }

  /**
   * @param {number} question
   * @param {Uint8Array | null} bytes
   * @param {any[][] | null} caps
   * @param {Work} work
   */
  #answer(question, bytes, caps, work) {
    const { event } = this;
    if (this.#answers.size >= TABLE_MAX) {
      work.done();
      throw tooMany("calls that have no answer yet");
    }
    /** @type {Holdings | null} */
    let params = null;
    const result = new Promise((resolve, reject) => {
      const start = (/** @type {any} */ value) => {
        const go = () => {
          try {
            let args = null;
            if (bytes !== null) ({ value: args, holdings: params } = unpack(bytes, caps, this));
            resolve(work.run(args, value));
          } catch (error) {
            reject(error);
          }
        };
        const enter = () => (event === null ? go() : runAs(event, go));
        if (this.cell === null) enter();
        else this.cell.resume(work.section, enter);
      };
      if (work.on === null) start(undefined);
      else work.on.then(start, reject);
    });
    const answer = { result, stubs: /** @type {StubHandler[]} */ ([]) };
    this.#answers.set(question, answer);
    this.#updateHold();
    const finish = (/** @type {any} */ value, /** @type {boolean} */ isError) => {
      if (isError) this.#throw(question, value, params, work.isFirst);
      else this.#return(question, answer, value, params, work.isFirst);
      work.done();
    };
    result.then(
      (value) => finish(value, false),
      (error) => finish(error, true),
    );
  }

  /** Nothing but one answer is left to say. @param {boolean} isFirst */
  #isLast(isFirst) {
    return (
      isFirst &&
      this.#answers.size === 1 &&
      this.#questions.size === 0 &&
      (this.#exports?.size ?? 0) === 0 &&
      (this.#imports?.size ?? 0) === 0
    );
  }

  /**
   * @param {number} question @param {Answer} answer @param {any} value
   * @param {Holdings | null} params @param {boolean} isFirst
   */
  #return(question, answer, value, params, isFirst) {
    if (this.isEnded || this.cell?.isBroken) {
      params?.dispose();
      return;
    }
    /** @type {Packed} */
    let sent;
    try {
      sent = this.event === null ? packResult(value, this) : runAs(this.event, () => packResult(value, this));
    } catch (error) {
      this.#throw(question, error, params, isFirst);
      return;
    }
    answer.stubs = sent.stubs;
    params?.dispose();
    const last = this.#isLast(isFirst);
    op_rpc_return(this.id, question, last, sent.bytes, sent.caps);
    if (last) this.#over();
    else this.#sent(sent, false);
    if (isFirst) this.#answered();
  }

  /** @param {number} question @param {unknown} error @param {Holdings | null} params @param {boolean} isFirst */
  #throw(question, error, params, isFirst) {
    params?.dispose();
    // The calls of an instance that has ended get the error of its end, from the host.
    if (this.isEnded || this.cell?.isBroken) return;
    if (isFirst && this.event !== null) runAs(this.event, () => logException(error, "Uncaught "));
    const last = this.#isLast(isFirst);
    op_rpc_throw(this.id, question, last, describeError(error, true));
    if (last) this.#over();
    if (isFirst) this.#answered();
  }

  /** The call that opened the session has its answer. */
  #answered() {
    const event = /** @type {EventContext} */ (this.event);
    event.answered = true;
    op_event_return(event.id);
    this.#updateHold();
    event.maybeFinish();
  }

  /** @param {number} id @param {boolean} last @param {Uint8Array} bytes @param {any[][] | null} caps */
  onReturn(id, last, bytes, caps) {
    this.#settle(id, last, (question) => {
      const { value, holdings } = unpack(bytes, caps, this);
      question.settle(value, holdings);
    });
  }

  /** @param {number} id @param {boolean} last @param {any} wire */
  onThrow(id, last, wire) {
    this.#settle(id, last, () => {
      throw this.#errorOf(wire, true);
    });
  }

  /** @param {any} wire @param {boolean} isThrown by what was called, not by what befell it */
  #errorOf(wire, isThrown) {
    const error = /** @type {any} */ (rebuildError(wire.error));
    if (isThrown) error.remote = true;
    this.onError?.(error);
    return error;
  }

  /** @param {number} id @param {boolean} last @param {(question: RemoteQuestion) => void} settle */
  #settle(id, last, settle) {
    const question = this.#questions.get(id);
    if (question === undefined) throw new Error("an answer to no question");
    if (last) this.#endWith(question);
    this.#resume(question, () => {
      this.#questions.delete(id);
      try {
        settle(question);
      } catch (error) {
        question.fail(error);
      }
      if (this.isEnded) return;
      op_rpc_finish(this.id, id);
      this.#closeIfDone();
    });
  }

  /** Goes on where a question was asked. @param {RemoteQuestion} question @param {() => void} work */
  #resume(question, work) {
    if (this.cell === null) work();
    else this.cell.resume(question.section, work);
  }

  /**
   * The other side had nothing to keep for the answer to `question`, and has ended the session
   * with it: what was asked on that answer can be told from the answer itself.
   * @param {RemoteQuestion} question
   */
  #endWith(question) {
    const others = [...this.#questions.values()].filter((other) => other !== question);
    this.#over();
    this.#questions.clear();
    this.#questions.set(question.id, question);
    for (const other of others) {
      if (other.parent === null) {
        other.fail(ended());
        continue;
      }
      const path = other.path;
      const answer = other.parent.promise.then((value) => {
        try {
          return invoke(value, path, other.isCall ? [] : null);
        } catch (error) {
          throw rebuildError({ ...describeError(error, false), remote: true });
        }
      });
      answer.then(
        (value) => other.settle(value, new Holdings()),
        (error) => other.fail(error),
      );
    }
  }

  /** @param {number} id @param {number} count */
  onRelease(id, count) {
    const found = this.#exports?.get(id);
    if (found === undefined || count > found.count) throw new Error("a release of what is not held");
    found.count -= count;
    if (found.count > 0) return;
    this.#exports?.delete(id);
    found.entry.release();
    this.#updateHold();
    this.#closeIfDone();
  }

  /** @param {number} id */
  onFinish(id) {
    const answer = this.#answers.get(id);
    if (answer === undefined) throw new Error("the end of a question that is not there");
    this.#answers.delete(id);
    for (const stub of answer.stubs) stub.dispose();
    this.#updateHold();
    this.#closeIfDone();
  }

  // Life.

  /** Keeps the event, or the instance, as long as the other side may call. */
  #updateHold() {
    const isBusy = !this.isEnded && (this.#answers.size > 0 || (this.#exports?.size ?? 0) > 0);
    if (isBusy === (this.#hold !== null)) return;
    const { event, cell } = this;
    if (isBusy) {
      if (!this.isOpener && event !== null && !event.finished) {
        // Until it is answered the event needs nobody to hold it.
        if (!event.answered) return;
        this.#hold = event;
      } else {
        this.#hold = cell;
      }
      this.#hold?.retain();
      return;
    }
    const hold = this.#hold;
    this.#hold = null;
    hold?.release();
  }

  #closeIfDone() {
    if (
      this.isOpener &&
      !this.isEnded &&
      this.#questions.size === 0 &&
      this.#answers.size === 0 &&
      (this.#exports?.size ?? 0) === 0 &&
      (this.#imports?.size ?? 0) === 0
    )
      this.close();
  }

  /** Ends the session from this side. */
  close() {
    if (this.isEnded) return;
    op_rpc_close(this.id);
    this.end(null);
  }

  /** Takes the session out of use. */
  #over() {
    this.isEnded = true;
    sessions.delete(this.id);
    (this.cell ?? this.event)?.sessions?.delete(this);
    this.#letSpentGo();
    this.#updateHold();
  }

  /**
   * The session has ended.
   * @param {any} why as the host describes an error; null when there is nothing to say
   */
  end(why) {
    if (this.isEnded) return;
    this.#over();
    const error = why === null ? ended() : this.#errorOf(why, false);
    for (const question of this.#questions.values()) this.#resume(question, () => question.fail(error));
    this.#questions.clear();
    for (const { entry, count } of this.#exports?.values() ?? [])
      for (let i = 0; i < count; i++) entry.release();
    this.#exports = null;
    for (const { stubs } of this.#answers.values()) for (const stub of stubs) stub.dispose();
    this.#answers.clear();
    this.#imports = null;
  }
}

/** @param {string} what */
function tooMany(what) {
  return new Error(`RPC session is overloaded: more than ${TABLE_MAX} ${what}.`);
}

const HANDLERS = /** @type {((session: any, ...fields: any[]) => void)[]} */ ([
  () => {},
  (session, ...fields) => session.onCall(...fields),
  (session, ...fields) => session.onReturn(...fields),
  (session, ...fields) => session.onThrow(...fields),
  (session, ...fields) => session.onRelease(...fields),
  (session, ...fields) => session.onFinish(...fields),
]);

/**
 * Called by the host for each message of a session.
 * @param {number} id @param {number} kind @param {any[]} fields
 */
export function sessionFrame(id, kind, ...fields) {
  const session = sessions.get(id);
  if (session === undefined) return;
  try {
    HANDLERS[kind](session, ...fields);
  } catch (error) {
    // The other side broke the rules: nothing that it says can be trusted.
    const { message } = describeError(error, false);
    op_rpc_close(id);
    session.end({ error: { name: "Error", message: `RPC session ended by a protocol error: ${message}` } });
  }
}

/**
 * Called by the host when a session has ended.
 * @param {number} id @param {any} why
 */
export function sessionEnded(id, why) {
  sessions.get(id)?.end(why);
}
