import { AutoRouter, cors, error, withParams } from "itty-router";

const { preflight, corsify } = cors({ origin: "*" });
const router = AutoRouter({
  before: [preflight, withParams],
  finally: [corsify],
});

router
  .get("/items/:id", ({ id, query }) => ({ id, query }))
  .post("/items", async (request) => ({ got: await request.json() }))
  .get("/fails", () => error(418, "short and stout"))
  .get("/throws", () => {
    throw new Error("unexpected");
  });

export default { fetch: router.fetch };
