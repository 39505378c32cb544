// Observations: a check that returns a value passes when the value is the one that workerd gave.
//
// `<name>.seen.json` beside the case maps such checks to what was seen on workerd, and
// `<name>.differs.json` those where celld differs on purpose to `{ reason, seen }`, where `seen`
// holds the entries that are different. `--record` writes them: the first on workerd, the second,
// without reasons, on celld.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

const readJson = (file) =>
  existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};

const isTree = (value) => typeof value === "object" && value !== null;

/** The entries of `seen` that are not those of `expected`. */
function differing(seen, expected) {
  if (!isTree(seen) || !isTree(expected)) return seen;
  const keys = new Set([...Object.keys(expected), ...Object.keys(seen)]);
  const changed = [...keys].filter(
    (key) => !isDeepStrictEqual(seen[key], expected[key]),
  );
  return Object.fromEntries(changed.map((key) => [key, seen[key] ?? null]));
}

/** `recorded` with the entries of `changes` in place of its own; `null` is one that is not there. */
function changed(recorded, changes) {
  if (!isTree(recorded) || !isTree(changes)) return changes;
  const whole = { ...recorded, ...changes };
  const entries = Object.entries(whole).filter(([, value]) => value !== null);
  const result = Object.fromEntries(entries);
  return Array.isArray(recorded) ? Object.values(result) : result;
}

function compare(seen, expected) {
  if (isDeepStrictEqual(seen, expected)) return;
  const show = (value) => (value === undefined ? "nothing" : value);
  if (!isTree(seen) || !isTree(expected)) {
    throw new Error(`expected ${show(expected)}, got ${show(seen)}`);
  }
  const lines = Object.keys(differing(seen, expected)).map(
    (key) => `${key}: expected ${show(expected[key])}, got ${show(seen[key])}`,
  );
  throw new Error(lines.join("\n"));
}

/** The observations of a case on one runtime. */
export class Observations {
  constructor(test, runtime) {
    const beside = (ending) => test.file.replace(/\.js$/, ending);
    this.files = {
      seen: beside(".seen.json"),
      differs: beside(".differs.json"),
    };
    this.recorded = readJson(this.files.seen);
    this.differs = runtime === "celld" ? readJson(this.files.differs) : {};
    this.runtime = runtime;
    this.record = test.record ?? false;
    this.seen = {};
  }

  /** Fails when `seen` is not what the check is held to. */
  judge(name, seen) {
    this.seen[name] = seen;
    if (this.record) return;
    if (!(name in this.recorded)) {
      throw new Error("nothing is recorded for this check: run with --record");
    }
    const expected = this.recorded[name];
    const difference = this.differs[name];
    if (!difference) return compare(seen, expected);
    if (!difference.reason) throw new Error("the difference has no reason");
    if (isDeepStrictEqual(seen, expected)) {
      throw new Error("no longer a difference: remove it from .differs.json");
    }
    compare(seen, changed(expected, difference.seen));
  }

  /** Names of recorded checks that none of `results` has, or that passed without an observation. */
  unseen(results) {
    const passed = (name) =>
      results.every(
        ({ check, verdict }) => check !== name || verdict === "pass",
      );
    const names = [...Object.keys(this.recorded), ...Object.keys(this.differs)];
    return names.filter((name) => !(name in this.seen) && passed(name));
  }

  /** Writes down what was seen. */
  save() {
    if (!this.record || Object.keys(this.seen).length === 0) return;
    if (this.runtime === "workerd") return write(this.files.seen, this.seen);
    const differs = Object.entries(this.seen)
      .filter(([name, seen]) => !isDeepStrictEqual(seen, this.recorded[name]))
      .map(([name, seen]) => {
        const reason = this.differs[name]?.reason ?? "";
        return [name, { reason, seen: differing(seen, this.recorded[name]) }];
      });
    if (differs.length > 0) {
      write(this.files.differs, Object.fromEntries(differs));
    }
  }
}

const write = (file, value) =>
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
