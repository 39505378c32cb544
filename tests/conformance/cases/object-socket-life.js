// config: {"objects": {"ROOM": "Room"}}
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";

export class Room extends DurableObject {
  async fetch(request) {
    const url = new URL(request.url);
    if (url.pathname === "/lives")
      return new Response(String((await this.ctx.storage.get("closes")) ?? 0));
    if (url.pathname === "/refuse")
      return new Response("not here", { status: 403 });
    if (url.pathname === "/throw") throw new Error("no upgrade");
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.addEventListener("message", ({ data }) => {
      if (data === "abort") this.ctx.abort("aborted by a message");
      server.send(data);
    });
    server.addEventListener("close", async () => {
      await this.ctx.storage.put(
        "closes",
        ((await this.ctx.storage.get("closes")) ?? 0) + 1,
      );
    });
    return new Response(null, { status: 101, webSocket: client });
  }
}

export default suite({
  fallback: (request, env) =>
    env.ROOM.getByName(new URL(request.url).searchParams.get("room")).fetch(
      request,
    ),
});
