import { suite } from "../support/check.js";

let release;

export default suite({
  async fallback(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/await") {
      const promise = new Promise((resolve) => (release = resolve));
      await Promise.race([promise, scheduler.wait(5_000)]);
      return new Response("released");
    }
    release?.();
    return new Response("releasing");
  },
});
