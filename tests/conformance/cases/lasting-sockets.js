// config: {"objects": {"ROOM": "Room"}, "skip": {"kill": "sockets end with the process"}}
// Sockets of an object that hibernates: they outlive its memory.
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";

export class Room extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    // What a woken object finds before any event.
    this.found = ctx.getWebSockets().map((ws) => ws.deserializeAttachment());
  }

  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/state") {
      const sockets = this.ctx.getWebSockets();
      return Response.json({
        found: this.found,
        memory: this.memory ?? null,
        attachments: sockets.map((ws) => ws.deserializeAttachment()),
        tags: sockets.map((ws) => this.ctx.getTags(ws)),
        even: this.ctx.getWebSockets("even").length,
        auto: this.ctx.getWebSocketAutoResponse()?.response ?? null,
        closed: (await this.ctx.storage.get("closed")) ?? null,
        states: sockets.map((ws) => ws.readyState),
      });
    }
    if (pathname === "/auto") {
      const pair = new WebSocketRequestResponsePair("ping", "pong");
      this.ctx.setWebSocketAutoResponse(pair);
      return new Response("set");
    }
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server, searchParams.getAll("tag"));
    server.serializeAttachment({
      who: searchParams.get("who"),
      at: new Date(5),
    });
    this.memory = "in memory";
    return new Response(null, { status: 101, webSocket: client });
  }

  webSocketMessage(ws, message) {
    if (message === "close") return ws.close(4002, "by the object");
    const { who } = ws.deserializeAttachment();
    ws.send(
      `${who}: ${typeof message === "string" ? message : message.byteLength}`,
    );
  }

  async webSocketClose(ws, code, reason, wasClean) {
    ws.close(code, reason);
    await this.ctx.storage.put("closed", {
      code,
      reason,
      wasClean,
      who: ws.deserializeAttachment()?.who ?? null,
    });
  }
}

export default suite({
  fallback(request, env) {
    const room = new URL(request.url).searchParams.get("room");
    return env.ROOM.getByName(room).fetch(request);
  },
});
