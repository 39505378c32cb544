// config: {"date": "2026-08-03", "starts": "No such module \"node:path\""}
import { join } from "node:path";

export default { fetch: () => new Response(join("a", "b")) };
