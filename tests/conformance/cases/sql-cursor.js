// config: {"objects": {"PROBE": "Probe"}}
import { inspect, probe, suite, tried } from "../support/check.js";

const three = "VALUES (1, 'a'), (2, 'b'), (3, 'c')";
const fill = (sql) =>
  sql.exec(
    "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO t " +
      three,
  );

function members(object) {
  const found = [];
  for (
    let at = object;
    at && at !== Object.prototype;
    at = Object.getPrototypeOf(at)
  ) {
    found.push(
      Reflect.ownKeys(at)
        .filter((name) => typeof name === "string")
        .filter((name) => !name.startsWith("_"))
        .sort(),
    );
  }
  return found;
}

const object = {
  "members of storage, sql and cursors"({ storage, sql }) {
    const cursor = sql.exec("SELECT 1");
    const interesting = (list) =>
      list.flat().filter((name) => !["constructor"].includes(name));
    return {
      sql: interesting(members(sql)),
      cursor: interesting(members(cursor)),
      tags: [storage, sql, storage.kv, cursor, cursor.raw()].map((it) =>
        Object.prototype.toString.call(it),
      ),
      names: [storage, sql, storage.kv, cursor].map(
        (it) => it.constructor.name,
      ),
      classes: [typeof sql.Cursor, typeof sql.Statement],
      isCursor: cursor instanceof sql.Cursor,
      same: [storage.sql === storage.sql, storage.kv === storage.kv],
      own: Object.keys(cursor),
    };
  },
  "classes cannot be constructed"({ sql }) {
    return [
      tried(() => new sql.Cursor()),
      tried(() => new sql.Statement()),
      tried(() => new sql.constructor()),
      tried(() => sql.Cursor()),
    ];
  },
  "next past the end"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    return [1, 2, 3, 4, 5].map(() => cursor.next());
  },
  "an empty result"({ sql }) {
    fill(sql);
    const none = () => sql.exec("SELECT * FROM t WHERE 0");
    return {
      next: none().next(),
      toArray: none().toArray(),
      one: tried(() => none().one()),
      raw: none().raw().toArray(),
      spread: [...none()],
      columnNames: none().columnNames,
      counts: [none().rowsRead, none().rowsWritten],
    };
  },
  "a second toArray, and what is left after next"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    cursor.next();
    return [cursor.toArray(), cursor.toArray(), cursor.next(), [...cursor]];
  },
  "one on a cursor that has moved"({ sql }) {
    fill(sql);
    const moved = (steps, sqlText) => {
      const cursor = sql.exec(sqlText);
      for (let i = 0; i < steps; i++) cursor.next();
      return [tried(() => cursor.one()), tried(() => cursor.toArray())];
    };
    return {
      "fresh, three rows": moved(0, "SELECT id FROM t"),
      "two left": moved(1, "SELECT id FROM t"),
      "one left": moved(2, "SELECT id FROM t"),
      "none left": moved(3, "SELECT id FROM t"),
      twice: (() => {
        const cursor = sql.exec("SELECT 1 AS n");
        return [tried(() => cursor.one()), tried(() => cursor.one())];
      })(),
    };
  },
  "raw iterators"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id, name FROM t");
    const raw = cursor.raw();
    const other = cursor.raw();
    return {
      same: raw === other,
      self: raw[Symbol.iterator]() === raw,
      first: raw.next(),
      second: other.next(),
      objects: cursor.next(),
      end: [raw.next(), other.next(), cursor.next()],
      rawToArray: sql.exec("SELECT id, name FROM t").raw().toArray(),
      toArrayTwice: (() => {
        const rows = sql.exec("SELECT id FROM t").raw();
        return [rows.toArray(), rows.toArray()];
      })(),
      columnNames: cursor.raw().columnNames,
      members: members(raw).flat().includes("toArray"),
    };
  },
  "iterators of a cursor"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    const iterator = cursor[Symbol.iterator]();
    const seen = [iterator === cursor, iterator.next(), cursor.next()];
    for (const row of cursor) {
      seen.push(row);
      break;
    }
    seen.push(cursor.next(), iterator.next());
    return seen;
  },
  "leaving a loop early, and going on"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    const seen = [];
    for (const { id } of cursor) {
      seen.push(id);
      break;
    }
    for (const { id } of cursor) seen.push(id);
    const raw = sql.exec("SELECT id FROM t").raw();
    for (const [id] of raw) {
      seen.push(id);
      break;
    }
    for (const [id] of raw) seen.push(id);
    return seen;
  },
  "iterator helpers and destructuring"({ sql }) {
    fill(sql);
    const [first, second] = sql.exec("SELECT id FROM t");
    return {
      destructured: [first, second],
      from: Array.from(sql.exec("SELECT id FROM t"), ({ id }) => id),
      map: tried(() =>
        sql
          .exec("SELECT id FROM t")
          [Symbol.iterator]()
          .map(({ id }) => id * 2)
          .toArray(),
      ),
      rawMap: tried(() =>
        sql
          .exec("SELECT id FROM t")
          .raw()
          .map(([id]) => id * 3)
          .toArray(),
      ),
      iteratorFrom: tried(() =>
        Iterator.from(sql.exec("SELECT id FROM t")).take(2).toArray(),
      ),
    };
  },
  "rows are plain objects in the order of columns"({ sql }) {
    const row = sql.exec("SELECT 1 AS z, 2 AS a, 3 AS '10', 4 AS '9'").one();
    const [raw] = sql.exec("SELECT 1, 2").raw();
    return {
      keys: Object.keys(row),
      plain: Object.getPrototypeOf(row) === Object.prototype,
      entries: Object.getOwnPropertyDescriptor(row, "z"),
      frozen: [Object.isFrozen(row), Array.isArray(raw), Object.isFrozen(raw)],
    };
  },
  "column names that are special"({ sql }) {
    const cursor = sql.exec(
      `SELECT 1 AS "__proto__", 2 AS "constructor", 3 AS "toString", 4 AS "", 5 AS "ü€", 6 AS "a b", 7, 1+1, count(*)`,
    );
    const names = cursor.columnNames;
    const row = cursor.one();
    return {
      names,
      keys: Object.keys(row),
      values: Object.values(row),
      proto: Object.getPrototypeOf(row) === Object.prototype,
    };
  },
  "columnNames is one array, kept to the end"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id, name AS id FROM t");
    const names = cursor.columnNames;
    cursor.toArray();
    return [names, cursor.columnNames === names, cursor.columnNames];
  },
  "columnNames of other statements"({ sql }) {
    fill(sql);
    const returning = sql.exec("INSERT INTO t VALUES (8, 'y') RETURNING *");
    returning.toArray();
    const pragma = sql.exec("PRAGMA table_info(t)");
    pragma.toArray();
    return {
      returning: returning.columnNames,
      pragma: pragma.columnNames,
      insert: sql.exec("INSERT INTO t VALUES (9, 'z')").columnNames,
      create: sql.exec("CREATE TABLE u (x)").columnNames,
      nothing: sql.exec("SELECT 1 WHERE 0").columnNames,
    };
  },
  "columnNames cannot be assigned"({ sql }) {
    const cursor = sql.exec("SELECT 1");
    return tried(() => {
      cursor.columnNames = [];
    });
  },
  "duplicate columns"({ sql }) {
    const text = "SELECT 1 AS a, 2 AS b, 3 AS a, 4 AS A";
    const row = sql.exec(text).one();
    return [row, Object.keys(row), sql.exec(text).raw().next().value];
  },
  "the cursor of a write"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    const cursor = sql.exec("INSERT INTO t VALUES (1), (2)");
    return {
      next: cursor.next(),
      toArray: cursor.toArray(),
      one: tried(() => sql.exec("INSERT INTO t VALUES (3)").one()),
      written: cursor.rowsWritten,
      stored: sql.exec("SELECT x FROM t").toArray(),
    };
  },
  "RETURNING has written before its rows are read"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    const partly = sql.exec("INSERT INTO t VALUES (3), (4), (5) RETURNING x");
    partly.next();
    const while_ = sql.exec("SELECT count(*) AS n FROM t").one();
    return [
      while_,
      partly.toArray(),
      sql.exec("SELECT count(*) AS n FROM t").one(),
    ];
  },
  "a call on something else"({ sql }) {
    const cursor = sql.exec("SELECT 1");
    const { next, toArray, one, raw } = cursor;
    return [next, toArray, one, raw, sql.exec].map((method) =>
      tried(() => inspect(method.call({}))).text?.slice(0, 40),
    );
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
