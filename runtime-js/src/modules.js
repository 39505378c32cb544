// Modules that are not ECMAScript: the loader turns each into a module that asks here.
// @ts-check

import { internals } from "ext:core/mod.js";
import { op_module_bytes, op_module_compile, op_module_kind } from "ext:core/ops";
import { encoding, url as urlApi } from "./web.js";

const { URL } = urlApi;
const decoder = new encoding.TextDecoder();

/** @param {string} specifier */
export function text(specifier) {
  return decoder.decode(op_module_bytes(specifier));
}

/** @param {string} specifier */
export function data(specifier) {
  return op_module_bytes(specifier).buffer;
}

/** @param {string} specifier */
export function wasm(specifier) {
  return new /** @type {any} */ (WebAssembly).Module(op_module_bytes(specifier));
}

/** CommonJS modules by specifier; present as soon as their evaluation starts. */
const required = /** @type {Map<string, { exports: any }>} */ (new Map());

/**
 * Evaluates a CommonJS module, once, and returns its exports.
 * @param {string} specifier
 */
export function cjs(specifier) {
  const known = required.get(specifier);
  if (known !== undefined) return known.exports;
  const module = { exports: {} };
  required.set(specifier, module);
  try {
    const evaluate = op_module_compile(specifier);
    evaluate.call(module.exports, module, module.exports, (/** @type {string} */ name) =>
      require(specifier, String(name)),
    );
  } catch (error) {
    required.delete(specifier);
    throw error;
  }
  return module.exports;
}

/** Readers of the kinds of modules, in the order of the host's numbers. */
const READERS = [
  null,
  cjs,
  wasm,
  text,
  data,
  (/** @type {string} */ specifier) => JSON.parse(text(specifier)),
  (/** @type {string} */ specifier) => {
    const found = internals.celldPublic[specifier];
    return found.default ?? found;
  },
];

/** @param {string} from @param {string} name */
function require(from, name) {
  const relative = name.startsWith("./") || name.startsWith("../");
  let specifier = relative ? new URL(name, `worker:///${from}`).pathname.slice(1) : name;
  let kind = op_module_kind(specifier);
  if (kind < 0 && !relative) {
    // Modules of Node.js go by their bare names too.
    specifier = `node:${name}`;
    kind = op_module_kind(specifier);
  }
  if (kind === 0) throw new Error(`require("${name}"): ECMAScript modules cannot be required; import it.`);
  const read = READERS[kind];
  if (!read) throw new Error(`No such module "${name}", required from "${from}".`);
  return read(specifier);
}
