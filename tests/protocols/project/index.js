import { DurableObject } from "cloudflare:workers";

export class Room extends DurableObject {
  fetch() {
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }
  webSocketMessage(socket, message) {
    socket.send(`object ${message}`);
  }
}

let cancelled = 0;

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/echo":
        return new Response(request.body, {
          headers: { "x-method": request.method, "x-host": url.host },
        });
      case "/slow":
        await scheduler.wait(Number(url.searchParams.get("ms")));
        return new Response(url.search);
      case "/endless":
        return new Response(
          new ReadableStream({
            async pull(controller) {
              await scheduler.wait(1);
              controller.enqueue(new Uint8Array(1_024));
            },
            cancel() {
              cancelled++;
            },
          }),
        );
      case "/cancelled":
        return new Response(String(cancelled));
      case "/socket": {
        const [client, server] = Object.values(new WebSocketPair());
        server.accept();
        server.addEventListener("message", ({ data }) =>
          server.send(`worker ${data}`),
        );
        return new Response(null, { status: 101, webSocket: client });
      }
      case "/room":
        return env.ROOM.getByName("r").fetch(request);
      default:
        return new Response("hello");
    }
  },
};
