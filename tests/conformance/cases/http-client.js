import { suite } from "../support/check.js";

const slow = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export default suite({
  async fallback(request) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/echo":
        return new Response(request.body, {
          headers: { "x-length": request.headers.get("content-length") },
        });
      case "/method":
        return new Response(`${request.method} ${url.search}`);
      case "/cookies": {
        const headers = new Headers();
        headers.append("set-cookie", "a=1");
        headers.append("set-cookie", "b=2; Path=/");
        return new Response("ok", { headers });
      }
      case "/status":
        return new Response(null, {
          status: Number(url.searchParams.get("code")),
          statusText: url.searchParams.get("text") ?? "",
        });
      case "/empty":
        return new Response(null);
      case "/null-204":
        return new Response(null, { status: 204 });
      case "/throw":
        throw new Error("not for the client");
      case "/no-response":
        return undefined;
      case "/host":
        return Response.json({
          host: url.host,
          header: request.headers.get("host"),
          path: url.pathname,
        });
      case "/stream": {
        const { readable, writable } = new TransformStream();
        const writer = writable.getWriter();
        const write = async () => {
          for (const part of ["one ", "two ", "three"]) {
            await writer.write(new TextEncoder().encode(part));
            await slow(10);
          }
          await writer.close();
        };
        write();
        return new Response(readable);
      }
      case "/fixed": {
        const { readable, writable } = new FixedLengthStream(5);
        const writer = writable.getWriter();
        writer
          .write(new TextEncoder().encode("12345"))
          .then(() => writer.close());
        return new Response(readable);
      }
      case "/broken-stream": {
        let n = 0;
        return new Response(
          new ReadableStream({
            pull(controller) {
              if (n++ === 0)
                controller.enqueue(new TextEncoder().encode("start"));
              else controller.error(new Error("broken"));
            },
          }),
        );
      }
      default:
        return new Response("none", { status: 404 });
    }
  },
});
