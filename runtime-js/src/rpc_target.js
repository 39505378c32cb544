// What can be called: which members of a value a remote caller reaches.
// @ts-check

/** Base class of objects that are passed by reference. */
export class RpcTarget {}

/** True for objects of classes that are passed by reference. @param {any} value */
export function isTarget(value) {
  return value instanceof RpcTarget;
}

/** Names that entrypoints use for events, so that they cannot be called. */
const RESERVED = new Set([
  "fetch",
  "connect",
  "alarm",
  "webSocketMessage",
  "webSocketClose",
  "webSocketError",
]);
/** Names that never travel. */
const UNFORWARDED = new Set(["dup", "constructor"]);

/** @param {string} name */
export function missing(name) {
  return new TypeError(`The RPC receiver does not implement the method "${name}".`);
}

/** @param {any} value */
export function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** True when a path can go on behind the value. @param {any} value */
export function hasMembers(value) {
  if (typeof value === "function") return true;
  return typeof value === "object" && value !== null && (isTarget(value) || isPlain(value));
}

/**
 * The member of a value that a call names. Classes offer what their prototypes have, plain objects
 * and functions what they have themselves, everything else nothing.
 * @param {any} target
 * @param {string} name
 * @param {boolean} top `target` is an entrypoint or a Durable Object
 * @param {boolean} within the path began at one
 */
export function memberOf(target, name, top, within) {
  if ((typeof target !== "object" && typeof target !== "function") || target === null) throw missing(name);
  const isClass = top ? !isPlain(target) : isTarget(target);
  if (((isClass || within) && UNFORWARDED.has(name)) || (within && RESERVED.has(name)))
    throw new TypeError(`'${name}' is a reserved method and cannot be called over RPC.`);
  if (!isClass) {
    const isOpen = typeof target === "function" || isPlain(target);
    if (!isOpen || !Object.hasOwn(target, name)) throw missing(name);
    return target[name];
  }
  if (Object.hasOwn(target, name)) throw missing(name);
  for (
    let prototype = Object.getPrototypeOf(target);
    prototype !== null && prototype !== Object.prototype;
    prototype = Object.getPrototypeOf(prototype)
  ) {
    if (Object.hasOwn(prototype, name)) return target[name];
  }
  throw missing(name);
}
