import { suite } from "../support/check.js";

export default suite({
  async fallback(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/gzip") {
      return new Response("packed on the way out", {
        headers: { "content-encoding": "gzip" },
      });
    }
    if (pathname === "/manual") {
      const packed = await new Response(
        new Response("packed by hand").body.pipeThrough(
          new CompressionStream("gzip"),
        ),
      ).bytes();
      return new Response(packed, {
        encodeBody: "manual",
        headers: { "content-encoding": "gzip" },
      });
    }
    if (pathname === "/headers") {
      return Response.json(
        [...request.headers].filter(([name]) => name.startsWith("x-")),
      );
    }
    if (pathname === "/many") {
      const headers = new Headers();
      headers.append("x-many", "a");
      headers.append("x-many", "b");
      headers.set("x-unicode", "caf\u00e9");
      return new Response("", { headers });
    }
    return new Response(request.url.slice(request.url.indexOf("/", 8)));
  },
});
