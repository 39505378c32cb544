import { DurableObject } from "cloudflare:workers";
import { count, desc, eq, like, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/durable-sqlite";
import { migrate } from "drizzle-orm/durable-sqlite/migrator";
import migrations from "./migrations/migrations.js";
import * as schema from "./schema";

const { authors, books } = schema;

export class Library extends DurableObject {
  db = drizzle(this.ctx.storage, { schema });

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(() => migrate(this.db, migrations));
  }

  async add(name: string, titles: string[]) {
    const [author] = await this.db
      .insert(authors)
      .values({ name })
      .onConflictDoUpdate({ target: authors.name, set: { name } })
      .returning();
    const rows = titles.map((title) => ({
      title,
      authorId: author.id,
      tags: [name, title],
      printed: new Date(86_400_000),
    }));
    return this.db.insert(books).values(rows).returning().all();
  }

  async list() {
    return this.db.query.authors.findMany({
      with: { books: { columns: { title: true, lent: true, tags: true } } },
      orderBy: desc(authors.name),
    });
  }

  async search(text: string) {
    return this.db
      .select({ title: books.title, author: authors.name, at: books.printed })
      .from(books)
      .innerJoin(authors, eq(books.authorId, authors.id))
      .where(like(books.title, sql.placeholder("text")))
      .prepare()
      .all({ text: `%${text}%` });
  }

  async lend(title: string) {
    return this.db
      .update(books)
      .set({ lent: true })
      .where(eq(books.title, title))
      .returning({ title: books.title, lent: books.lent })
      .all();
  }

  /** Adds, and changes its mind: a nested transaction first, then the whole. */
  async undecided() {
    try {
      this.db.transaction((outer) => {
        outer.insert(authors).values({ name: "outer" }).run();
        try {
          outer.transaction((inner) => {
            inner.insert(authors).values({ name: "inner" }).run();
            inner.rollback();
          });
        } catch {
          // The inner part alone is undone.
        }
        const names = outer.select({ n: count() }).from(authors).get();
        if (names?.n) throw new Error(`undone with ${names.n}`);
      });
    } catch (error) {
      return (error as Error).message;
    }
  }

  async counts() {
    const applied = this.db.values(
      sql`SELECT count(*) FROM __drizzle_migrations`,
    );
    const [{ n }] = this.db.select({ n: count() }).from(books).all();
    return { applied, books: n };
  }
}

export default {
  async fetch(request, env: { LIBRARY: DurableObjectNamespace<Library> }) {
    const { pathname } = new URL(request.url);
    const [, name, method] = pathname.split("/");
    const args = request.method === "POST" ? await request.json() : [];
    const library: any = env.LIBRARY.getByName(name);
    try {
      return Response.json((await library[method](...(args as []))) ?? null);
    } catch (error) {
      return Response.json({ error: (error as Error).message });
    }
  },
} satisfies ExportedHandler<any>;
