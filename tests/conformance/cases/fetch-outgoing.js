import { suite } from "../support/check.js";

const actions = {
  async get(base) {
    const response = await fetch(`${base}/hello?q=1`, {
      headers: { "x-a": "1" },
    });
    return [
      response.status,
      response.ok,
      response.url === `${base}/hello?q=1`,
      response.headers.get("x-method"),
      await response.json(),
    ];
  },
  async post(base) {
    const response = await fetch(`${base}/echo`, {
      method: "POST",
      body: "payload",
    });
    return [response.headers.get("x-length"), await response.text()];
  },
  async stream(base) {
    const { readable, writable } = new TransformStream();
    const writer = writable.getWriter();
    (async () => {
      await writer.write(new TextEncoder().encode("a"));
      await scheduler.wait(10);
      await writer.write(new TextEncoder().encode("b"));
      await writer.close();
    })();
    const response = await fetch(`${base}/echo`, {
      method: "POST",
      body: readable,
    });
    return [response.headers.get("x-encoding"), await response.text()];
  },
  async follow(base) {
    const response = await fetch(`${base}/redirect`);
    return [
      response.redirected,
      response.url === `${base}/hello`,
      response.status,
    ];
  },
  async manual(base) {
    const response = await fetch(`${base}/redirect`, { redirect: "manual" });
    return [
      response.status,
      response.headers.get("location"),
      response.redirected,
    ];
  },
  async redirectPost(base) {
    const response = await fetch(`${base}/redirect-303`, {
      method: "POST",
      body: "x",
    });
    return [response.status, response.headers.get("x-method")];
  },
  async loop(base) {
    return fetch(`${base}/loop`).then(
      () => "no error",
      (error) => [error.name, /redirect/i.test(error.message)],
    );
  },
  async refused() {
    return fetch("http://127.0.0.1:9/").then(
      () => "no error",
      (error) => error instanceof Error,
    );
  },
  async protocol() {
    return fetch("ftp://127.0.0.1/").then(
      () => "no error",
      (error) => [error.name, error.message],
    );
  },
  async gzip(base) {
    const response = await fetch(`${base}/gzip`);
    return [response.headers.get("content-encoding"), await response.text()];
  },
  async abort(base) {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 30);
    return fetch(`${base}/never`, { signal: controller.signal }).then(
      () => "no error",
      (error) => error.name,
    );
  },
  async cookies(base) {
    return (await fetch(`${base}/cookies`)).headers.getSetCookie();
  },
  async pass(base) {
    return fetch(`${base}/echo`, { method: "POST", body: "passed through" });
  },
  async agent(base) {
    return (await (await fetch(`${base}/hello`)).json()).agent ?? null;
  },
  async head(base) {
    const response = await fetch(`${base}/hello`, { method: "HEAD" });
    return [
      response.status,
      response.body === null || (await response.text()) === "",
    ];
  },
  async request(base) {
    const request = new Request(`${base}/echo`, { method: "PUT", body: "req" });
    return (await fetch(request)).text();
  },
  async many(base) {
    const all = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        fetch(`${base}/hello?q=${i}`).then((r) => r.json()),
      ),
    );
    return all.map(({ q }) => q).join(",");
  },
};

export default suite({
  async fallback(request) {
    const url = new URL(request.url);
    const result = await actions[url.pathname.slice(1)](
      url.searchParams.get("base"),
    );
    return result instanceof Response ? result : Response.json(result);
  },
});
