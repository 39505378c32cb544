// The project templates that the npm package create-cloudflare ships, and what each must answer.

const hello = {
  async "says hello"(t) {
    t.equal(await t.text("/any/path"), "Hello World!");
  },
};

const object = {
  async "a Durable Object says hello"(t) {
    t.equal(await t.text("/"), "Hello, world!");
  },
};

const scheduled = {
  async "explains how to test it"(t) {
    t.match(await t.text("/"), /test the scheduled handler/);
  },
};

const common = {
  async "shows its routes"(t) {
    const response = await t.fetch("/");
    t.equal(response.headers.get("content-type"), "text/html");
    t.match(await response.text(), /\/api\/todos/);
  },
  async redirects(t) {
    const response = await t.fetch("/redirect");
    t.equal(
      [response.status, response.headers.get("location")],
      [302, "https://example.com/"],
    );
  },
  async "routes to its API"(t) {
    t.equal(await t.text("/api/todos"), "Todos Index!");
    t.equal(await t.text("/api/todos/7"), "Todo #7");
    const init = { method: "POST", body: '{"a":1}' };
    t.equal(await t.text("/api/todos", init), 'Creating Todo: {"a":1}');
    t.equal((await t.fetch("/api/none")).status, 404);
  },
};

const openapi = {
  async "shows its documentation"(t) {
    t.match(await t.text("/"), /<html|<!doctype/i);
    const { paths } = await t.json("/openapi.json");
    t.equal(Object.keys(paths), ["/api/tasks", "/api/tasks/{taskSlug}"]);
  },
  async "lists and shows tasks"(t) {
    const { tasks } = await t.json("/api/tasks?page=0");
    t.equal(tasks.length, 2);
    t.equal((await t.json("/api/tasks/x")).task.slug, "x");
  },
  async "creates a task and refuses a bad one"(t) {
    const post = (body) =>
      t.fetch("/api/tasks", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    const task = { name: "n", slug: "s", due_date: "2026-01-02" };
    const made = await post(task);
    t.equal([made.status, (await made.json()).task.slug], [201, "s"]);
    t.equal((await post({ name: 5 })).status, 400);
  },
};

const hono = {
  async "serves the page from its static assets"(t) {
    const response = await t.fetch("/");
    t.equal(response.headers.get("content-type"), "text/html; charset=utf-8");
    t.match(await response.text(), /<title>Hello, World!<\/title>/);
    const etag = response.headers.get("etag");
    const again = await t.fetch("/", { headers: { "if-none-match": etag } });
    t.equal(again.status, 304);
  },
  async "redirects to the page's one address"(t) {
    const response = await t.fetch("/index.html");
    t.equal([response.status, response.headers.get("location")], [307, "/"]);
  },
  async "answers other paths by the Worker"(t) {
    t.equal(await t.text("/message"), "Hello Hono!");
    t.equal((await t.fetch("/none")).status, 404);
    t.equal((await t.fetch("/", { method: "POST" })).status, 404);
  },
};

/** Path below `templates/` and checks. */
export const templates = [
  ["hello-world/js", hello],
  ["hello-world/ts", hello],
  ["hello-world-durable-object/js", object],
  ["hello-world-durable-object/ts", object],
  ["scheduled/js", scheduled],
  ["scheduled/ts", scheduled],
  ["common/js", common],
  ["common/ts", common],
  ["openapi/ts", openapi],
  ["hono/workers/templates", hono],
];
