// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";

/** Events of several requests meet in one object. */
export class Cell extends DurableObject {
  waiting = [];
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/wait") {
      const value = await new Promise((resolve) => this.waiting.push(resolve));
      return new Response(`woken by ${value}`);
    }
    if (pathname === "/count") return new Response(String(this.waiting.length));
    for (const resolve of this.waiting.splice(0)) resolve("another request");
    return new Response("woke them");
  }
}

export default suite({
  fallback: (request, env) => env.CELL.getByName("x").fetch(request),
});
