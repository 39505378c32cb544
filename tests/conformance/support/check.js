// Assertions that run inside a Worker, and the handlers that run them by number.
import { DurableObject } from "cloudflare:workers";

function bytesText(value) {
  const view = ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value);
  return [...view].join(" ");
}

/** A text that tells apart values which differ: undefined and null, -0 and 0, Map and object. */
export function inspect(value, depth = 0) {
  if (depth > 8) return "…";
  const inner = (v) => inspect(v, depth + 1);
  if (value instanceof Thrown) return `throws ${value.text}`;
  if (Object.is(value, -0)) return "-0";
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "function") return `function ${value.name}`;
  if (value === null || typeof value !== "object") return String(value);
  if (value instanceof Date) return `Date(${value.getTime()})`;
  if (value instanceof RegExp) return String(value);
  if (value instanceof Error) return `${value.name}(${inner(value.message)})`;
  if (value instanceof ArrayBuffer) return `ArrayBuffer(${bytesText(value)})`;
  if (ArrayBuffer.isView(value)) {
    return `${value.constructor.name}(${bytesText(value)})`;
  }
  if (Array.isArray(value)) return `[${value.map(inner).join(", ")}]`;
  if (value instanceof Map) {
    const entries = [...value].map(([k, v]) => `${inner(k)} => ${inner(v)}`);
    return `Map(${entries.join(", ")})`;
  }
  if (value instanceof Set) return `Set(${[...value].map(inner).join(", ")})`;
  const keys = Object.keys(value).sort();
  const entries = keys.map((key) => `${key}: ${inner(value[key])}`);
  return `{${entries.join(", ")}}`;
}

/** An error that an observation caught. */
class Thrown {
  constructor(error) {
    const isError = error !== null && typeof error === "object";
    const text = isError ? `${error.name}: ${error.message}` : inspect(error);
    this.text = text.replace(/reference = \w+/, "reference = …");
  }
}

/** What `run` returns, or the error that it throws. */
export function tried(run) {
  try {
    return run();
  } catch (error) {
    return new Thrown(error);
  }
}

/** As `tried`, for an async function or a promise. */
export async function triedAsync(run) {
  try {
    return await (typeof run === "function" ? run() : run);
  } catch (error) {
    return new Thrown(error);
  }
}

/** The beginning of a long text, and what tells it apart from others. */
function shortened(text) {
  if (text.length <= 400) return text;
  let hash = 0;
  for (let i = 0; i < text.length; i++) {
    hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  }
  return `${text.slice(0, 100)}… (${text.length} characters, hash ${hash})`;
}

const seenText = (value) => shortened(inspect(value));

/** An observation as JSON that reads well: the entries of a list or of an object one by one. */
function observation(value) {
  if (value === undefined) return undefined;
  if (Array.isArray(value)) return value.map(seenText);
  const isPlain =
    value !== null &&
    typeof value === "object" &&
    Object.getPrototypeOf(value) === Object.prototype;
  if (!isPlain) return seenText(value);
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([key, v]) => [key, seenText(v)]));
}

/** Holds when both sides inspect to the same text. */
export function equal(actual, expected, what = "value") {
  const [seen, wanted] = [inspect(actual), inspect(expected)];
  if (seen !== wanted) {
    throw new Error(`${what}: expected ${wanted}, got ${seen}`);
  }
}

function matches(error, expected) {
  const seen = {};
  for (const key of Object.keys(expected)) seen[key] = error?.[key];
  if (expected.message instanceof RegExp) {
    if (!expected.message.test(seen.message)) {
      throw new Error(
        `error message: expected ${expected.message}, got ${inspect(seen.message)}`,
      );
    }
    seen.message = expected.message;
  }
  equal(seen, expected, "error");
}

/** Holds when `run` throws an error with the expected properties (`message` may be a RegExp). */
export function throws(run, expected) {
  let value;
  try {
    value = run();
  } catch (error) {
    return matches(error, expected);
  }
  throw new Error(`expected an error, got ${inspect(value)}`);
}

/** As `throws`, for a promise or an async function. */
export async function rejects(promise, expected) {
  let value;
  try {
    value = await (typeof promise === "function" ? promise() : promise);
  } catch (error) {
    return matches(error, expected);
  }
  throw new Error(`expected a rejection, got ${inspect(value)}`);
}

/** What a check is made of: a function is its only phase. */
const phasesOf = (check) => (Array.isArray(check) ? check : [check]);

/**
 * Runs the phase that the request asks for. `before` in its context is what the phase before it
 * returned, as JSON carries it.
 */
async function runOne(check, request, context) {
  const { searchParams } = new URL(request.url);
  const phases = phasesOf(check);
  const number = Number(searchParams.get("phase"));
  const phase = phases[number];
  const before = JSON.parse(searchParams.get("before") ?? "null");
  try {
    const value = await phase({ ...context, request, before });
    if (number + 1 < phases.length) {
      return Response.json({ ok: true, state: value ?? null });
    }
    return Response.json({ ok: true, seen: observation(value) });
  } catch (error) {
    const detail = String(error?.message ?? error);
    return Response.json({ ok: false, detail, stack: error?.stack });
  }
}

/**
 * A Durable Object class whose instances run one check each. A check whose last phase returns a
 * value is an observation: the value must be what workerd gave (see seen.mjs).
 */
export const probe = (checks) =>
  class extends DurableObject {
    async fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      // The object exists from here on; its check comes later.
      if (pathname === "/__touch") return Response.json({ ok: true });
      return runOne(checks[searchParams.get("name")], request, {
        ctx: this.ctx,
        env: this.env,
        storage: this.ctx.storage,
        sql: this.ctx.storage.sql,
        self: this,
      });
    }
  };

/**
 * The default export of a case.
 *
 * A check is a function, or a list of them: its phases. What a phase wrote must be there for the
 * next one, which finds nothing of its memory: with `--after`, the runner evicts every object, or
 * kills the process and starts it again, before each phase but the first.
 *
 * @param {{ worker?: object, object?: object, fallback?: Function }} lists `worker` checks run in
 *   the Worker, `object` checks in an instance of the class bound as PROBE; other requests go to
 *   `fallback`.
 */
export function suite({ worker = {}, object = {}, fallback }) {
  const listed = (checks, kind) =>
    Object.entries(checks).map(([name, check]) => {
      return { name, kind, phases: phasesOf(check).length };
    });
  return {
    async fetch(request, env, ctx) {
      const url = new URL(request.url);
      if (url.pathname === "/__checks") {
        const list = [...listed(worker, "worker"), ...listed(object, "object")];
        return Response.json(list, { headers: { "x-checks": "1" } });
      }
      const name = url.searchParams.get("name");
      if (url.pathname === "/__worker") {
        return runOne(worker[name], request, { env, ctx });
      }
      if (url.pathname === "/__object" || url.pathname === "/__touch") {
        return env.PROBE.getByName(`check: ${name}`).fetch(request);
      }
      if (fallback) return fallback(request, env, ctx);
      return new Response("no such path", { status: 404 });
    },
  };
}
