// Closing handshakes between two ends in one Worker, whatever the compatibility date.
import { fresh, lines, next, outcome, pair, tick } from "./websocket.js";

/** Observations by name; the cases hold what each date makes of them. */
export const closings = {
  async "states through a close"() {
    const [a, b] = pair();
    const seen = [];
    const note = (what) => seen.push(`${what} ${a.readyState} ${b.readyState}`);
    note("open");
    a.addEventListener("close", () => note("close at a"));
    b.addEventListener("close", () => note("close at b"));
    a.close(1000, "x");
    note("closed by a");
    await tick(400);
    note("later");
    b.close(1000, "y");
    note("closed by b");
    await tick(400);
    note("end");
    return seen;
  },
  async "the answer to a close"() {
    const [a, b] = pair();
    const seen = [];
    a.addEventListener("close", ({ code, reason, wasClean }) =>
      seen.push(`a ${code} ${reason} ${wasClean}`),
    );
    b.addEventListener("close", ({ code, reason, wasClean }) => {
      seen.push(`b ${code} ${reason} ${wasClean} ${b.readyState}`);
      seen.push(outcome(() => b.send("more")));
      seen.push(outcome(() => b.close(4002, "answer")));
    });
    a.close(4001, "first");
    await tick(400);
    return [...seen, a.readyState, b.readyState];
  },
  async "both ends close at once"() {
    const [a, b] = pair();
    const seen = [];
    for (const [name, socket] of Object.entries({ a, b })) {
      socket.addEventListener("close", ({ code, reason, wasClean }) =>
        seen.push(`${name} ${code} ${reason} ${wasClean}`),
      );
    }
    a.close(4001, "from a");
    b.close(4002, "from b");
    await tick(400);
    return [...seen.sort(), a.readyState, b.readyState];
  },
  async "messages behind a close that is unanswered"() {
    const [a, b] = pair();
    const seen = [];
    a.addEventListener("message", ({ data }) => seen.push(data));
    a.addEventListener("close", ({ code }) => seen.push(code));
    b.addEventListener("close", () => {
      seen.push(outcome(() => b.send("still here")));
    });
    a.close(4001);
    await tick(400);
    return seen;
  },
  async "an end that allows half open"() {
    const [a, b] = fresh();
    a.accept({ allowHalfOpen: true });
    b.accept({ allowHalfOpen: true });
    const seen = [];
    a.addEventListener("message", ({ data }) => seen.push(data));
    a.addEventListener("close", ({ code }) => seen.push(`a ${code}`));
    b.addEventListener("close", ({ code }) => {
      seen.push(`b ${code} ${b.readyState}`);
      seen.push(outcome(() => b.send("still here")));
    });
    a.close(4001);
    await tick(400);
    seen.push(`${a.readyState} ${b.readyState}`);
    seen.push(outcome(() => b.close(4002)));
    await tick(400);
    seen.push(`${a.readyState} ${b.readyState}`);
    return seen;
  },
  async "long reasons"() {
    const seen = {};
    for (const length of [123, 124, 200]) {
      const [a, b] = pair();
      const closed = next(b, "close");
      seen[length] = outcome(() => a.close(4000, "x".repeat(length)));
      if (seen[length] !== "ok") continue;
      seen[length] = (await closed).reason.length;
    }
    return lines(seen);
  },
  async "binary messages"() {
    const [a, b] = pair();
    const seen = [b.binaryType];
    const got = next(b);
    a.send(new Uint8Array([1]));
    seen.push((await got).data.constructor.name);
    return seen;
  },
};

/** Checks that hold each observation against its expectation. */
export const checks = (equal, expected) =>
  Object.fromEntries(
    Object.entries(closings).map(([name, observe]) => [
      name,
      async () => equal(await observe(), expected[name]),
    ]),
  );
