// Modules that are not ECMAScript: the loader turns each into a module that asks here.
// @ts-check

import { op_module_bytes } from "ext:core/ops";
import { encoding } from "./web.js";

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
  return new WebAssembly.Module(op_module_bytes(specifier));
}
