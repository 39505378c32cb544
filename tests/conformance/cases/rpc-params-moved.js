// config: {"date": "2025-12-01", "services": [{"binding": "NAMED", "entrypoint": "Named"}]}
// Before rpc_params_dup_stubs (2026-01-20) and enhanced_error_serialization (2026-04-21).
import { RpcStub, RpcTarget, WorkerEntrypoint } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

const gone = new Set();

class Resource extends RpcTarget {
  constructor(name) {
    super();
    this.name = name;
  }
  use() {
    return "used";
  }
  [Symbol.dispose]() {
    gone.add(this.name);
  }
}

export class Named extends WorkerEntrypoint {
  open(name) {
    return new Resource(name);
  }
  use(resource) {
    return resource.use();
  }
  fails() {
    throw Object.assign(new TypeError("bad"), { extra: 1 });
  }
  error() {
    return Object.assign(new RangeError("value"), { extra: 1 });
  }
}

const disposed = { message: "RPC stub used after being disposed." };

export default suite({
  worker: {
    async "a stub that is passed is the callee's from then on"({ env }) {
      const resource = await env.NAMED.open("a");
      equal(await env.NAMED.use(resource), "used");
      await rejects(async () => await resource.use(), disposed);
    },
    async "a duplicate is passed to keep the stub"({ env }) {
      using resource = await env.NAMED.open("b");
      equal(await env.NAMED.use(resource.dup()), "used");
      equal(await resource.use(), "used");
    },
    async "a local target goes with the call"({ env }) {
      const stub = new RpcStub(new Resource("local"));
      equal(await env.NAMED.use(stub), "used");
      for (let i = 0; i < 200 && !gone.has("local"); i++)
        await scheduler.wait(5);
      equal(gone.has("local"), true);
      await rejects(async () => await stub.use(), disposed);
    },
    async "errors lose their own properties"({ env }) {
      await rejects(async () => env.NAMED.fails(), {
        name: "TypeError",
        message: "bad",
        extra: undefined,
        remote: true,
      });
      const error = await env.NAMED.error();
      equal(
        [error instanceof RangeError, error.message, error.extra],
        [true, "value", undefined],
      );
    },
  },
});
