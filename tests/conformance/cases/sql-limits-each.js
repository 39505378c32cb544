// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried } from "../support/check.js";

const list = (count, item) => Array.from({ length: count }, (_, i) => item(i));

/** The sizes that pass, and the error of those that do not. */
function edge(sizes, run) {
  const seen = {};
  for (const size of sizes) {
    const outcome = tried(() => run(size));
    seen[size] = outcome?.text ?? "passes";
  }
  return seen;
}

const object = {
  "columns of a table": ({ sql }) =>
    edge([99, 100, 101], (n) =>
      sql.exec(`CREATE TABLE t${n} (${list(n, (i) => `c${i}`).join()})`),
    ),
  "columns of a result": ({ sql }) =>
    edge([100, 101], (n) => sql.exec(`SELECT ${list(n, String).join()}`).one()),
  "columns of an index": ({ sql }) => {
    sql.exec(`CREATE TABLE t (${list(100, (i) => `c${i}`).join()})`);
    return edge([99, 100, 101], (n) =>
      sql.exec(
        `CREATE INDEX i${n} ON t (${list(n, (i) => `c${i % 100}`).join()})`,
      ),
    );
  },
  "columns added later": ({ sql }) => {
    sql.exec(`CREATE TABLE t (${list(99, (i) => `c${i}`).join()})`);
    return edge([99, 100], (n) => sql.exec(`ALTER TABLE t ADD COLUMN x${n}`));
  },
  "terms of GROUP BY and ORDER BY": ({ sql }) => ({
    order: edge([100, 101], (n) =>
      sql.exec(`SELECT 1 ORDER BY ${list(n, () => "1").join()}`).one(),
    ),
    group: edge([100, 101], (n) =>
      sql.exec(`SELECT 1 AS a GROUP BY ${list(n, () => "a").join()}`).toArray(),
    ),
  }),
  "values of an INSERT": ({ sql }) => {
    sql.exec("CREATE TABLE t (x)");
    return {
      rows: edge([100, 1_000, 5_000], (n) =>
        sql.exec(`INSERT INTO t VALUES ${list(n, () => "(1)").join()}`),
      ),
      in: edge([100, 1_000, 5_000], (n) =>
        sql.exec(`SELECT 1 IN (${list(n, String).join()}) AS x`).one(),
      ),
    };
  },
  parameters: ({ sql }) =>
    edge([100, 101], (n) =>
      sql.exec(`SELECT ${list(n, () => "?").join("+")}`, ...list(n, () => 1)),
    ),
  "length of a statement": ({ sql }) => {
    const text = (n) => `SELECT '${"x".repeat(n - 9)}'`;
    return {
      plain: edge([99_999, 100_000, 100_001], (n) => sql.exec(text(n)).one()),
      "two-byte": edge([50_000, 50_010], (n) =>
        sql.exec(`SELECT '${"é".repeat(n)}'`).one(),
      ),
      semicolon: edge([99_999, 100_000], (n) => sql.exec(`${text(n)};`).one()),
      spaces: edge([99_999, 100_001], (n) =>
        sql.exec("SELECT 1" + " ".repeat(n - 8)).one(),
      ),
    };
  },
  "length of a LIKE or GLOB pattern": ({ sql }) => ({
    like: edge([50, 51], (n) =>
      sql.exec("SELECT 'a' LIKE ?", "x".repeat(n)).one(),
    ),
    glob: edge([50, 51], (n) =>
      sql.exec("SELECT 'a' GLOB ?", "x".repeat(n)).one(),
    ),
    "two-byte": edge([25, 26], (n) =>
      sql.exec("SELECT 'a' LIKE ?", "é".repeat(n)).one(),
    ),
    function: edge([50, 51], (n) =>
      sql.exec("SELECT like(?, 'a')", "x".repeat(n)).one(),
    ),
    null: edge([60], (n) =>
      sql.exec("SELECT NULL LIKE ?", "x".repeat(n)).one(),
    ),
    column: edge([51], (n) => {
      sql.exec("CREATE TABLE t (p)");
      sql.exec("INSERT INTO t VALUES (?)", "x".repeat(n));
      sql.exec("SELECT 'a' LIKE p FROM t").one();
    }),
  }),
  "terms of a compound SELECT": ({ sql }) => ({
    union: edge([5, 6], (n) =>
      sql.exec(list(n, () => "SELECT 1").join(" UNION ")).one(),
    ),
    all: edge([5, 6], (n) =>
      sql.exec(list(n, () => "SELECT 1").join(" UNION ALL ")).toArray(),
    ),
    except: edge([5, 6], (n) =>
      sql.exec(list(n, (i) => `SELECT ${i}`).join(" EXCEPT ")).toArray(),
    ),
    values: edge([5, 6, 500], (n) =>
      sql.exec(`VALUES ${list(n, () => "(1)").join()}`).toArray(),
    ),
    nested: edge([2, 3], (n) =>
      sql
        .exec(
          list(
            n,
            () =>
              `SELECT * FROM (${list(5, () => "SELECT 1").join(" UNION ")})`,
          ).join(" UNION "),
        )
        .toArray(),
    ),
  }),
  "depth of an expression": ({ sql }) => ({
    sum: edge([99, 100, 101], (n) =>
      sql.exec(`SELECT ${list(n, () => "1").join("+")}`).one(),
    ),
    brackets: edge([90, 99, 100, 101], (n) =>
      sql.exec(`SELECT ${"(".repeat(n)}1${")".repeat(n)}`).one(),
    ),
    not: edge([98, 99, 100, 101], (n) =>
      sql.exec(`SELECT ${"NOT ".repeat(n)}1`).one(),
    ),
    concat: edge([100, 101], (n) =>
      sql.exec(`SELECT ${list(n, () => "'a'").join("||")}`).one(),
    ),
    and: edge([100, 101], (n) =>
      sql.exec(`SELECT ${list(n, () => "1").join(" AND ")}`).one(),
    ),
    functions: edge([98, 99, 100, 101], (n) =>
      sql.exec(`SELECT ${"abs(".repeat(n)}1${")".repeat(n)}`).one(),
    ),
    subqueries: edge([10, 50, 100], (n) =>
      sql.exec(`SELECT ${"(SELECT ".repeat(n)}1${")".repeat(n)}`).one(),
    ),
  }),
  "arguments of a function": ({ sql }) => ({
    max: edge([32, 33, 100, 127, 128], (n) =>
      sql.exec(`SELECT max(${list(n, String).join()}) AS m`).one(),
    ),
    concat: edge([100, 127, 128], (n) =>
      sql.exec(`SELECT concat(${list(n, String).join()}) AS m`).one(),
    ),
    json: edge([126, 127, 128], (n) =>
      sql.exec(`SELECT json_array(${list(n, String).join()}) AS m`).one(),
    ),
    coalesce: edge([100, 127, 128], (n) =>
      sql.exec(`SELECT coalesce(${list(n, String).join()}) AS m`).one(),
    ),
  }),
  "tables of a join": ({ sql }) => {
    sql.exec("CREATE TABLE t (x)");
    return edge([10, 64, 65], (n) =>
      sql
        .exec(`SELECT 1 FROM ${list(n, (i) => `t AS a${i}`).join()}`)
        .toArray(),
    );
  },
  "depth of triggers and of recursion": ({ sql }) => {
    sql.exec("CREATE TABLE t (n); PRAGMA recursive_triggers = ON");
    sql.exec(
      "CREATE TRIGGER g AFTER INSERT ON t WHEN new.n > 0 BEGIN INSERT INTO t VALUES (new.n - 1); END",
    );
    return {
      triggers: edge([5, 8, 9, 10, 11, 50], (n) =>
        sql.exec("INSERT INTO t VALUES (?)", n),
      ),
      recursive: edge([10, 100_000], (n) =>
        sql
          .exec(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?) SELECT count(*) FROM c",
            n,
          )
          .one(),
      ),
    };
  },
  "length of texts that SQL makes": ({ sql }) =>
    edge([1_000_000, 2_000_000], (n) =>
      sql
        .exec(`SELECT length(replace(hex(zeroblob(${n / 2})), '0', 'x')) AS n`)
        .one(),
    ),
  "size of compiled code": ({ sql }) =>
    edge([1_000, 5_000, 10_000, 20_000], (n) =>
      sql.exec(`SELECT 1 IN (${list(n, (i) => `${i}`).join()})`).one(),
    ),
  "long names": ({ sql }) =>
    edge([100, 10_000, 90_000], (n) =>
      sql.exec(`CREATE TABLE ${"n".repeat(n)} (x)`),
    ),
};

export class Probe extends probe(object) {}
export default suite({ object });
