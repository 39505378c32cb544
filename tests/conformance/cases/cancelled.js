import { suite } from "../support/check.js";

const log = [];

export default suite({
  fallback(request, env, ctx) {
    const { pathname } = new URL(request.url);
    if (pathname === "/stream") {
      let n = 0;
      return new Response(
        new ReadableStream({
          async pull(controller) {
            await scheduler.wait(10);
            n++;
            controller.enqueue(new Uint8Array(65_536));
          },
          cancel() {
            log.push("cancelled");
          },
        }),
      );
    }
    if (pathname === "/wait") {
      ctx.waitUntil(scheduler.wait(150).then(() => log.push("waited")));
      return scheduler.wait(5_000).then(() => new Response("late"));
    }
    return Response.json(log);
  },
});
