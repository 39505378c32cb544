import { WorkerEntrypoint } from "cloudflare:workers";

export default class extends WorkerEntrypoint {
  async fetch(request) {
    const url = new URL(request.url);
    if (url.pathname === "/fresh") {
      this.n = (this.n ?? 0) + 1;
      return new Response(String(this.n));
    }
    return Response.json({
      env: typeof this.env,
      ctx: typeof this.ctx.waitUntil,
      path: url.pathname,
    });
  }
}
