import { DurableObject } from "cloudflare:workers";

export interface Env {
  ROOM: DurableObjectNamespace<Room>;
}

/** What a room tells its members. */
type Notice =
  | { type: "message"; id: number; user: string; text: string; at: number }
  | { type: "joined" | "left"; user: string }
  | { type: "members"; users: string[] }
  | { type: "error"; text: string };

/** Survives the object's sleep with its socket. */
interface Attachment {
  user: string;
}

const HISTORY_MESSAGES = 100;
const TEXT_CHARACTERS_MAX = 2000;
const USER_CHARACTERS_MAX = 30;

export const isRoomName = (name: string): boolean =>
  /^[A-Za-z0-9-]{1,40}$/.test(name);

/**
 * One chat room. It sleeps while nobody writes: its sockets stay open, and it is constructed anew
 * for the next message.
 */
export class Room extends DurableObject<Env> {
  readonly #sql: SqlStorage;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user TEXT NOT NULL,
        text TEXT NOT NULL,
        at INTEGER NOT NULL
      );
    `);
    // Answered without waking the object.
    ctx.setWebSocketAutoResponse(
      new WebSocketRequestResponsePair("ping", "pong"),
    );
  }

  /** Accepts a member's socket: `?user=<name>` says who it is. */
  async fetch(request: Request): Promise<Response> {
    if (request.headers.get("Upgrade")?.toLowerCase() !== "websocket") {
      return new Response("A room is a WebSocket.\n", {
        status: 426,
        headers: { Upgrade: "websocket" },
      });
    }
    const user = new URL(request.url).searchParams.get("user")?.trim() ?? "";
    if (user === "" || user.length > USER_CHARACTERS_MAX) {
      return new Response(
        `A name has 1 to ${USER_CHARACTERS_MAX} characters.\n`,
        { status: 400 },
      );
    }
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    server.serializeAttachment({ user } satisfies Attachment);

    for (const message of this.#history()) send(server, message);
    this.#broadcast({ type: "joined", user });
    this.#broadcast(this.#members());
    return new Response(null, { status: 101, webSocket: client });
  }

  webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): void {
    const text = typeof data === "string" ? data.trim() : "";
    if (text === "" || text.length > TEXT_CHARACTERS_MAX) {
      send(socket, {
        type: "error",
        text: `A message is text of 1 to ${TEXT_CHARACTERS_MAX} characters.`,
      });
      return;
    }
    const { user } = attachment(socket);
    const at = Date.now();
    const { id } = this.#sql
      .exec<{ id: number }>(
        "INSERT INTO messages (user, text, at) VALUES (?, ?, ?) RETURNING id",
        user,
        text,
        at,
      )
      .one();
    this.#sql.exec("DELETE FROM messages WHERE id <= ?", id - HISTORY_MESSAGES);
    this.#broadcast({ type: "message", id, user, text, at });
  }

  webSocketClose(socket: WebSocket, code: number, reason: string): void {
    // 1005 and 1006 say that the other side sent no code; they cannot be sent.
    socket.close(code === 1005 || code === 1006 ? 1000 : code, reason);
    this.#leave(socket);
  }

  webSocketError(socket: WebSocket): void {
    this.#leave(socket);
  }

  #leave(socket: WebSocket): void {
    this.#broadcast({ type: "left", user: attachment(socket).user }, socket);
    this.#broadcast(this.#members(socket), socket);
  }

  #history(): Notice[] {
    const rows = this.#sql.exec<{
      id: number;
      user: string;
      text: string;
      at: number;
    }>("SELECT id, user, text, at FROM messages ORDER BY id");
    return [...rows].map((row) => ({ type: "message" as const, ...row }));
  }

  #members(except?: WebSocket): Notice {
    const open = this.ctx.getWebSockets().filter((socket) => socket !== except);
    const users = [...new Set(open.map((socket) => attachment(socket).user))];
    return { type: "members", users: users.sort((a, b) => a.localeCompare(b)) };
  }

  #broadcast(notice: Notice, except?: WebSocket): void {
    for (const socket of this.ctx.getWebSockets()) {
      if (socket !== except) send(socket, notice);
    }
  }
}

const attachment = (socket: WebSocket): Attachment =>
  socket.deserializeAttachment() as Attachment;

function send(socket: WebSocket, notice: Notice): void {
  try {
    socket.send(JSON.stringify(notice));
  } catch {
    // The socket is closing; its close event follows.
  }
}
