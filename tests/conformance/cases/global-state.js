import { suite } from "../support/check.js";

let count = 0;

export default suite({
  async fallback(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/hang") return new Promise(() => {});
    if (pathname === "/unhandled") {
      Promise.reject(new Error("nobody catches this"));
      await scheduler.wait(5);
      return new Response("answered");
    }
    if (pathname === "/late-throw") {
      setTimeout(() => {
        throw new Error("from a timer");
      }, 1);
      await scheduler.wait(20);
      return new Response("answered");
    }
    if (pathname === "/deep") {
      const dive = (n) => dive(n + 1) + 1;
      try {
        dive(0);
      } catch (error) {
        return new Response(`${error.name}: ${error.message}`);
      }
    }
    return new Response(String(++count));
  },
});
