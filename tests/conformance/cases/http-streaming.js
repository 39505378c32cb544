// config: {"objects": {"SOURCE": "Source"}}
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";

/** An endless stream that counts how often it was asked for more. */
export class Source extends DurableObject {
  pulled = 0;
  cancelled = false;
  fetch(request) {
    if (new URL(request.url).pathname === "/pulled") {
      const { pulled, cancelled } = this;
      return Response.json({ pulled, cancelled });
    }
    const pull = (controller) => {
      this.pulled++;
      controller.enqueue(new Uint8Array(65_536));
    };
    const cancel = () => {
      this.cancelled = true;
    };
    return new Response(
      new ReadableStream({ pull, cancel }, { highWaterMark: 0 }),
    );
  }
}

export default suite({
  async fallback(request, env) {
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
      case "/pulled":
        return env.SOURCE.getByName("x").fetch(request);
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
