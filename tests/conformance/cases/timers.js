import { equal, suite } from "../support/check.js";

export default suite({
  worker: {
    async "timeouts run in order of their time"() {
      const seen = [];
      await new Promise((resolve) => {
        setTimeout(() => seen.push("b"), 20);
        setTimeout((x) => seen.push(x), 5, "a");
        setTimeout(resolve, 30);
      });
      equal(seen, ["a", "b"]);
    },
    async "microtasks run before timers"() {
      const seen = [];
      await new Promise((resolve) => {
        setTimeout(() => {
          seen.push("timer");
          resolve();
        }, 0);
        queueMicrotask(() => seen.push("microtask"));
        Promise.resolve().then(() => seen.push("promise"));
        seen.push("sync");
      });
      equal(seen, ["sync", "microtask", "promise", "timer"]);
    },
    async "clearTimeout and clearInterval stop timers"() {
      let count = 0;
      const dead = setTimeout(() => (count += 100), 5);
      clearTimeout(dead);
      await new Promise((resolve) => {
        const interval = setInterval(() => {
          if (++count === 3) {
            clearInterval(interval);
            setTimeout(resolve, 20);
          }
        }, 2);
      });
      equal(count, 3);
      clearTimeout(undefined);
      clearTimeout(123_456_789);
    },
    async "scheduler.wait resolves"() {
      const began = Date.now();
      await scheduler.wait(20);
      equal(Date.now() - began >= 15, true);
    },
    async "setImmediate exists and runs"() {
      await new Promise((resolve) => setImmediate(resolve));
    },
  },
});
