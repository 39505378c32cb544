// config: {"vars": {"TEXT": "t"}}
import { env, withEnv } from "cloudflare:workers";
import { equal, suite } from "../support/check.js";

export default suite({
  worker: {
    async "withEnv replaces the imported env in its callback"() {
      const inside = await withEnv({ TEXT: "other" }, async () => {
        await Promise.resolve();
        return env.TEXT;
      });
      equal([inside, env.TEXT], ["other", "t"]);
    },
  },
});
