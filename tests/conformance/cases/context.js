import { waitUntil } from "cloudflare:workers";
import { suite, equal, throws } from "../support/check.js";

const seen = [];

export default suite({
  worker: {
    "ctx is new for each request, props is an object"({ ctx }) {
      equal(
        [typeof ctx.waitUntil, typeof ctx.passThroughOnException, ctx.props],
        ["function", "function", {}],
      );
    },
    "waitUntil taken off ctx is an illegal invocation"({ ctx }) {
      const { waitUntil: loose } = ctx;
      throws(() => loose(Promise.resolve()), {
        name: "TypeError",
        message: /^Illegal invocation/,
      });
    },
  },
  fallback(request, env, ctx) {
    const url = new URL(request.url);
    if (url.pathname === "/later") {
      ctx.waitUntil(
        new Promise((resolve) => setTimeout(resolve, 50)).then(() =>
          seen.push(url.search),
        ),
      );
      waitUntil(
        new Promise((resolve) => setTimeout(resolve, 60)).then(() =>
          seen.push(`imported${url.search}`),
        ),
      );
      return new Response("now");
    }
    if (url.pathname === "/rejects") {
      ctx.waitUntil(Promise.reject(new Error("in waitUntil")));
      return new Response("fine");
    }
    return Response.json(seen);
  },
});
