import { equal, suite } from "../support/check.js";

class Custom extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = "Custom";
    this.code = 7;
  }
}

export default suite({
  worker: {
    "stacks name functions and files"() {
      function someFunction() {
        return new Error("x").stack;
      }
      const stack = someFunction();
      equal(
        [stack.startsWith("Error: x\n"), /at someFunction/.test(stack)],
        [true, true],
      );
    },
    "causes and aggregates"() {
      const error = new Custom("outer", { cause: new TypeError("inner") });
      equal(
        [error.name, error.code, error.cause.message, error instanceof Error],
        ["Custom", 7, "inner", true],
      );
      const all = new AggregateError([1, 2], "many");
      equal([all.errors, all.message], [[1, 2], "many"]);
    },
    async "Promise.any, allSettled and withResolvers"() {
      const any = await Promise.any([Promise.reject(1), Promise.resolve(2)]);
      const settled = await Promise.allSettled([
        1,
        Promise.reject(new Error("x")),
      ]);
      const { promise, resolve } = Promise.withResolvers();
      resolve(3);
      equal(
        [any, settled.map(({ status }) => status), await promise],
        [2, ["fulfilled", "rejected"], 3],
      );
    },
    "captureStackTrace and stackTraceLimit"() {
      const target = {};
      Error.captureStackTrace(target);
      equal(
        [typeof target.stack, typeof Error.stackTraceLimit],
        ["string", "number"],
      );
    },
    async "async stacks are joined"() {
      async function inner() {
        await null;
        throw new Error("deep");
      }
      async function outer() {
        await inner();
      }
      const stack = await outer().catch((error) => error.stack);
      equal(/at async outer/.test(stack), true, stack);
    },
    "modern JavaScript"() {
      equal(
        Object.groupBy([1, 2, 3], (n) => (n % 2 ? "odd" : "even")).odd,
        [1, 3],
      );
      equal([3, 1, 2].toSorted(), [1, 2, 3]);
      equal(new Set([1, 2]).union(new Set([3])).size, 3);
      equal([..."ab"].at(-1), "b");
      equal(
        [1, 2, 3]
          .values()
          .map((n) => n * 2)
          .toArray(),
        [2, 4, 6],
      );
      equal(new Uint8Array([255, 1]).toHex?.() ?? "ff01", "ff01");
      equal(/(?<year>\d+)/v.exec("in 2026").groups.year, "2026");
      equal(new Intl.NumberFormat("de").format(1234.5), "1.234,5");
    },
  },
});
