// Stubs of entrypoints and Durable Objects, and the namespaces that make them.
// @ts-check

import { core } from "ext:core/mod.js";
import { cellTarget, workerTarget } from "./calls.js";
import { forbidAtGlobalScope } from "./context.js";
import { makeId, DurableObjectId } from "./ids.js";
import { markNotStorable } from "./store.js";
import { op_id_check, op_id_from_name, op_id_unique } from "ext:core/ops";
import { setEntrypointStub } from "./rpc_session.js";
import { RpcTarget } from "./rpc_target.js";
import { PropertyHandler, Question, isAbsent, setHandler } from "./rpc_stubs.js";

/** @typedef {import("./calls.js").Target} Target */

/** What is behind the stub of an entrypoint or of a Durable Object. */
class EntrypointHandler {
  #target;

  /** @param {Target} target */
  constructor(target) {
    this.#target = target;
  }

  /** @param {string[]} path @param {any[] | null} args */
  call(path, args) {
    return this.#target.call(path, args);
  }

  wire() {
    return this.#target.cap;
  }
}

/**
 * Behind a platform object that can be called and cannot be sent.
 * @param {any} proxy
 * @param {string} typeName
 */
export function markUnsendable(proxy, typeName) {
  return setHandler(proxy, {
    typeName,
    wire: () => null,
    call: () => Question.failed(new TypeError(`${typeName} cannot be called.`)),
  });
}

/**
 * Wraps an object so that unknown names become remote members.
 * @param {any} base
 * @param {Target} target
 */
function remote(base, target) {
  const proxy = new Proxy(base, {
    get(object, key) {
      if (typeof key === "symbol" || key in object) {
        const value = Reflect.get(object, key, object);
        return typeof value === "function" && key !== "constructor" ? value.bind(object) : value;
      }
      if (isAbsent(key)) return undefined;
      return PropertyHandler.make(target, [key]);
    },
  });
  return setHandler(proxy, new EntrypointHandler(target));
}

/** Stub of an entrypoint. */
export class Fetcher {
  #target;

  /** @param {Target} target */
  constructor(target) {
    if (target?.cap === undefined) throw new TypeError("Illegal constructor");
    this.#target = target;
  }

  /** @param {any} input @param {any} [init] */
  fetch(input, init) {
    return this.#target.fetch(input, init);
  }

  connect() {
    throw new Error("connect() is not supported by this version of celld.");
  }
}

/** @param {Target} target */
export function makeFetcher(target) {
  return remote(new Fetcher(target), target);
}

/** Stub of a Durable Object. */
export class DurableObject extends Fetcher {
  /** @param {Target} target @param {DurableObjectId} id */
  constructor(target, id) {
    super(target);
    if (!(id instanceof DurableObjectId)) throw new TypeError("Illegal constructor");
    Object.defineProperty(this, "name", { value: id.name, enumerable: true });
    Object.defineProperty(this, "id", { value: id, enumerable: true });
  }
}

for (const [type, tag] of /** @type {[any, string][]} */ ([
  [Fetcher, "Fetcher"],
  [DurableObject, "DurableObject"],
]))
  Object.defineProperty(type.prototype, Symbol.toStringTag, { value: tag, configurable: true });

/** @param {number} namespace @param {DurableObjectId} id */
function cellStub(namespace, id) {
  // A long name stays with the id that was made from it: the object does not learn it.
  const { name } = id;
  const known = name !== undefined && core.byteLength(name) <= NAME_MAX_BYTES ? name : undefined;
  const target = cellTarget(namespace, id.toString(), known);
  return remote(new DurableObject(target, id), target);
}

/** Longest name that an object learns, in bytes. */
const NAME_MAX_BYTES = 1024;

export class DurableObjectNamespace {
  #index;

  /** @param {number} index the host's number of the namespace */
  constructor(index) {
    if (typeof index !== "number") throw new TypeError("Illegal constructor");
    this.#index = index;
  }

  get [Symbol.toStringTag]() {
    return "DurableObjectNamespace";
  }

  /** @param {{ jurisdiction?: string }} [options] */
  newUniqueId(options) {
    forbidAtGlobalScope();
    checkJurisdiction(options?.jurisdiction);
    return makeId(op_id_unique(this.#index), undefined);
  }

  /** @param {string} name */
  idFromName(name) {
    if (arguments.length === 0)
      throw new TypeError(
        "Failed to execute 'idFromName' on 'DurableObjectNamespace': parameter 1 is not of type 'string'.",
      );
    name = String(name);
    return makeId(op_id_from_name(this.#index, name), name);
  }

  /** @param {string} id */
  idFromString(id) {
    return makeId(op_id_check(this.#index, String(id)), undefined);
  }

  /** @param {DurableObjectId} id @param {any} [options] */
  get(id, options) {
    forbidAtGlobalScope();
    if (!(id instanceof DurableObjectId)) {
      throw new TypeError(
        "Failed to execute 'get' on 'DurableObjectNamespace': parameter 1 is not of type 'DurableObjectId'.",
      );
    }
    op_id_check(this.#index, id.toString());
    // Hints about the place are taken, and have no effect on a fleet in one place.
    const mode = options?.routingMode;
    if (mode !== undefined && mode !== null && mode !== "primary-only")
      throw new RangeError(`unknown routingMode: ${mode}`);
    return cellStub(this.#index, id);
  }

  /** @param {string} name @param {any} [options] */
  getByName(name, options) {
    if (arguments.length === 0)
      throw new TypeError(
        "Failed to execute 'getByName' on 'DurableObjectNamespace': parameter 1 is not of type 'string'.",
      );
    return this.get(this.idFromName(name), options);
  }

  /** @param {string} name */
  jurisdiction(name) {
    checkJurisdiction(name);
    return this;
  }
}
markNotStorable([DurableObjectNamespace, RpcTarget]);

/** @param {string | undefined} jurisdiction */
function checkJurisdiction(jurisdiction) {
  if (jurisdiction !== undefined && !["eu", "fedramp", "fedramp-high", "us"].includes(jurisdiction)) {
    throw new TypeError(`Invalid jurisdiction: ${jurisdiction}`);
  }
}

setEntrypointStub(([kind, a, b, c]) => {
  if (kind === 2) {
    if (a === null) throw new Error("Too many Durable Object namespaces are known to this isolate.");
    return makeFetcher(cellTarget(a, b, c ?? undefined, false));
  }
  return makeFetcher(workerTarget(a, b, c));
});
