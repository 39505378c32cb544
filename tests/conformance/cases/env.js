// config: {"vars": {"TEXT": "t", "OBJECT": {"a": [1, null]}, "NUMBER": 5, "YES": true}, "objects": {"PROBE": "Probe"}}
import {
  env as imported,
  WorkerEntrypoint,
  DurableObject,
  RpcTarget,
} from "cloudflare:workers";
import { equal, probe, suite, throws } from "../support/check.js";

const atModuleScope = imported.TEXT;

const object = {
  "a Durable Object sees the same env"({ env, self }) {
    equal(
      [env.TEXT, self.env === env, env.PROBE.constructor.name],
      ["t", true, "DurableObjectNamespace"],
    );
  },
};

export class Probe extends probe(object) {}

export default suite({
  object,
  worker: {
    "variables keep their JSON types"({ env }) {
      equal(
        [env.TEXT, env.OBJECT, env.NUMBER, env.YES],
        ["t", { a: [1, null] }, 5, true],
      );
    },
    "env can be imported, and read at module scope"({ env }) {
      equal(
        [atModuleScope, imported.OBJECT, imported.TEXT],
        ["t", { a: [1, null] }, env.TEXT],
      );
    },
    "an absent binding is undefined"({ env }) {
      equal([env.NONE, "NONE" in env], [undefined, false]);
    },
    "names of the bindings"({ env }) {
      equal(Object.keys(env).sort(), [
        "NUMBER",
        "OBJECT",
        "PROBE",
        "TEXT",
        "YES",
      ]);
    },
    "the classes of cloudflare:workers are classes"() {
      equal(
        [WorkerEntrypoint, DurableObject, RpcTarget].map((c) => typeof c),
        ["function", "function", "function"],
      );
    },
    "a DurableObject cannot be made by hand"() {
      throws(() => new RpcTarget.constructor.constructor("x"), {
        name: "EvalError",
      });
    },
  },
});
