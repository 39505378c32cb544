import { Actor, handler } from "@cloudflare/actors";

/** Hears of every count. */
export class Ledger extends Actor<unknown> {
  async note(who: string, n: number) {
    this.sql`CREATE TABLE IF NOT EXISTS notes (who TEXT, n INTEGER)`;
    this.sql`INSERT INTO notes VALUES (${who}, ${n})`;
  }

  async read() {
    return this.sql`SELECT who, n FROM notes ORDER BY n`;
  }
}

export class Counter extends Actor<unknown> {
  static async nameFromRequest(request: Request) {
    return new URL(request.url).pathname.split("/")[1] || "default";
  }

  static configuration = () => ({ sockets: { upgradePath: "/ws" } });

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env);
    this.storage.migrations = [
      {
        idMonotonicInc: 1,
        description: "the counts",
        sql: "CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER)",
      },
      {
        idMonotonicInc: 2,
        description: "rung",
        sql: "CREATE TABLE rung (at TEXT)",
      },
    ];
  }

  protected async onInit() {
    await this.storage.runMigrations();
  }

  async rung(payload: string) {
    this.sql`INSERT INTO rung VALUES (${payload})`;
  }

  protected async onRequest(request: Request) {
    const method = new URL(request.url).pathname.split("/")[2];
    if (method === "up") {
      const [{ n }] = this.sql<{ n: number }>`INSERT INTO counts VALUES ('n', 1)
        ON CONFLICT DO UPDATE SET n = n + 1 RETURNING n`;
      await Ledger.get("all").note(this.name ?? "", n);
      return Response.json({ name: this.name, n });
    }
    if (method === "ring") {
      await this.alarms.schedule(1, "rung", "payload");
      return new Response("set");
    }
    if (method === "rung") return Response.json(this.sql`SELECT at FROM rung`);
    return Response.json(await Ledger.get("all").read());
  }
}

export default handler(Counter);
