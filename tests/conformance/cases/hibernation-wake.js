// config: {"objects": {"ROOM": "Room"}, "checkMs": 40000}
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";
import { fresh } from "../support/websocket.js";

export class Room extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    const sockets = ctx.getWebSockets();
    this.log = [
      `constructor ${sockets.length} ${ctx.getWebSockets("t").length} ${ctx.id.name}`,
    ];
    this.atStart = sockets;
    this.attachments = sockets.map((one) => one.deserializeAttachment());
    this.tags = sockets.map((one) => ctx.getTags(one).join());
    this.states = sockets.map((one) => one.readyState);
    this.auto = ctx.getWebSocketAutoResponse()?.request ?? null;
    this.timeout = ctx.getHibernatableWebSocketEventTimeout();
    this.stamps = sockets.map(
      (one) => ctx.getWebSocketAutoResponseTimestamp(one) instanceof Date,
    );
    if (ctx.id.name === "greets") for (const one of sockets) one.send("again");
  }
  async fetch(request) {
    const url = new URL(request.url);
    const [client, server] = fresh();
    this.ctx.acceptWebSocket(server, url.searchParams.getAll("tag"));
    server.serializeAttachment({
      n: url.searchParams.get("n"),
      map: new Map([[1, 2]]),
    });
    server.mine = "this instance";
    this.ctx.setWebSocketAutoResponse(
      new WebSocketRequestResponsePair("ping", "pong"),
    );
    this.ctx.setHibernatableWebSocketEventTimeout(5_000);
    return new Response(null, { status: 101, webSocket: client });
  }
  webSocketMessage(socket, message) {
    this.log.push(`message ${message}`);
    if (message === "report") {
      const { log, attachments, tags, states, auto, timeout, stamps } = this;
      return socket.send(
        JSON.stringify({
          log,
          attachments: attachments.map(({ n, map }) => [n, map.get(1)]),
          tags,
          states,
          auto,
          timeout,
          stamps,
          mine: socket.mine ?? null,
          known: this.atStart.includes(socket),
        }),
      );
    }
    socket.send(`${message} ${this.log.length}`);
  }
  webSocketClose(socket, code) {
    this.log.push(`close ${code} ${socket.deserializeAttachment().n}`);
    socket.close(code);
  }
  async set(key) {
    await this.ctx.storage.put(key, 1);
  }
}

export default suite({
  fallback: (request, env) =>
    env.ROOM.getByName(new URL(request.url).pathname.slice(1)).fetch(request),
});
