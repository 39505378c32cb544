import { Hono } from "hono";
import { basicAuth } from "hono/basic-auth";
import { cors } from "hono/cors";
import { etag } from "hono/etag";
import { HTTPException } from "hono/http-exception";
import { logger } from "hono/logger";
import { secureHeaders } from "hono/secure-headers";
import { streamText } from "hono/streaming";
import { Page } from "./page";

type Env = { Bindings: { GREETING: string }; Variables: { began: number } };

const app = new Hono<Env>();

app.use(logger());
app.use(secureHeaders());
app.use(async (c, next) => {
  c.set("began", Date.now());
  await next();
  c.header("x-middleware", typeof c.get("began"));
});
app.use("/api/*", cors({ origin: "https://app.example" }));
app.use("/cached", etag());
app.use("/admin/*", basicAuth({ username: "admin", password: "secret" }));

app.get("/", (c) =>
  c.html(
    <Page title="Start">
      <p>
        {c.env.GREETING} & {"<welcome>"}
      </p>
    </Page>,
  ),
);
app.get("/api/items/:id{[0-9]+}", (c) =>
  c.json({ id: Number(c.req.param("id")), q: c.req.query("q") ?? null }),
);
app.post("/api/items", async (c) => {
  const body = await c.req.json<{ name: string }>();
  return c.json({ created: body.name }, 201);
});
app.post("/form", async (c) => {
  const form = await c.req.parseBody();
  const file = form["file"];
  return c.json({
    text: form["text"],
    file: file instanceof File ? [file.name, await file.text()] : null,
  });
});
app.get("/cached", (c) => c.text("the same"));
app.get("/admin/area", (c) => c.text("inside"));
app.get("/stream", (c) =>
  streamText(c, async (stream) => {
    for (const part of ["a", "b", "c"]) {
      await stream.write(part);
      await stream.sleep(5);
    }
  }),
);
app.get("/throws", () => {
  throw new Error("thrown in a handler");
});
app.onError((error, c) =>
  error instanceof HTTPException
    ? error.getResponse()
    : c.text(`handled: ${error.message}`, 500),
);
app.notFound((c) => c.text("nothing here", 404));

export default app;
