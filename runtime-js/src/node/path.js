// The modules `node:path` and `node:path/posix`.
// @ts-check

import { wrongType } from "./errors.js";

/** @param {unknown} value @param {string} name */
function requireString(value, name) {
  if (typeof value !== "string") throw wrongType(name, "of type string", value);
}

/**
 * Resolves `.` and `..`, and drops empty segments.
 * @param {string} path
 * @param {boolean} absolute `..` ends at the root
 */
function fold(path, absolute) {
  const kept = /** @type {string[]} */ ([]);
  for (const segment of path.split("/")) {
    if (segment === "" || segment === ".") continue;
    if (segment !== "..") kept.push(segment);
    else if (kept.length > 0 && kept.at(-1) !== "..") kept.pop();
    else if (!absolute) kept.push("..");
  }
  return kept.join("/");
}

export const sep = "/";
export const delimiter = ":";

/** @param {string} path */
export function isAbsolute(path) {
  requireString(path, "path");
  return path.startsWith("/");
}

/** @param {string} path */
export function normalize(path) {
  requireString(path, "path");
  if (path === "") return ".";
  const absolute = path.startsWith("/");
  const folded = fold(path, absolute);
  const end = path.endsWith("/") ? "/" : "";
  if (folded === "") return absolute ? "/" : `.${end}`;
  return `${absolute ? "/" : ""}${folded}${end}`;
}

/** @param {string[]} paths */
export function join(...paths) {
  for (const path of paths) requireString(path, "path");
  const joined = paths.filter((path) => path !== "").join("/");
  return joined === "" ? "." : normalize(joined);
}

/** The current directory is the root. @param {string[]} paths */
export function resolve(...paths) {
  let whole = "";
  for (let i = paths.length - 1; i >= 0 && !whole.startsWith("/"); i--) {
    requireString(paths[i], `paths[${i}]`);
    if (paths[i] !== "") whole = whole === "" ? paths[i] : `${paths[i]}/${whole}`;
  }
  return `/${fold(whole, true)}`;
}

/** @param {string} from @param {string} to */
export function relative(from, to) {
  requireString(from, "from");
  requireString(to, "to");
  const [start, end] = [from, to].map((path) => resolve(path).split("/").filter(Boolean));
  let same = 0;
  while (same < start.length && same < end.length && start[same] === end[same]) same++;
  return [...start.slice(same).map(() => ".."), ...end.slice(same)].join("/");
}

/** @param {string} path */
export function toNamespacedPath(path) {
  return path;
}

/** A path without the slashes at its end; that of the root stays. @param {string} path */
function trimmed(path) {
  let end = path.length;
  while (end > 1 && path[end - 1] === "/") end--;
  return path.slice(0, end);
}

/** @param {string} path */
export function dirname(path) {
  requireString(path, "path");
  const whole = trimmed(path);
  const at = whole.lastIndexOf("/");
  if (at < 0) return ".";
  if (at === 0) return "/";
  // Two slashes at the beginning are a root of their own.
  return at === 1 && whole[0] === "/" ? "//" : whole.slice(0, at);
}

/** @param {string} path @param {string} [suffix] */
export function basename(path, suffix) {
  if (suffix !== undefined) requireString(suffix, "suffix");
  requireString(path, "path");
  if (suffix === path) return "";
  const whole = trimmed(path);
  const start = whole === "/" ? 0 : whole.lastIndexOf("/") + 1;
  const base = whole === "/" ? "" : whole.slice(start);
  if (!suffix || suffix.length > path.length) return base;
  // Node.js leaves the slashes at the end when the suffix would take more than there is.
  if (base.length < suffix.length && suffix.endsWith(base)) return path.slice(start);
  return suffix !== base && base.endsWith(suffix) ? base.slice(0, -suffix.length) : base;
}

/** @param {string} path */
export function extname(path) {
  requireString(path, "path");
  const base = basename(path);
  const at = base.lastIndexOf(".");
  return at <= 0 || base === ".." ? "" : base.slice(at);
}

/** @param {{ dir?: string, root?: string, base?: string, name?: string, ext?: string }} parts */
export function format(parts) {
  if (parts === null || typeof parts !== "object") throw wrongType("pathObject", "of type object", parts);
  const { root = "", ext = "", name = "" } = parts;
  const directory = parts.dir || root;
  const dotted = ext === "" || ext.startsWith(".") ? ext : `.${ext}`;
  const base = parts.base || `${name}${dotted}`;
  if (!directory) return base;
  return directory === root ? `${directory}${base}` : `${directory}/${base}`;
}

/** @param {string} path */
export function parse(path) {
  requireString(path, "path");
  const root = path.startsWith("/") ? "/" : "";
  const whole = trimmed(path);
  const base = whole === "/" ? "" : basename(whole);
  const at = whole.lastIndexOf("/");
  // Node.js takes the second dot of a `..` right below the root for an extension.
  const ext = base === ".." && at === 0 ? "." : extname(base);
  const dir = at < 0 ? "" : at === 0 ? "/" : whole.slice(0, at);
  return { root, dir, base, ext, name: base.slice(0, base.length - ext.length) };
}

/** @param {string} member @returns {never} */
function refuse(member) {
  throw new Error(`${member} of node:path is not supported by this version of celld.`);
}

export function matchesGlob() {
  refuse("matchesGlob");
}

export const posix = /** @type {any} */ ({
  basename,
  delimiter,
  dirname,
  extname,
  format,
  isAbsolute,
  join,
  matchesGlob,
  normalize,
  parse,
  relative,
  resolve,
  sep,
  toNamespacedPath,
});

/** Paths of Windows: absent, and loud about it. */
export const win32 = new Proxy(
  {},
  {
    get: (_target, key) => (typeof key === "symbol" ? undefined : refuse(`win32.${key}`)),
  },
);

posix.posix = posix;
posix.win32 = win32;
