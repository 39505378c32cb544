// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

export class Cell extends DurableObject {
  count = 0;
  async fetch(request) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/echo":
        return new Response(request.body, {
          status: 201,
          headers: {
            "x-method": request.method,
            "x-a": request.headers.get("x-a") ?? "",
          },
        });
      case "/count":
        return new Response(String(++this.count));
      case "/throw":
        throw new RangeError("in fetch");
      case "/url":
        return new Response(request.url);
      case "/stream":
        return new Response(
          ReadableStream.from([new Uint8Array([1]), new Uint8Array([2])]),
        );
      case "/nothing":
        return undefined;
      case "/redirect":
        return new Response(null, {
          status: 302,
          headers: { location: "/url" },
        });
    }
  }
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());

export default suite({
  worker: {
    async "request and response pass with bodies and headers"({ env }) {
      const response = await fresh(env).fetch("http://x/echo", {
        method: "PUT",
        body: "body",
        headers: { "x-a": "1" },
      });
      equal(
        [
          response.status,
          response.headers.get("x-method"),
          response.headers.get("x-a"),
          await response.text(),
        ],
        [201, "PUT", "1", "body"],
      );
    },
    async "a Request object passes"({ env }) {
      const request = new Request("http://host/url?q#h", {
        headers: { a: "1" },
      });
      equal(
        await (await fresh(env).fetch(request)).text(),
        "http://host/url?q",
      );
    },
    async "memory is kept between requests"({ env }) {
      const stub = fresh(env);
      equal(
        [
          await (await stub.fetch("http://x/count")).text(),
          await (await stub.fetch("http://x/count")).text(),
        ],
        ["1", "2"],
      );
    },
    async "an exception reaches the caller and does not reset the object"({
      env,
    }) {
      const stub = fresh(env);
      await stub.fetch("http://x/count");
      await rejects(stub.fetch("http://x/throw"), {
        name: "RangeError",
        message: "in fetch",
        remote: true,
      });
      equal(await (await stub.fetch("http://x/count")).text(), "2");
    },
    async "a relative URL is refused"({ env }) {
      await rejects(async () => fresh(env).fetch("/count"), {
        name: "TypeError",
        message: "Invalid URL: /count",
      });
    },
    async "no Response is an error"({ env }) {
      await rejects(fresh(env).fetch("http://x/nothing"), {
        name: "TypeError",
      });
    },
    async "streams pass"({ env }) {
      equal(
        await (await fresh(env).fetch("http://x/stream")).bytes(),
        new Uint8Array([1, 2]),
      );
    },
    async "redirects are followed to the object"({ env }) {
      const response = await fresh(env).fetch("http://x/redirect");
      equal(
        [response.status, response.redirected, await response.text()],
        [200, true, "http://x/url"],
      );
    },
    async "requests of one stub arrive in order"({ env }) {
      const stub = fresh(env);
      const all = await Promise.all(
        Array.from({ length: 20 }, () =>
          stub.fetch("http://x/count").then((r) => r.text()),
        ),
      );
      equal(
        all,
        Array.from({ length: 20 }, (_, i) => String(i + 1)),
      );
    },
  },
});
