// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

export class Cell extends DurableObject {
  burstThenAbort() {
    this.ctx.storage.put("a", 1);
    this.ctx.storage.sql.exec("CREATE TABLE t (x)");
    this.ctx.storage.sql.exec("INSERT INTO t VALUES (1)");
    this.ctx.abort("reset");
  }
  async writeThenThrow() {
    await this.ctx.storage.put("a", 1);
    this.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS u (x)");
    throw new Error("after the write");
  }
  async state() {
    const tables = this.ctx.storage.sql.exec(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'",
    );
    return [
      await this.ctx.storage.get("a"),
      tables.toArray().map(({ name }) => name),
    ];
  }
}

export default suite({
  worker: {
    async "a burst that is reset leaves nothing"({ env }) {
      await rejects(env.CELL.getByName("x").burstThenAbort(), {
        message: "reset",
      });
      equal(await env.CELL.getByName("x").state(), [undefined, []]);
    },
    async "a throw keeps what was written before it"({ env }) {
      await rejects(env.CELL.getByName("y").writeThenThrow(), {
        message: "after the write",
      });
      equal(await env.CELL.getByName("y").state(), [1, ["u"]]);
    },
  },
});
