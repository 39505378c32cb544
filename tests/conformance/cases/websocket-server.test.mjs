export default {
  async "text and binary are echoed"(t) {
    const socket = await t.socket("/");
    socket.send("hi");
    t.equal(await socket.next(), "echo hi");
    socket.send(new Uint8Array([1, 2, 3]));
    t.equal(await socket.next(), new Uint8Array([1, 2, 3]));
  },
  async "large messages pass"(t) {
    const socket = await t.socket("/");
    const big = "ä".repeat(200_000);
    socket.send(big);
    t.equal((await socket.next()) === `echo ${big}`, true);
  },
  async "messages keep their order"(t) {
    const socket = await t.socket("/");
    for (let i = 0; i < 200; i++) socket.send(String(i));
    for (let i = 0; i < 200; i++) t.equal(await socket.next(), `echo ${i}`);
  },
  async "a message sent before the answer arrives"(t) {
    const socket = await t.socket("/greet");
    t.equal(await socket.next(), "welcome");
  },
  async "the server closes with code and reason"(t) {
    const socket = await t.socket("/");
    socket.send("close");
    t.equal(await t.within(socket.closed, 5_000, "close"), {
      code: 4000,
      reason: "asked",
    });
  },
  async "the client closes with code and reason"(t) {
    const socket = await t.socket("/");
    t.equal((await socket.close(4002, "done")).code, 4002);
  },
  async "a subprotocol is agreed on"(t) {
    const socket = await t.socket("/", ["chat", "other"]);
    t.equal(socket.ws.protocol, "chat");
  },
  async "a plain request is not upgraded"(t) {
    t.equal((await t.fetch("/")).status, 426);
  },
  async "ping is answered"(t) {
    const socket = await t.socket("/");
    const pong = new Promise((resolve) => socket.ws.on("pong", resolve));
    socket.ws.ping("x");
    t.equal(String(await t.within(pong, 5_000, "pong")), "x");
  },
};
