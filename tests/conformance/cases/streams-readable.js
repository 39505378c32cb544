import { equal, rejects, suite, throws } from "../support/check.js";

const utf8 = new TextEncoder();

function countTo(n, log = []) {
  let next = 0;
  return new ReadableStream(
    {
      pull(controller) {
        log.push(`pull ${next}`);
        controller.enqueue(next++);
        if (next === n) controller.close();
      },
      cancel(reason) {
        log.push(`cancel ${reason}`);
      },
    },
    { highWaterMark: 0 },
  );
}

async function all(stream) {
  const seen = [];
  for await (const chunk of stream) seen.push(chunk);
  return seen;
}

export default suite({
  worker: {
    async "pull is called once per read at high water mark 0"() {
      const log = [];
      const reader = countTo(3, log).getReader();
      equal(log, []);
      equal(await reader.read(), { done: false, value: 0 });
      equal(log, ["pull 0"]);
      await reader.cancel("enough");
      equal(log, ["pull 0", "cancel enough"]);
      equal(await reader.read(), { done: true, value: undefined });
    },
    async "tee gives both branches every chunk"() {
      const [a, b] = countTo(3).tee();
      equal(
        [await all(a), await all(b)],
        [
          [0, 1, 2],
          [0, 1, 2],
        ],
      );
    },
    async "an error reaches pending and later reads"() {
      const stream = new ReadableStream({
        pull() {
          throw new RangeError("no more");
        },
      });
      const reader = stream.getReader();
      await rejects(reader.read(), { name: "RangeError", message: "no more" });
      await rejects(reader.closed, { name: "RangeError" });
    },
    "a locked stream has one reader"() {
      const stream = countTo(1);
      stream.getReader();
      equal(stream.locked, true);
      throws(() => stream.getReader(), { name: "TypeError" });
    },
    async "releaseLock lets another reader in"() {
      const stream = countTo(2);
      const first = stream.getReader();
      await first.read();
      first.releaseLock();
      equal(await stream.getReader().read(), { done: false, value: 1 });
    },
    async "for await cancels at break unless told otherwise"() {
      const log = [];
      const stream = countTo(5, log);
      for await (const chunk of stream.values({ preventCancel: true })) {
        if (chunk === 1) break;
      }
      equal(log.at(-1), "pull 1");
      for await (const chunk of stream) if (chunk === 2) break;
      equal(log.at(-1), "cancel undefined");
    },
    async "ReadableStream.from takes iterables"() {
      equal(await all(ReadableStream.from(["a", "b"])), ["a", "b"]);
    },
    async "BYOB reads fill the given buffer"() {
      const reader = new Response("hello world").body.getReader({
        mode: "byob",
      });
      const { value, done } = await reader.read(new Uint8Array(5));
      equal([done, value], [false, utf8.encode("hello")]);
      const rest = await reader.readAtLeast(6, new Uint8Array(20));
      equal([rest.done, rest.value], [false, utf8.encode(" world")]);
      const end = await reader.read(new Uint8Array(1));
      equal([end.done, end.value.byteLength], [true, 0]);
    },
    async "a byte stream answers BYOB requests"() {
      const stream = new ReadableStream({
        type: "bytes",
        pull(controller) {
          const request = controller.byobRequest;
          if (!request) return controller.enqueue(utf8.encode("x"));
          request.view[0] = 65;
          request.respond(1);
        },
      });
      const reader = stream.getReader({ mode: "byob" });
      const { value } = await reader.read(new Uint8Array(4));
      equal(value, utf8.encode("A"));
      await reader.cancel();
    },
    async "read min waits for that many bytes"() {
      const stream = new ReadableStream({
        type: "bytes",
        start(controller) {
          for (const part of ["a", "b", "c", "d"])
            controller.enqueue(utf8.encode(part));
          controller.close();
        },
      });
      const reader = stream.getReader({ mode: "byob" });
      const { value } = await reader.read(new Uint8Array(4), { min: 3 });
      equal(value.byteLength >= 3, true);
    },
    "enqueue after close is a TypeError"() {
      let controller;
      new ReadableStream({ start: (c) => void (controller = c) });
      controller.close();
      throws(() => controller.enqueue(1), { name: "TypeError" });
    },
    "desiredSize falls with the queue"() {
      let controller;
      new ReadableStream(
        { start: (c) => void (controller = c) },
        { highWaterMark: 2 },
      );
      const sizes = [controller.desiredSize];
      controller.enqueue(1);
      sizes.push(controller.desiredSize);
      controller.enqueue(2);
      controller.enqueue(3);
      sizes.push(controller.desiredSize);
      equal(sizes, [2, 1, -1]);
    },
  },
});
