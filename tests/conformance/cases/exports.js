// config: {"objects": {"CELL": "Cell"}}
import { DurableObject, WorkerEntrypoint, exports } from "cloudflare:workers";
import { equal, suite } from "../support/check.js";

export class Cell extends DurableObject {
  async count() {
    const count = ((await this.ctx.storage.get("n")) ?? 0) + 1;
    await this.ctx.storage.put("n", count);
    return count;
  }
  ownExports() {
    return Object.keys(this.ctx.exports).sort();
  }
}

export class Greeter extends WorkerEntrypoint {
  greet(name) {
    return `hello ${name} ${this.ctx.props.mark ?? ""}`;
  }
}

export function helper() {}

export default suite({
  worker: {
    async "ctx.exports of a Durable Object class is its namespace"({
      ctx,
      env,
    }) {
      equal(await ctx.exports.Cell.getByName("shared").count(), 1);
      equal(await env.CELL.getByName("shared").count(), 2);
      equal(
        String(ctx.exports.Cell.idFromName("a")),
        String(env.CELL.idFromName("a")),
      );
    },
    async "exports can be imported"({ ctx }) {
      equal(await exports.Greeter.greet("you"), "hello you ");
      equal(
        await ctx.exports.Greeter({ props: { mark: "!" } }).greet("you"),
        "hello you !",
      );
    },
    async "objects have ctx.exports too"({ env }) {
      equal(
        (await env.CELL.getByName("x").ownExports()).includes("Greeter"),
        true,
      );
    },
  },
});
