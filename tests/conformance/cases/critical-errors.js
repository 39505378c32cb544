// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { suite, triedAsync } from "../support/check.js";

export class Cell extends DurableObject {
  born = Math.random();
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS p (id INTEGER PRIMARY KEY); CREATE TABLE IF NOT EXISTS c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED); CREATE TABLE IF NOT EXISTS t (x UNIQUE)",
    );
  }
  which() {
    return this.born;
  }
  state() {
    const { sql } = this.ctx.storage;
    return [
      sql.exec("SELECT p FROM c").raw().toArray(),
      sql.exec("SELECT x FROM t").raw().toArray(),
      [...this.ctx.storage.kv.list()],
    ];
  }
  /** Leaves a foreign key violated at the end of the turn. */
  violate() {
    this.ctx.storage.kv.put("k", "violated");
    this.ctx.storage.sql.exec("INSERT INTO c VALUES (1)");
    return "answered";
  }
  async violateAndAwait() {
    this.ctx.storage.sql.exec("INSERT INTO c VALUES (1)");
    await scheduler.wait(1);
    return "went on";
  }
  async violateInTransaction() {
    await this.ctx.storage.transaction(async () => {
      this.ctx.storage.sql.exec("INSERT INTO c VALUES (1)");
    });
    return "committed";
  }
  violateInTransactionSync() {
    this.ctx.storage.transactionSync(() =>
      this.ctx.storage.sql.exec("INSERT INTO c VALUES (1)"),
    );
    return "released";
  }
  async violateAndSync() {
    this.ctx.storage.sql.exec("INSERT INTO c VALUES (1)");
    const synced = await this.ctx.storage.sync().catch(String);
    return `synced: ${synced}`;
  }
  deferred() {
    const { sql, transactionSync } = this.ctx.storage;
    sql.exec("PRAGMA defer_foreign_keys = ON");
    sql.exec("INSERT INTO c VALUES (5)");
    sql.exec("INSERT INTO p VALUES (5)");
    return [typeof transactionSync, sql.exec("SELECT p FROM c").toArray()];
  }
  /** Statements that undo the whole transaction. */
  rollback(text) {
    const { sql, kv } = this.ctx.storage;
    kv.put("k", "before");
    sql.exec("INSERT INTO t VALUES (1)");
    const seen = [];
    const note = (run) => {
      try {
        seen.push(JSON.stringify(run()));
      } catch (error) {
        seen.push(String(error));
      }
    };
    note(() => sql.exec(text).toArray());
    note(() => sql.exec("SELECT x FROM t").toArray());
    note(() => kv.get("k"));
    note(() => kv.put("after", 1));
    return seen;
  }
  async fail() {
    await this.ctx.storage.put("k", 1);
    throw new Error("after the write");
  }
}

/** What a call gives, whether the object was reset, and what it holds then. */
async function outcome(env, name, call) {
  const stub = env.CELL.getByName(name);
  const before = await stub.which();
  const result = await triedAsync(() => call(stub));
  const again = env.CELL.getByName(name);
  return {
    result,
    reset: before !== (await again.which()),
    state: await again.state(),
    stub: typeof (await triedAsync(() => stub.which())) === "number",
  };
}

export default suite({
  worker: {
    "a violated foreign key at the end of a turn": ({ env }) =>
      outcome(env, "turn", (stub) => stub.violate()),
    "a violated foreign key before an await": ({ env }) =>
      outcome(env, "await", (stub) => stub.violateAndAwait()),
    "a violated foreign key at the end of a transaction": ({ env }) =>
      outcome(env, "transaction", (stub) => stub.violateInTransaction()),
    "a violated foreign key at the end of transactionSync": ({ env }) =>
      outcome(env, "transactionSync", (stub) =>
        stub.violateInTransactionSync(),
      ),
    "a violated foreign key before sync()": ({ env }) =>
      outcome(env, "sync", (stub) => stub.violateAndSync()),
    "defer_foreign_keys, mended in time": ({ env }) =>
      outcome(env, "deferred", (stub) => stub.deferred()),
    "INSERT OR ROLLBACK": ({ env }) =>
      outcome(env, "or rollback", (stub) =>
        stub.rollback("INSERT OR ROLLBACK INTO t VALUES (1)"),
      ),
    "RAISE(ROLLBACK)": ({ env }) =>
      outcome(env, "raise", (stub) =>
        stub.rollback(
          "CREATE TRIGGER g BEFORE INSERT ON p BEGIN SELECT RAISE(ROLLBACK, 'raised'); END; INSERT INTO p VALUES (1)",
        ),
      ),
    "an error that only fails its statement": ({ env }) =>
      outcome(env, "plain", (stub) =>
        stub.rollback("INSERT INTO t VALUES (1)"),
      ),
    "an exception after a write": ({ env }) =>
      outcome(env, "exception", (stub) => stub.fail()),
  },
});
