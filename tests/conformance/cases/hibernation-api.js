// config: {"objects": {"PROBE": "Probe"}}
import { equal, probe, suite, throws } from "../support/check.js";

const pair = () => Object.values(new WebSocketPair());

const object = {
  "accept and acceptWebSocket exclude each other"({ ctx }) {
    const [, a] = pair();
    a.accept();
    throws(() => ctx.acceptWebSocket(a), {
      name: "Error",
      message:
        "Cannot call `acceptWebSocket()` if the WebSocket was already accepted via `accept()`",
    });
    const [, b] = pair();
    ctx.acceptWebSocket(b);
    throws(() => b.accept(), {
      name: "TypeError",
      message: "Can't accept() WebSocket after enabling hibernation.",
    });
    throws(() => ctx.acceptWebSocket(b), { name: "Error" });
  },
  "tags have limits"({ ctx }) {
    const eleven = Array.from({ length: 11 }, (_, i) => `t${i}`);
    throws(() => ctx.acceptWebSocket(pair()[1], eleven), {
      name: "Error",
      message: "a Hibernatable WebSocket cannot have more than 10 tags",
    });
    throws(() => ctx.acceptWebSocket(pair()[1], ["x".repeat(257)]), {
      name: "Error",
      message: /is longer than the max tag length \(256 characters\)\.$/,
    });
    const [, ws] = pair();
    ctx.acceptWebSocket(ws, ["a", "a", "b"]);
    equal(ctx.getTags(ws).sort(), ["a", "b"]);
    equal(
      [ctx.getWebSockets("a").length, ctx.getWebSockets("none").length],
      [1, 0],
    );
  },
  "attachments have a limit and are copies"({ ctx }) {
    const [, ws] = pair();
    ctx.acceptWebSocket(ws);
    equal(ws.deserializeAttachment(), null);
    const value = { list: [1], date: new Date(1) };
    ws.serializeAttachment(value);
    value.list.push(2);
    equal(ws.deserializeAttachment(), { list: [1], date: new Date(1) });
    throws(() => ws.serializeAttachment("x".repeat(16_385)), {
      name: "Error",
      message:
        "A WebSocket 'attachment' cannot be larger than 16384 bytes.'attachment' was 16391 bytes.",
    });
  },
  "the auto-response can be read and removed"({ ctx }) {
    equal(ctx.getWebSocketAutoResponse(), null);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("a", "b"));
    const { request, response } = ctx.getWebSocketAutoResponse();
    equal([request, response], ["a", "b"]);
    ctx.setWebSocketAutoResponse();
    equal(ctx.getWebSocketAutoResponse(), null);
    throws(
      () =>
        ctx.setWebSocketAutoResponse(
          new WebSocketRequestResponsePair("x".repeat(2_049), "y"),
        ),
      {
        name: "RangeError",
        message:
          "Request cannot be larger than 2048 bytes. A request of size 2049 was provided.",
      },
    );
  },
  "the event timeout can be set and read"({ ctx }) {
    equal(ctx.getHibernatableWebSocketEventTimeout(), null);
    ctx.setHibernatableWebSocketEventTimeout(1_000);
    equal(ctx.getHibernatableWebSocketEventTimeout(), 1_000);
  },
  "getTags refuses a foreign socket"({ ctx }) {
    const [, ws] = pair();
    ws.accept();
    throws(() => ctx.getTags(ws), {
      name: "Error",
      message: "only hibernatable websockets can have tags.",
    });
  },
};

export class Probe extends probe(object) {
  webSocketMessage() {}
}
export default suite({ object });
