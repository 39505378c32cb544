import { suite } from "../support/check.js";

const next = (socket, type = "message") =>
  new Promise((resolve) =>
    socket.addEventListener(type, resolve, { once: true }),
  );

export default suite({
  async fallback(request) {
    const url = new URL(request.url);
    const target = url.searchParams.get("target");
    if (url.pathname === "/fetch") {
      const response = await fetch(target.replace("ws:", "http:"), {
        headers: { upgrade: "websocket" },
      });
      const socket = response.webSocket;
      socket.accept();
      const answer = next(socket);
      socket.send("by fetch");
      const { data } = await answer;
      socket.close(1000, "done");
      return Response.json([response.status, data]);
    }
    if (url.pathname === "/constructor") {
      const socket = new WebSocket(target, "proto");
      const states = [socket.readyState];
      await next(socket, "open");
      states.push(socket.readyState);
      const answer = next(socket);
      socket.send("by constructor");
      const { data } = await answer;
      const closed = next(socket, "close");
      socket.send("close");
      const { code, reason } = await closed;
      return Response.json([states, socket.protocol, data, code, reason]);
    }
    const response = await fetch(target.replace("ws:", "http:"));
    return Response.json([response.status, response.webSocket]);
  },
});
