import found from "./found.cjs";

export default { fetch: () => Response.json(found) };
