import { equal, suite, throws } from "../support/check.js";

const next = (socket, type = "message") =>
  new Promise((resolve) =>
    socket.addEventListener(type, resolve, { once: true }),
  );

function pair() {
  const [a, b] = Object.values(new WebSocketPair());
  a.accept();
  b.accept();
  return [a, b];
}

export default suite({
  worker: {
    async "messages pass both ways"() {
      const [a, b] = pair();
      const atB = next(b);
      a.send("hi");
      equal((await atB).data, "hi");
      const atA = next(a);
      b.send("back");
      equal((await atA).data, "back");
    },
    async "binary arrives as a Blob, or as an ArrayBuffer when asked"() {
      const [a, b] = pair();
      equal(b.binaryType, "blob");
      let got = next(b);
      a.send(new Uint8Array([1, 2]));
      const { data } = await got;
      equal(
        [data instanceof Blob, new Uint8Array(await data.arrayBuffer())],
        [true, new Uint8Array([1, 2])],
      );
      b.binaryType = "arraybuffer";
      got = next(b);
      a.send(new Uint8Array([3]).buffer);
      equal((await got).data, new Uint8Array([3]).buffer);
    },
    async "messages sent before accept are kept"() {
      const [a, b] = Object.values(new WebSocketPair());
      a.accept();
      a.send("early");
      const got = next(b);
      b.accept();
      equal((await got).data, "early");
    },
    async "close tells code, reason and cleanliness"() {
      const [a, b] = pair();
      const closed = next(b, "close");
      a.close(4001, "why");
      const event = await closed;
      equal([event.code, event.reason, event.wasClean], [4001, "why", true]);
    },
    "bad close codes are refused"() {
      const [a] = pair();
      throws(() => a.close(999), {
        name: "InvalidAccessError",
        message: "Invalid WebSocket close code: 999.",
      });
      throws(() => a.close(1005), { name: "InvalidAccessError" });
      throws(() => a.close(3000, "x".repeat(124)), { name: "SyntaxError" });
    },
    "sending before accept is refused"() {
      const [a] = Object.values(new WebSocketPair());
      throws(() => a.send("x"), {
        name: "TypeError",
        message:
          "You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.",
      });
    },
    "sending after close is refused"() {
      const [a] = pair();
      a.close(1000);
      throws(() => a.send("x"), {
        name: "TypeError",
        message: "Can't call WebSocket send() after close().",
      });
    },
    "ready states"() {
      const [a] = Object.values(new WebSocketPair());
      const seen = [a.readyState];
      a.accept();
      seen.push(a.readyState);
      a.close();
      seen.push(a.readyState);
      equal(seen, [WebSocket.OPEN, WebSocket.OPEN, WebSocket.CLOSING]);
      equal(
        [WebSocket.READY_STATE_CONNECTING, WebSocket.READY_STATE_CLOSED],
        [0, 3],
      );
    },
    "status 101 wants a webSocket and the other way round"() {
      const [a] = Object.values(new WebSocketPair());
      equal(
        new Response(null, { status: 101, webSocket: a }).webSocket === a,
        true,
      );
      const [b] = Object.values(new WebSocketPair());
      throws(() => new Response(null, { status: 200, webSocket: b }), {
        name: "RangeError",
      });
    },
  },
});
