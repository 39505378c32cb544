import { suite } from "../support/check.js";

let pulled = 0;
let cancelled = false;

export default suite({
  async fallback(request) {
    const { pathname } = new URL(request.url);
    switch (pathname) {
      case "/duplex":
        return new Response(request.body.pipeThrough(new TransformStream()));
      case "/upper":
        return new Response(
          request.body
            .pipeThrough(new TextDecoderStream())
            .pipeThrough(
              new TransformStream({
                transform: (chunk, c) => c.enqueue(chunk.toUpperCase()),
              }),
            )
            .pipeThrough(new TextEncoderStream()),
        );
      case "/first": {
        const reader = request.body.getReader();
        const { value } = await reader.read();
        return new Response(`first ${new TextDecoder().decode(value)}`);
      }
      case "/byob": {
        const reader = request.body.getReader({ mode: "byob" });
        const { value } = await reader.readAtLeast(5, new Uint8Array(10));
        return new Response(
          `${value.byteLength >= 5} ${new TextDecoder().decode(value).slice(0, 5)}`,
        );
      }
      case "/endless":
        return new Response(
          new ReadableStream(
            {
              pull(controller) {
                pulled++;
                controller.enqueue(new Uint8Array(65_536));
              },
              cancel() {
                cancelled = true;
              },
            },
            { highWaterMark: 0 },
          ),
        );
      case "/pulled":
        return Response.json({ pulled, cancelled });
      case "/iterate": {
        let size = 0;
        for await (const chunk of request.body) size += chunk.byteLength;
        return new Response(String(size));
      }
      case "/unread":
        return new Response("did not read");
      case "/twice": {
        const [a, b] = request.body.tee();
        return Response.json([
          await new Response(a).text(),
          await new Response(b).text(),
        ]);
      }
    }
  },
});
