import { suite } from "../support/check.js";

const seen = [];
addEventListener("unhandledrejection", (event) => {
  seen.push(event.reason.message);
  event.preventDefault();
});

export default suite({
  async fallback(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/reject") {
      Promise.reject(new Error("nobody"));
      const later = Promise.reject(new Error("caught in time"));
      await later.catch(() => {});
      await scheduler.wait(5);
      return new Response("answered");
    }
    return Response.json(seen);
  },
});
