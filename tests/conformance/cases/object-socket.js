// config: {"objects": {"ROOM": "Room"}}
import { DurableObject } from "cloudflare:workers";
import { equal, suite } from "../support/check.js";

export class Room extends DurableObject {
  fetch(request) {
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.addEventListener("message", async ({ data }) => {
      const count = ((await this.ctx.storage.get("count")) ?? 0) + 1;
      await this.ctx.storage.put("count", count);
      server.send(`${data} ${count}`);
    });
    return new Response(null, { status: 101, webSocket: client });
  }
}

const next = (socket) =>
  new Promise((resolve) =>
    socket.addEventListener("message", ({ data }) => resolve(data), {
      once: true,
    }),
  );

export default suite({
  worker: {
    async "a Worker opens a WebSocket to an object"({ env }) {
      const response = await env.ROOM.getByName("inner").fetch("http://x/", {
        headers: { upgrade: "websocket" },
      });
      equal(response.status, 101);
      const socket = response.webSocket;
      socket.accept();
      const first = next(socket);
      socket.send("a");
      equal(await first, "a 1");
      const second = next(socket);
      socket.send("b");
      equal(await second, "b 2");
      socket.close();
    },
  },
  fallback: (request, env) => env.ROOM.getByName("outer").fetch(request),
});
