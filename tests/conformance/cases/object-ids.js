// config: {"objects": {"PROBE": "Probe", "OTHER": "Other"}}
import { DurableObject } from "cloudflare:workers";
import { equal, probe, suite, throws } from "../support/check.js";

const object = {
  "ctx.id carries the name"({ ctx }) {
    equal(
      [ctx.id.name, ctx.id.toString().length],
      ["check: ctx.id carries the name", 64],
    );
  },
};

export class Probe extends probe(object) {}
export class Other extends DurableObject {
  who() {
    return [String(this.ctx.id), this.ctx.id.name];
  }
}

export default suite({
  object,
  worker: {
    "idFromName is a fixed function of the namespace and the name"({ env }) {
      equal(
        String(env.PROBE.idFromName("a")),
        "90127317e781bc49af2d9096481d0e66dc155bed9351a77d5ad15735a3d890c8",
      );
      equal(
        String(env.PROBE.idFromName("")),
        "80c5847decd9d8e188ebabb78e915ad55b399b520360ea2f599fed6dc1774194",
      );
      equal(
        String(env.OTHER.idFromName("a")),
        "219227db60f170a3098986c31572d9ca761acbe310a41ad5897db84b7b742b23",
      );
    },
    "equal names give equal ids"({ env }) {
      const [a, b, c] = ["x", "x", "y"].map((name) =>
        env.PROBE.idFromName(name),
      );
      equal(
        [a.equals(b), a.equals(c), a.name, a === b],
        [true, false, "x", false],
      );
    },
    "newUniqueId gives new ids without a name"({ env }) {
      const [a, b] = [env.PROBE.newUniqueId(), env.PROBE.newUniqueId()];
      equal(
        [a.equals(b), a.name, /^[0-9a-f]{64}$/.test(String(a))],
        [false, undefined, true],
      );
    },
    "idFromString takes ids of the same namespace, in either case"({ env }) {
      const named = env.PROBE.idFromName("a");
      const back = env.PROBE.idFromString(named.toString());
      equal([back.equals(named), back.name], [true, undefined]);
      const upper = String(named).toUpperCase();
      equal(String(env.PROBE.idFromString(upper)), String(named));
      const unique = env.PROBE.newUniqueId();
      equal(env.PROBE.idFromString(String(unique)).equals(unique), true);
    },
    "idFromString refuses anything else"({ env }) {
      throws(() => env.PROBE.idFromString("abc"), {
        name: "TypeError",
        message: "Invalid Durable Object ID: must be 64 hex digits",
      });
      throws(() => env.PROBE.idFromString("g".repeat(64)), {
        name: "TypeError",
        message: "Invalid Durable Object ID: must be 64 hex digits",
      });
      throws(() => env.PROBE.idFromString("0".repeat(64)), {
        name: "TypeError",
        message: "Durable Object ID is not valid for this namespace.",
      });
      throws(() => env.PROBE.idFromString(String(env.OTHER.idFromName("a"))), {
        name: "TypeError",
        message: "Durable Object ID is not valid for this namespace.",
      });
    },
    "get refuses what is not an id"({ env }) {
      throws(() => env.PROBE.get("a"), { name: "TypeError" });
    },
    "a stub has its id and name"({ env }) {
      const stub = env.PROBE.get(env.PROBE.idFromName("n"));
      equal(
        [stub.name, stub.id.equals(env.PROBE.idFromName("n"))],
        ["n", true],
      );
      equal(env.PROBE.getByName("n").id.name, "n");
      equal(env.PROBE.get(env.PROBE.newUniqueId()).name, undefined);
    },
    async "an object reached by its id from a string knows its name only when given"({
      env,
    }) {
      const id = env.OTHER.idFromName("given");
      equal(await env.OTHER.get(id).who(), [String(id), "given"]);
      const unique = env.OTHER.newUniqueId();
      equal(await env.OTHER.get(unique).who(), [String(unique), undefined]);
    },
    "a location hint is taken"({ env }) {
      env.PROBE.getByName("hinted", { locationHint: "weur" });
      env.PROBE.get(env.PROBE.idFromName("h"), { locationHint: "enam" });
    },
  },
});
