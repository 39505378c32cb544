// What methods of the platform make of their receiver and their arguments.
// @ts-check

/**
 * The refusal of an argument.
 * @param {string} method @param {string} type name of the class
 * @param {number} position counted from 1
 * @param {string} expected
 */
export function wrongArgument(method, type, position, expected) {
  return new TypeError(
    `Failed to execute '${method}' on '${type}': parameter ${position} is not of type '${expected}'.`,
  );
}

/** A text, as a template literal makes one: symbols are refused. @param {unknown} value */
export function text(value) {
  return `${value}`;
}

/**
 * A dictionary of options: an object, or nothing.
 * @param {unknown} value
 * @param {string} method @param {string} type @param {number} position @param {string} expected
 * @returns {Record<string, unknown>}
 */
export function dictionary(value, method, type, position, expected) {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" && typeof value !== "function") {
    throw wrongArgument(method, type, position, expected);
  }
  return /** @type {Record<string, unknown>} */ (value);
}

/**
 * Reads the options of storage operations. What they ask for holds here without asking: reads are
 * synchronous, so that they let nothing in between, and nothing is cached that a write could miss.
 * @param {unknown} value
 * @param {string} method @param {string} type @param {number} position @param {string} expected
 * @param {string[]} names in the order in which they are read
 */
export function readOptions(value, method, type, position, expected, names) {
  const options = dictionary(value, method, type, position, expected);
  return names.map((name) => options[name]);
}

/** An integer of 32 bits, as a parameter of that type takes it. @param {unknown} value */
export function int32(value) {
  // Unary plus refuses what Number() would convert: a BigInt.
  const number = Math.trunc(+(/** @type {any} */ (value)));
  if (!Number.isFinite(number)) return 0;
  if (number < -2147483648 || number > 2147483647) {
    throw new TypeError("Value out of range. Must be between -2147483648 and 2147483647 (inclusive).");
  }
  return number;
}
