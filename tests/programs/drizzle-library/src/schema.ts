import { relations } from "drizzle-orm";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const authors = sqliteTable("authors", {
  id: integer("id").primaryKey({ autoIncrement: true }),
  name: text("name").notNull().unique(),
});

export const books = sqliteTable("books", {
  id: integer("id").primaryKey({ autoIncrement: true }),
  title: text("title").notNull(),
  authorId: integer("author_id")
    .notNull()
    .references(() => authors.id),
  tags: text("tags", { mode: "json" }).$type<string[]>(),
  printed: integer("printed", { mode: "timestamp_ms" }),
  lent: integer("lent", { mode: "boolean" }).default(false),
});

export const authorRelations = relations(authors, ({ many }) => ({
  books: many(books),
}));

export const bookRelations = relations(books, ({ one }) => ({
  author: one(authors, { fields: [books.authorId], references: [authors.id] }),
}));
