import { DurableObject } from "cloudflare:workers";
import { ConflictTypes, DOQB, OrderTypes, Raw } from "workers-qb";

const migrations = [
  {
    name: "0001_staff.sql",
    sql: "CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT UNIQUE, role TEXT);",
  },
  { name: "0002_wage.sql", sql: "ALTER TABLE staff ADD COLUMN wage REAL;" },
];

export class Staff extends DurableObject {
  qb = new DOQB(this.ctx.storage.sql);

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(async () => {
      const runner = this.qb.migrations({ migrations });
      runner.initialize();
      runner.apply();
    });
  }

  applied() {
    return this.qb
      .migrations({ migrations })
      .getApplied()
      .map(({ name }) => name);
  }

  hire(name: string, role: string, wage: number) {
    const { results } = this.qb
      .insert({
        tableName: "staff",
        data: { name, role, wage },
        onConflict: {
          column: "name",
          data: { wage: new Raw("excluded.wage") },
        },
        returning: ["id", "name", "wage"],
      })
      .execute();
    return results;
  }

  hireMany(names: string[]) {
    const data = names.map((name) => ({ name, role: "many", wage: 1 }));
    return this.qb
      .insert({ tableName: "staff", data, onConflict: ConflictTypes.IGNORE })
      .execute();
  }

  list(role: string) {
    return this.qb
      .select("staff")
      .fields(["name", "wage"])
      .where("role = ?", role)
      .orderBy({ name: OrderTypes.DESC })
      .all().results;
  }

  raise(role: string, factor: number) {
    return this.qb
      .update({
        tableName: "staff",
        data: { wage: new Raw(`wage * ${factor}`) },
        where: { conditions: "role = ?1", params: [role] },
        returning: "*",
      })
      .execute().results;
  }

  fire(name: string) {
    return this.qb
      .delete({
        tableName: "staff",
        where: { conditions: "name = ?", params: [name] },
        returning: "id",
      })
      .execute().results;
  }

  summary() {
    return this.qb
      .fetchAll({
        tableName: "staff",
        fields: "role, count(*) AS n, sum(wage) AS wages",
        groupBy: "role",
        having: "count(*) > 1",
        orderBy: "role",
      })
      .execute().results;
  }

  names() {
    return this.qb
      .fetchAll({ tableName: "staff", fields: "name", orderBy: "id" })
      .execute().results;
  }
}

export default {
  async fetch(request, env: { STAFF: DurableObjectNamespace<Staff> }) {
    const [, name, method] = new URL(request.url).pathname.split("/");
    const args = request.method === "POST" ? await request.json() : [];
    const staff: any = env.STAFF.getByName(name);
    try {
      return Response.json((await staff[method](...(args as []))) ?? null);
    } catch (error) {
      return Response.json({ error: (error as Error).message });
    }
  },
} satisfies ExportedHandler<any>;
