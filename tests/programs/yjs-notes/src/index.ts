import { routePartykitRequest } from "partyserver";
import { YServer } from "y-partyserver";
import * as Y from "yjs";

/** A shared document that is kept in SQLite, as one update. */
export class Notes extends YServer {
  static options = { hibernate: true };
  static callbackOptions = { debounceWait: 20, debounceMaxWait: 100 };

  async onStart() {
    this.ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS document (id INTEGER PRIMARY KEY, content BLOB)",
    );
    return super.onStart();
  }

  async onLoad() {
    const [row] = this.ctx.storage.sql
      .exec("SELECT content FROM document WHERE id = 1")
      .toArray();
    if (row) {
      Y.applyUpdate(this.document, new Uint8Array(row.content as ArrayBuffer));
    }
  }

  async onSave() {
    this.ctx.storage.sql.exec(
      "INSERT OR REPLACE INTO document VALUES (1, ?)",
      Y.encodeStateAsUpdate(this.document),
    );
  }

  async onRequest() {
    const saved = this.ctx.storage.sql
      .exec("SELECT count(*) AS n FROM document")
      .one();
    return Response.json({
      text: this.document.getText("text").toString(),
      saved: saved.n,
    });
  }
}

export default {
  async fetch(request, env) {
    return (
      (await routePartykitRequest(request, env as never)) ??
      new Response("no such document", { status: 404 })
    );
  },
} satisfies ExportedHandler;
