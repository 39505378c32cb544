// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

export class Cell extends DurableObject {
  size(value) {
    return value.length ?? value.byteLength;
  }
  make(length) {
    return new Uint8Array(length);
  }
  nest(depth) {
    let value = "core";
    for (let i = 0; i < depth; i++) value = { value };
    return value;
  }
}

const stub = (env) => env.CELL.getByName("x");

export default suite({
  worker: {
    async "megabytes pass in both directions"({ env }) {
      equal(await stub(env).size("x".repeat(3_000_000)), 3_000_000);
      equal((await stub(env).make(3_000_000)).byteLength, 3_000_000);
    },
    async "more than 32 MiB are refused"({ env }) {
      await rejects(async () => stub(env).size(new Uint8Array(33 << 20)), {
        message: /limited to 32MiB/,
      });
      await rejects(async () => stub(env).make(33 << 20), {
        message: /limited to 32MiB/,
      });
    },
    async "deep values pass"({ env }) {
      let value = await stub(env).nest(500);
      let depth = 0;
      while (typeof value === "object") {
        value = value.value;
        depth++;
      }
      equal([value, depth], ["core", 500]);
    },
    async "many calls at once all end"({ env }) {
      const all = await Promise.all(
        Array.from({ length: 200 }, (_, i) => stub(env).size("x".repeat(i))),
      );
      equal(
        all,
        Array.from({ length: 200 }, (_, i) => i),
      );
    },
  },
});
