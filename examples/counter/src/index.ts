import { DurableObject } from "cloudflare:workers";

interface Env {
  COUNTER: DurableObjectNamespace<Counter>;
}

/** One counter, kept in a table of its own database. */
export class Counter extends DurableObject<Env> {
  readonly #sql: SqlStorage;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS counter (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        value INTEGER NOT NULL
      );
      INSERT OR IGNORE INTO counter VALUES (1, 0);
    `);
  }

  /** The present value. */
  read(): number {
    return this.#sql.exec<{ value: number }>("SELECT value FROM counter").one()
      .value;
  }

  /** Adds one and returns the new value; the caller gets it when the write is durable. */
  increment(): number {
    return this.#sql
      .exec<{ value: number }>(
        "UPDATE counter SET value = value + 1 RETURNING value",
      )
      .one().value;
  }
}

export default {
  /** The path names the counter: GET reads it, POST adds one. */
  async fetch(request, env): Promise<Response> {
    const name = new URL(request.url).pathname.slice(1) || "default";
    const counter = env.COUNTER.getByName(name);
    switch (request.method) {
      case "GET":
      case "HEAD":
        return new Response(`${await counter.read()}\n`);
      case "POST":
        return new Response(`${await counter.increment()}\n`);
      default:
        return new Response("Use GET or POST.\n", {
          status: 405,
          headers: { Allow: "GET, HEAD, POST" },
        });
    }
  },
} satisfies ExportedHandler<Env>;
