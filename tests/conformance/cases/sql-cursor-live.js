// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried, triedAsync } from "../support/check.js";

const fill = (sql, count = 5) => {
  sql.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, x)");
  for (let i = 1; i <= count; i++)
    sql.exec("INSERT INTO t VALUES (?, ?)", i, i);
};
const rest = (cursor) => tried(() => cursor.toArray().map(({ id }) => id));

const object = {
  "rows inserted, deleted and changed ahead of it"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id, x FROM t ORDER BY id");
    cursor.next();
    sql.exec("DELETE FROM t WHERE id = 3");
    sql.exec("UPDATE t SET x = 'new' WHERE id = 4");
    sql.exec("INSERT INTO t VALUES (9, 9)");
    return tried(() => cursor.toArray());
  },
  "the row that comes next is deleted"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    cursor.next();
    sql.exec("DELETE FROM t WHERE id = 2");
    return rest(cursor);
  },
  "everything is deleted"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    cursor.next();
    sql.exec("DELETE FROM t");
    return rest(cursor);
  },
  "an unread cursor"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    sql.exec("DELETE FROM t WHERE id < 4");
    return rest(cursor);
  },
  "a sorted cursor is a snapshot"({ sql }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t ORDER BY -x");
    cursor.next();
    sql.exec("DELETE FROM t");
    return rest(cursor);
  },
  "writing in a loop over the table"({ sql }) {
    fill(sql, 3);
    let rounds = 0;
    for (const { id } of sql.exec("SELECT id FROM t")) {
      if (++rounds > 10) break;
      sql.exec("UPDATE t SET x = x + 1 WHERE id = ?", id);
      if (rounds < 3) sql.exec("INSERT INTO t (x) VALUES (0)");
    }
    return [rounds, sql.exec("SELECT * FROM t").raw().toArray()];
  },
  "changes of the schema meanwhile"({ sql }) {
    fill(sql);
    sql.exec("CREATE TABLE other (x)");
    const seen = {};
    const change = (name, text) => {
      const cursor = sql.exec("SELECT id FROM t");
      cursor.next();
      const outcome = tried(() => sql.exec(text).toArray());
      seen[name] = [outcome, rest(cursor)];
    };
    change("create table", "CREATE TABLE more (x)");
    change("add column", "ALTER TABLE t ADD COLUMN y DEFAULT 5");
    change("create index", "CREATE INDEX i ON t (x)");
    change("drop index", "DROP INDEX i");
    change("drop other", "DROP TABLE other");
    change("drop", "DROP TABLE t");
    change("analyze", "ANALYZE");
    change("rename", "ALTER TABLE t RENAME TO s");
    return seen;
  },
  async "over awaits and commits"({ sql, storage }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    const seen = [cursor.next().value];
    await storage.put("k", 1);
    seen.push(tried(() => cursor.next().value));
    await storage.sync();
    seen.push(tried(() => cursor.next().value));
    sql.exec("INSERT INTO t VALUES (10, 1)");
    await scheduler.wait(1);
    seen.push(rest(cursor));
    return seen;
  },
  async "over the rollback of a transaction"({ sql, storage }) {
    fill(sql);
    const outside = sql.exec("SELECT id FROM t");
    outside.next();
    let inside;
    tried(() =>
      storage.transactionSync(() => {
        inside = sql.exec("SELECT id FROM t");
        inside.next();
        sql.exec("DELETE FROM t WHERE id = 3");
        throw new Error("undone");
      }),
    );
    const seen = { outside: rest(outside), inside: rest(inside) };
    const kept = sql.exec("SELECT id FROM t");
    kept.next();
    await triedAsync(() =>
      storage.transaction(async () => {
        sql.exec("DELETE FROM t WHERE id = 4");
        throw new Error("undone");
      }),
    );
    seen.async = rest(kept);
    return seen;
  },
  async "over deleteAll"({ sql, storage }) {
    fill(sql);
    const cursor = sql.exec("SELECT id FROM t");
    cursor.next();
    const outcome = await triedAsync(() => storage.deleteAll());
    return [outcome, rest(cursor), tried(() => cursor.columnNames)];
  },
  "a cursor of a transaction that ended"({ sql, storage }) {
    fill(sql);
    const cursor = storage.transactionSync(() => sql.exec("SELECT id FROM t"));
    return rest(cursor);
  },
  "many cursors at once"({ sql }) {
    fill(sql);
    const cursors = Array.from({ length: 50 }, () =>
      sql.exec("SELECT id FROM t"),
    );
    for (let i = 0; i < 5; i++) for (const cursor of cursors) cursor.next();
    return [...new Set(cursors.map((cursor) => cursor.next().done))];
  },
  "thousands of cursors that nobody finishes"({ sql }) {
    fill(sql);
    for (let i = 0; i < 5_000; i++) sql.exec("SELECT id FROM t").next();
    return sql.exec("SELECT count(*) AS n FROM t").one();
  },
  "an error while stepping"({ sql }) {
    fill(sql);
    const cursor = sql.exec(
      "SELECT id, json_extract(CASE id WHEN 3 THEN 'bad' ELSE '{}' END, '$') AS j FROM t",
    );
    const seen = [tried(() => cursor.next().value.id)];
    for (let i = 0; i < 4; i++) seen.push(tried(() => cursor.next()));
    return seen;
  },
  "an error at the first row"({ sql }) {
    return [
      tried(() => sql.exec("SELECT json('bad')")),
      tried(() => sql.exec("SELECT abs(-9223372036854775808)")),
    ];
  },
  "the same text again and again"({ sql }) {
    fill(sql);
    const text = "SELECT id FROM t WHERE id > ?";
    const first = sql.exec(text, 3);
    const second = sql.exec(text, 4);
    const third = sql.exec(text, 0);
    return [rest(first), rest(second), rest(third), rest(sql.exec(text, 2))];
  },
  "the same text after the table changed"({ sql }) {
    fill(sql, 2);
    const text = "SELECT * FROM t";
    const seen = [sql.exec(text).toArray()];
    const names = () => {
      const cursor = sql.exec(text);
      const found = cursor.columnNames;
      cursor.toArray();
      return found;
    };
    sql.exec("ALTER TABLE t ADD COLUMN y");
    seen.push(names(), sql.exec(text).toArray());
    sql.exec("ALTER TABLE t DROP COLUMN x");
    seen.push(names());
    sql.exec("DROP TABLE t");
    seen.push(tried(() => sql.exec(text)));
    fill(sql, 1);
    seen.push(sql.exec(text).toArray());
    return seen;
  },
  "the same text with other types of bindings"({ sql }) {
    const text = "SELECT ? AS v, typeof(?) AS t";
    return [1, "x", null, new Uint8Array([1]), 2.5].map((value) =>
      sql.exec(text, value, value).one(),
    );
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
