// config: {"objects": {"PROBE": "Probe"}}
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";
import { fresh } from "../support/websocket.js";

/** What happened to sockets, by the path of their handshake. */
const seen = new Map();

function serve(request) {
  const { pathname } = new URL(request.url);
  const notes = [];
  seen.set(pathname, notes);
  const [client, server] = fresh();
  server.accept();
  server.binaryType = "arraybuffer";
  server.addEventListener("message", ({ data }) => {
    if (data === "close") return server.close(4003, "out");
    if (data === "close plain") return server.close();
    if (data === "throw") throw new Error("in a listener");
    const size = typeof data === "string" ? data.length : data.byteLength;
    notes.push(size > 100 ? `message of ${size}` : `message ${data}`);
    server.send(typeof data === "string" && size < 100 ? `got ${data}` : data);
  });
  server.addEventListener("close", ({ code, reason, wasClean }) => {
    notes.push(`close ${code} ${reason} ${wasClean} in ${server.readyState}`);
  });
  server.addEventListener("error", ({ message }) =>
    notes.push(`error ${message}`),
  );
  return new Response(null, { status: 101, webSocket: client });
}

/** Keeps sockets that it reads itself. */
export class Probe extends DurableObject {
  async fetch(request) {
    if (new URL(request.url).pathname.endsWith("/notes"))
      return Response.json(
        seen.get(new URL(request.url).pathname.replace("/notes", "")) ?? null,
      );
    return serve(request);
  }
}

export default suite({
  fallback: (request, env) => env.PROBE.getByName("x").fetch(request),
});
