import { load } from "../../support/deps.mjs";

const { WebSocketServer } = load("ws");

async function ask(t, path) {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await new Promise((resolve) => server.on("listening", resolve));
  server.on("connection", (socket) => {
    socket.on("message", (data) => {
      if (String(data) === "close") socket.close(4009, "as asked");
      else socket.send(`echo ${data}`);
    });
  });
  try {
    const target = encodeURIComponent(
      `ws://127.0.0.1:${server.address().port}/`,
    );
    return await t.json(`${path}?target=${target}`);
  } finally {
    for (const socket of server.clients) socket.terminate();
    server.close();
  }
}

export default {
  async "fetch with an upgrade gives a WebSocket"(t) {
    t.equal(await ask(t, "/fetch"), [101, "echo by fetch"]);
  },
  async "new WebSocket connects"(t) {
    t.equal(await ask(t, "/constructor"), [
      [0, 1],
      "proto",
      "echo by constructor",
      4009,
      "as asked",
    ]);
  },
  async "without an upgrade there is no WebSocket"(t) {
    t.equal(await ask(t, "/plain"), [426, null]);
  },
};
