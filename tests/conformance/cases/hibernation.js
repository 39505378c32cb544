// config: {"objects": {"ROOM": "Room"}}
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";

export class Room extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(
      new WebSocketRequestResponsePair("ping", "pong"),
    );
  }

  async fetch(request) {
    const url = new URL(request.url);
    if (url.pathname === "/state") {
      const sockets = this.ctx.getWebSockets();
      return Response.json({
        count: sockets.length,
        tagged: this.ctx.getWebSockets("even").length,
        attachments: sockets.map((ws) => ws.deserializeAttachment()),
        tags: sockets.map((ws) => this.ctx.getTags(ws)),
        closed: (await this.ctx.storage.get("closed")) ?? null,
        auto: sockets.map(
          (ws) =>
            this.ctx.getWebSocketAutoResponseTimestamp(ws) instanceof Date,
        ),
      });
    }
    if (url.pathname === "/broadcast") {
      for (const ws of this.ctx.getWebSockets("even")) ws.send("to even");
      return new Response("sent");
    }
    const [client, server] = Object.values(new WebSocketPair());
    const tags = url.searchParams.getAll("tag");
    this.ctx.acceptWebSocket(server, tags);
    server.serializeAttachment({
      path: url.pathname,
      map: new Map([[1, 2]]).size,
    });
    if (url.searchParams.has("greet")) server.send("hello");
    return new Response(null, { status: 101, webSocket: client });
  }

  async webSocketMessage(ws, message) {
    if (message === "who")
      return ws.send(JSON.stringify(ws.deserializeAttachment()));
    if (message === "close") return ws.close(4001, "as you wish");
    if (message === "throw") throw new Error("in webSocketMessage");
    if (message === "note") {
      ws.serializeAttachment("noted");
      return ws.send("noted");
    }
    if (typeof message === "string") return ws.send(`echo ${message}`);
    ws.send(message);
    ws.send(message.constructor.name);
  }

  async webSocketClose(ws, code, reason, wasClean) {
    if (code !== 1006) ws.close(code, reason);
    await this.ctx.storage.put("closed", { code, reason, wasClean });
  }
}

export default suite({
  fallback(request, env) {
    const room = new URL(request.url).searchParams.get("room");
    return env.ROOM.getByName(room).fetch(request);
  },
});
