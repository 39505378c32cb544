import { suite } from "../support/check.js";

export default suite({
  fallback(request) {
    const url = new URL(request.url);
    if (request.headers.get("upgrade") !== "websocket") {
      return new Response("expected websocket", { status: 426 });
    }
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.addEventListener("message", async ({ data }) => {
      if (data === "close") return server.close(4000, "asked");
      if (data === "throw") throw new Error("in a listener");
      if (typeof data === "string") return server.send(`echo ${data}`);
      const bytes = data instanceof Blob ? await data.arrayBuffer() : data;
      server.send(bytes);
    });
    server.addEventListener("close", ({ code, reason }) => {
      server.close(code, `bye ${reason}`);
    });
    if (url.pathname === "/greet") server.send("welcome");
    const headers = {};
    const protocols = request.headers.get("sec-websocket-protocol");
    if (protocols) headers["sec-websocket-protocol"] = protocols.split(",")[0];
    return new Response(null, { status: 101, webSocket: client, headers });
  },
});
