import { equal, rejects, suite } from "../support/check.js";

const utf8 = new TextEncoder();

export default suite({
  worker: {
    async "TransformStream maps chunks and flushes"() {
      const upper = new TransformStream({
        transform: (chunk, controller) =>
          controller.enqueue(chunk.toUpperCase()),
        flush: (controller) => controller.enqueue("!"),
      });
      let all = "";
      for await (const part of ReadableStream.from(["a", "b"]).pipeThrough(
        upper,
      ))
        all += part;
      equal(all, "AB!");
    },
    async "IdentityTransformStream takes bytes only"() {
      const { readable, writable } = new IdentityTransformStream();
      const writer = writable.getWriter();
      writer.write(utf8.encode("ab")).then(() => writer.close());
      equal(await new Response(readable).text(), "ab");
      const other = new IdentityTransformStream();
      other.readable
        .getReader()
        .read()
        .catch(() => {});
      await rejects(other.writable.getWriter().write(5), { name: "TypeError" });
    },
    async "a write to IdentityTransformStream ends when it is read"() {
      const { readable, writable } = new IdentityTransformStream();
      const writer = writable.getWriter();
      let written = false;
      const write = writer
        .write(utf8.encode("ab"))
        .then(() => (written = true));
      await new Promise((resolve) => setTimeout(resolve, 5));
      equal(written, false);
      await readable.getReader().read();
      await write;
      equal(written, true);
    },
    async "FixedLengthStream refuses too much"() {
      const { readable, writable } = new FixedLengthStream(3);
      const writer = writable.getWriter();
      writer.write(utf8.encode("abcd")).catch(() => {});
      writer.closed.catch(() => {});
      await rejects(new Response(readable).text(), {
        name: "TypeError",
        message: "Attempt to write too many bytes through a FixedLengthStream.",
      });
    },
    async "FixedLengthStream refuses too little"() {
      const { readable, writable } = new FixedLengthStream(3);
      const writer = writable.getWriter();
      writer
        .write(utf8.encode("ab"))
        .then(() => writer.close())
        .catch(() => {});
      writer.closed.catch(() => {});
      await rejects(new Response(readable).text(), {
        name: "TypeError",
        message:
          "FixedLengthStream did not see all expected bytes before close().",
      });
    },
    async "pipeTo closes, aborts and cancels"() {
      const log = [];
      const sink = () =>
        new WritableStream({
          write: (chunk) => void log.push(`write ${chunk}`),
          close: () => void log.push("close"),
          abort: (reason) => void log.push(`abort ${reason.message}`),
        });
      await ReadableStream.from([1, 2]).pipeTo(sink());
      const failing = new ReadableStream({
        pull: (c) => c.error(new Error("src")),
      });
      await rejects(failing.pipeTo(sink()), { message: "src" });
      let cancelled;
      const source = new ReadableStream({
        pull: (c) => c.enqueue(1),
        cancel: (reason) => void (cancelled = reason.message),
      });
      const broken = new WritableStream({
        write() {
          throw new Error("dst");
        },
      });
      await rejects(source.pipeTo(broken), { message: "dst" });
      equal(
        [log, cancelled],
        [["write 1", "write 2", "close", "abort src"], "dst"],
      );
    },
    async "pipeTo stops at an abort signal"() {
      const controller = new AbortController();
      const source = new ReadableStream({
        pull(c) {
          c.enqueue(1);
          return new Promise((resolve) => setTimeout(resolve, 5));
        },
      });
      const piping = source.pipeTo(new WritableStream(), {
        signal: controller.signal,
      });
      setTimeout(() => controller.abort(new Error("stop")), 15);
      await rejects(piping, { message: "stop" });
    },
    async "writer.ready waits for the queue to drain"() {
      let release;
      const stream = new WritableStream(
        { write: () => new Promise((resolve) => (release = resolve)) },
        { highWaterMark: 1 },
      );
      const writer = stream.getWriter();
      equal(writer.desiredSize, 1);
      writer.write("a");
      equal(writer.desiredSize, 0);
      let ready = false;
      const waiting = writer.ready.then(() => (ready = true));
      await Promise.resolve();
      equal(ready, false);
      await new Promise((resolve) => setTimeout(resolve, 1));
      release();
      await waiting;
      equal(writer.desiredSize, 1);
    },
    async "back-pressure holds a source of a TransformStream"() {
      let pulled = 0;
      const source = new ReadableStream(
        { pull: (c) => c.enqueue(pulled++) },
        { highWaterMark: 0 },
      );
      source.pipeThrough(new TransformStream());
      await new Promise((resolve) => setTimeout(resolve, 20));
      equal(pulled <= 3, true, `pulled ${pulled}`);
    },
  },
});
