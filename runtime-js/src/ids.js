// Durable Object ids.
// @ts-check

const PRIVATE = Symbol("celld");

export class DurableObjectId {
  #hex;
  #name;

  /**
   * @param {symbol} key
   * @param {string} hex
   * @param {string | undefined} name
   */
  constructor(key, hex, name) {
    if (key !== PRIVATE) throw new TypeError("Illegal constructor");
    this.#hex = hex;
    this.#name = name;
  }

  get name() {
    return this.#name;
  }

  get jurisdiction() {
    return undefined;
  }

  /** @param {any} other */
  equals(other) {
    if (!(other instanceof DurableObjectId))
      throw new TypeError(
        "Failed to execute 'equals' on 'DurableObjectId': parameter 1 is not of type 'DurableObjectId'.",
      );
    return this.#hex === other.toString();
  }

  get [Symbol.toStringTag]() {
    return "DurableObjectId";
  }

  toString() {
    return this.#hex;
  }
}

/**
 * @param {string} hex
 * @param {string | undefined} name
 */
export function makeId(hex, name) {
  return new DurableObjectId(PRIVATE, hex, name);
}
