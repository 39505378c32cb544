// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";

export class Cell extends DurableObject {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/count") {
      let bytes = 0;
      for await (const chunk of request.body) bytes += chunk.byteLength;
      await this.ctx.storage.put("bytes", bytes);
      return new Response(String(bytes));
    }
    if (pathname === "/release") {
      this.released = true;
      return new Response("released");
    }
    const { readable, writable } = new TransformStream();
    const writer = writable.getWriter();
    const parts = async () => {
      for (let i = 0; i < 3; i++) {
        await this.ctx.storage.put("part", i);
        await writer.write(new TextEncoder().encode(`part ${i}\n`));
        while (!this.released) await scheduler.wait(10);
      }
      await writer.close();
    };
    this.ctx.waitUntil(parts());
    return new Response(readable);
  }
}

export default suite({
  fallback: (request, env) => env.CELL.getByName("x").fetch(request),
});
