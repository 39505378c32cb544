// Random programs of storage calls. A seed gives the same program for ever.

/** A small generator of numbers below 2^32 (Mulberry32). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
}

const keys = ["a", "b", "c", "ab", "a b", "é", "￿", "𐍈", "", "z"];

/** Far enough ahead that no alarm ever fires. */
const alarmBase = 4_102_444_800_000;

const reads = [
  "SELECT * FROM t ORDER BY id",
  "SELECT id, k FROM t WHERE n > ?",
  "SELECT count(*) AS c, sum(n) AS s FROM t",
  "SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY k",
  "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.n = b.n ORDER BY 1, 2 LIMIT 20",
  "SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name",
  "SELECT typeof(changes()) AS c, typeof(last_insert_rowid()) AS r",
  "SELECT x FROM u ORDER BY rowid",
  "SELECT * FROM c",
  "SELECT ? AS v, typeof(?1) AS t",
  "SELECT * FROM f WHERE f MATCH 'one OR two'",
  "SELECT rowid, * FROM f ORDER BY rowid",
  "PRAGMA table_info(t)",
  "PRAGMA foreign_key_check",
];
const writes = [
  "INSERT INTO t (k, n) VALUES (?, ?)",
  "INSERT OR IGNORE INTO t (k, n) VALUES (?, ?)",
  "INSERT OR REPLACE INTO t (k, n) VALUES (?, ?)",
  "INSERT INTO t (k, n) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET n = n + 1 RETURNING *",
  "INSERT INTO t (k, n) VALUES (?, 1), ('q', ?) RETURNING id",
  "UPDATE t SET n = n + 1 WHERE n > ?",
  "UPDATE t SET k = k || 'x' WHERE id % 2 = 0",
  "UPDATE OR IGNORE t SET k = ?",
  "DELETE FROM t WHERE k = ?",
  "DELETE FROM t WHERE n < ? RETURNING *",
  "DELETE FROM t",
  "INSERT INTO u VALUES (?)",
  "DELETE FROM u WHERE rowid IN (SELECT rowid FROM u LIMIT 1)",
  "INSERT INTO p VALUES (?)",
  "INSERT INTO f VALUES ('one ' || ?)",
  "DELETE FROM f WHERE rowid = 1",
  "INSERT INTO u SELECT n FROM t",
  "INSERT INTO t (k, n) VALUES ('m', 1); INSERT INTO t (k, n) VALUES ('m', ?)",
];
const changes = [
  "CREATE TABLE extra (x)",
  "CREATE TABLE IF NOT EXISTS extra (x)",
  "DROP TABLE extra",
  "DROP TABLE IF EXISTS u",
  "CREATE TABLE u (x)",
  "CREATE INDEX IF NOT EXISTS i ON t (n)",
  "DROP INDEX i",
  "ALTER TABLE t ADD COLUMN more DEFAULT 7",
  "ALTER TABLE u RENAME TO extra",
  "CREATE TRIGGER g AFTER DELETE ON t BEGIN INSERT INTO u VALUES (old.k); END",
  "DROP TRIGGER g",
  "CREATE VIEW v AS SELECT k FROM t",
  "SELECT * FROM v ORDER BY k",
];
const mistakes = [
  "SELEC",
  "SELECT * FROM none",
  "SELECT none FROM t",
  "BEGIN",
  "COMMIT",
  "INSERT INTO t (k, n) VALUES ('z')",
  "PRAGMA user_version",
  "SELECT json('bad')",
  "INSERT INTO t (k, n) VALUES ('x', 13)",
  "INSERT INTO c VALUES (99)",
  "",
];
const tables = `CREATE TABLE t (id INTEGER PRIMARY KEY, k UNIQUE, n CHECK (n <> 13));
CREATE TABLE u (x);
CREATE TABLE p (id INTEGER PRIMARY KEY);
CREATE TABLE c (p REFERENCES p (id));
CREATE VIRTUAL TABLE f USING fts5(body)`;

class Generator {
  constructor(seed) {
    this.next = random(seed);
    this.opened = 0;
  }

  below(n) {
    return this.next() % n;
  }

  chance(percent) {
    return this.below(100) < percent;
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  some(make, most) {
    return Array.from({ length: this.below(most + 1) }, make);
  }

  key = () => this.pick(keys);

  value = (depth = 0) => {
    const kinds = [
      () => this.below(20),
      () => this.pick(["", "text", "ü€", "x".repeat(300)]),
      () => this.pick([null, true, false, 1.5, -1]),
      () => ({ $date: this.below(1_000_000) }),
      () => ({ $bytes: this.some(() => this.below(256), 8) }),
      () => ({ $bigint: String(this.below(1_000_000)) }),
      () => ({ $map: this.some(() => [this.key(), this.below(5)], 2) }),
      () => (depth > 1 ? 0 : this.some(() => this.value(depth + 1), 3)),
      () => (depth > 1 ? 0 : { x: this.value(depth + 1), y: 1 }),
      () => (depth === 0 && this.chance(10) ? { $function: 1 } : 2),
    ];
    return this.pick(kinds)();
  };

  listOptions() {
    const options = {};
    if (this.chance(30)) options.prefix = this.pick(["a", "b", "", "é"]);
    if (this.chance(30)) options.start = this.key();
    else if (this.chance(20)) options.startAfter = this.key();
    if (this.chance(30)) options.end = this.key();
    if (this.chance(40)) options.reverse = this.chance(70);
    if (this.chance(40)) options.limit = this.below(5);
    return options;
  }

  bindings(text) {
    const marks = (text.match(/\?1?/g) ?? []).filter((mark) => mark === "?");
    const values = marks.map(() =>
      this.pick([
        () => this.below(15),
        () => this.pick(["q", "r", "s", "2"]),
        () => this.pick([null, 1.5, { $undefined: 1 }]),
        () => ({ $bytes: [1, 2] }),
      ])(),
    );
    // Sometimes one too many or too few.
    if (this.chance(3)) return values.slice(1);
    return values;
  }

  sql(kinds) {
    const text = this.pick(this.pick(kinds));
    const op = this.pick(["sql", "sql", "sql.raw", "sql.one"]);
    return { op, args: [text, ...this.bindings(text)] };
  }

  /** A step without promises. */
  synchronous = () => {
    const steps = [
      () => ({ op: "kv.get", args: [this.key()] }),
      () => ({ op: "kv.put", args: [this.key(), this.value()] }),
      () => ({ op: "kv.put", args: [this.key(), this.value()] }),
      () => ({ op: "kv.delete", args: [this.key()] }),
      () => ({ op: "kv.list", args: [this.listOptions()] }),
      () => this.sql([reads]),
      () => this.sql([reads, writes]),
      () => this.sql([writes]),
      () => this.sql([writes, changes, mistakes]),
      () => {
        const text = this.pick(reads);
        const args = [this.below(3), text, ...this.bindings(text)];
        return { op: "sql.open", args };
      },
      () => ({ op: "sql.next", args: [this.below(3)] }),
      () => ({ op: "sql.next", args: [this.below(3)] }),
      () => ({ op: "sql.rest", args: [this.below(3)] }),
    ];
    return this.pick(steps)();
  };

  nested = (depth) => {
    const end = this.pick(["commit", "commit", "throw"]);
    const inner = () =>
      depth < 2 && this.chance(15)
        ? this.nested(depth + 1)
        : this.synchronous();
    return { op: "transactionSync", end, steps: this.some(inner, 5) };
  };

  asynchronous = () => {
    const steps = [
      () => ({ op: "get", args: [this.key()] }),
      () => ({ op: "get", args: [this.some(this.key, 4)] }),
      () => ({ op: "put", args: [this.key(), this.value()] }),
      () => ({ op: "put", args: [this.key(), this.value()] }),
      () => {
        const entries = this.some(() => [this.key(), this.value()], 3);
        return { op: "put", args: [Object.fromEntries(entries)] };
      },
      () => ({ op: "delete", args: [this.key()] }),
      () => ({ op: "delete", args: [this.some(this.key, 3)] }),
      () => ({ op: "list", args: [this.listOptions()] }),
      () => ({ op: "getAlarm" }),
      () => ({ op: "setAlarm", args: [alarmBase + this.below(5)] }),
      () => ({ op: "deleteAlarm" }),
    ];
    const step = this.pick(steps)();
    if (this.chance(25)) step.later = true;
    if (this.chance(30)) step.through = true;
    return step;
  };

  /** A step of an event; `depth` counts the transactions around it. */
  step = (depth = 0) => {
    const roll = this.below(100);
    if (roll < 40) return this.synchronous();
    if (roll < 75) return this.asynchronous();
    if (roll < 82) return this.nested(0);
    if (roll < 85) return { op: "join" };
    if (roll < 89) return { op: this.pick(["turn", "turn", "wait", "sync"]) };
    if (roll < 95 && depth < 2) {
      const end = this.pick(["commit", "commit", "throw", "rollback"]);
      const steps = this.some(() => this.step(depth + 1), 5);
      return { op: "transaction", end, steps: [...steps, { op: "join" }] };
    }
    if (roll < 97 && depth === 0) return { op: "deleteAll" };
    if (roll < 98 && depth === 0) return { op: "abort" };
    if (roll < 99 && depth < 2) {
      return { op: "block", steps: this.some(() => this.step(depth + 1), 3) };
    }
    return depth === 0
      ? { op: "throw", args: ["thrown by the program"] }
      : { op: "turn" };
  };
}

/** What a program left, read by itself in an event of its own. */
const remains = [
  { op: "list", args: [{}] },
  { op: "getAlarm" },
  { op: "sql", args: [reads[5]] },
  { op: "sql", args: ["SELECT * FROM t"] },
  { op: "sql", args: ["SELECT * FROM u"] },
];

/**
 * What the runtimes do differently, taken out: an abort in the event of a finished section undoes
 * the section's writes in celld and keeps them in workerd (nobody has seen them: outputs wait for
 * the proof); a cursor that deleteAll() closed says so in other words.
 */
function comparable(events) {
  const uses = (steps, op) => steps.some((step) => step.op === op);
  const without = (steps, ops) =>
    steps
      .filter((step) => !ops.includes(step.op))
      .map((step) =>
        step.steps === undefined
          ? step
          : { ...step, steps: without(step.steps, ops) },
      );
  const cursors = events.some((steps) => uses(steps, "deleteAll"))
    ? ["sql.open", "sql.next"]
    : [];
  return events.map((steps) =>
    without(
      steps,
      uses(steps, "abort") ? [...cursors, "transaction", "block"] : cursors,
    ),
  );
}

/** The program of a seed: a name and the steps of each of its events. */
export function program(seed) {
  const generator = new Generator(seed);
  const events = Array.from({ length: 1 + generator.below(3) }, () => {
    const steps = Array.from({ length: 1 + generator.below(12) }, () =>
      generator.step(),
    );
    return [...steps, { op: "join" }];
  });
  if (generator.chance(85)) events[0].unshift({ op: "sql", args: [tables] });
  return { name: `seed ${seed}`, events: [...comparable(events), remains] };
}
