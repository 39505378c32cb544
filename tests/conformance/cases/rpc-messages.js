// config: {"objects": {"CELL": "Cell"}, "services": [{"binding": "NAMED", "entrypoint": "Named"}]}
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

const slowly = (text) =>
  new ReadableStream({
    type: "bytes",
    async pull(controller) {
      await scheduler.wait(1);
      this.left ??= [...text];
      controller.enqueue(new TextEncoder().encode(this.left.shift()));
      if (this.left.length === 0) controller.close();
    },
  });

const methods = {
  response: () =>
    new Response("body", {
      status: 201,
      headers: [
        ["a", "b"],
        ["c", "d"],
      ],
    }),
  empty: () => new Response(null, { status: 204, headers: { x: "y" } }),
  streaming: () => new Response(slowly("abc"), { status: 203 }),
  json: () => Response.json({ a: [1] }),
  request: () =>
    new Request("http://h/p?q=1", {
      method: "POST",
      body: "sent",
      headers: { q: "1" },
    }),
  headers: () =>
    new Headers([
      ["a", "1"],
      ["set-cookie", "x=1"],
      ["set-cookie", "y=2"],
    ]),
  blob: () => new Blob(["bl", "ob"], { type: "text/plain" }),
  socket: () =>
    new Response(null, { status: 101, webSocket: new WebSocketPair()[0] }),
  async readRequest(request) {
    const { method, url, headers } = request;
    return [
      request instanceof Request,
      method,
      url,
      headers.get("q"),
      await request.text(),
    ];
  },
  async readResponse(response) {
    const { status, statusText, headers } = response;
    return [
      response instanceof Response,
      status,
      statusText,
      headers.get("a"),
      await response.text(),
    ];
  },
  readHeaders: (headers) => [headers instanceof Headers, ...headers],
  readBlob: async (blob) => [blob.size, blob.type, await blob.text()],
  stub: (stub) => stub.add(1, 2),
  async fetchStub(stub) {
    return (await stub.fetch("http://x/path")).text();
  },
  add: (a, b) => a + b,
};

export class Named extends WorkerEntrypoint {
  cell(name) {
    return this.env.CELL.getByName(name);
  }
  named() {
    return this.env.NAMED;
  }
}
export class Cell extends DurableObject {}
for (const [name, method] of Object.entries(methods)) {
  for (const type of [Named, Cell]) type.prototype[name] = method;
}
Named.prototype.fetch = Cell.prototype.fetch = (request) =>
  new Response(`fetched ${new URL(request.url).pathname}`);

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());
const both = (env) => [env.NAMED, fresh(env)];
const unserializable = (type) => ({
  name: "DataCloneError",
  message: `Could not serialize object of type "${type}". This type does not support serialization.`,
});

export default suite({
  worker: {
    async "a response is returned"({ env }) {
      for (const callee of both(env)) {
        const response = await callee.response();
        const { status, statusText, url, ok, headers } = response;
        equal([status, statusText, url, ok], [201, "", "", true]);
        equal([headers.get("a"), headers.get("c")], ["b", "d"]);
        equal(await response.text(), "body");
      }
    },
    async "a response without a body, and one of JSON"({ env }) {
      for (const callee of both(env)) {
        const empty = await callee.empty();
        equal(
          [empty.status, empty.body, empty.headers.get("x")],
          [204, null, "y"],
        );
        const json = await callee.json();
        equal(json.headers.get("content-type"), "application/json");
        equal(await json.json(), { a: [1] });
      }
    },
    async "a response streams its body"({ env }) {
      for (const callee of both(env)) {
        const response = await callee.streaming();
        equal([response.status, await response.text()], [203, "abc"]);
      }
    },
    async "a response's headers can be changed"({ env }) {
      const response = await env.NAMED.response();
      response.headers.set("z", "1");
      equal(response.headers.get("z"), "1");
    },
    async "a response is passed"({ env }) {
      for (const callee of both(env)) {
        const whole = new Response("w", {
          status: 418,
          statusText: "Tea",
          headers: { a: "1" },
        });
        equal(
          [...(await callee.readResponse(whole))],
          [true, 418, "Tea", "1", "w"],
        );
        const streaming = new Response(slowly("xyz"));
        equal(
          [...(await callee.readResponse(streaming))],
          [true, 200, "", null, "xyz"],
        );
      }
    },
    async "a request is returned"({ env }) {
      for (const callee of both(env)) {
        const request = await callee.request();
        equal(
          [
            request.method,
            request.url,
            request.headers.get("q"),
            request.redirect,
          ],
          ["POST", "http://h/p?q=1", "1", "follow"],
        );
        equal(await request.text(), "sent");
        request.headers.set("z", "1");
      }
    },
    async "a request is passed"({ env }) {
      for (const callee of both(env)) {
        const put = new Request("http://a/b", {
          method: "PUT",
          body: "B",
          headers: { q: "7" },
        });
        equal(
          [...(await callee.readRequest(put))],
          [true, "PUT", "http://a/b", "7", "B"],
        );
        const get = new Request("http://a/c");
        equal(
          [...(await callee.readRequest(get))],
          [true, "GET", "http://a/c", null, ""],
        );
        const post = new Request("http://a/", {
          method: "POST",
          body: slowly("pq"),
        });
        equal((await callee.readRequest(post))[4], "pq");
      }
    },
    async "a body that was read does not pass"({ env }) {
      const response = new Response("x");
      await response.text();
      await rejects(async () => env.NAMED.readResponse(response), {
        name: "TypeError",
        message: "The ReadableStream has been locked to a reader.",
      });
    },
    async "what was passed is used up"({ env }) {
      const response = new Response("x");
      await env.NAMED.readResponse(response);
      equal(response.bodyUsed, true);
    },
    async "headers pass"({ env }) {
      for (const callee of both(env)) {
        const back = await callee.headers();
        equal(
          [...back],
          [
            ["a", "1"],
            ["set-cookie", "x=1"],
            ["set-cookie", "y=2"],
          ],
        );
        const passed = await callee.readHeaders(new Headers({ h: "v" }));
        equal([...passed], [true, ["h", "v"]]);
      }
    },
    async "blobs pass, files do not"({ env }) {
      for (const callee of both(env)) {
        const blob = await callee.blob();
        equal(
          [blob.size, blob.type, await blob.text()],
          [4, "text/plain", "blob"],
        );
        const part = new Blob(["abcdef"]).slice(1, 4, "x/y");
        equal([...(await callee.readBlob(part))], [3, "x/y", "bcd"]);
        await rejects(
          async () => callee.readBlob(new File(["x"], "n")),
          unserializable("File"),
        );
      }
    },
    async "WebSockets do not pass"({ env }) {
      await rejects(
        async () => env.NAMED.socket(),
        unserializable("WebSocket"),
      );
    },
    async "signals do not pass, alone or in a request"({ env }) {
      const { signal } = new AbortController();
      for (const value of [signal, new Request("http://x/", { signal })]) {
        await rejects(async () => env.NAMED.readRequest(value), {
          name: "DataCloneError",
          message: "AbortSignal serialization is not enabled.",
        });
      }
    },
    async "stubs of objects and entrypoints pass"({ env }) {
      for (const callee of both(env)) {
        for (const stub of [env.NAMED, fresh(env)]) {
          equal(await callee.stub(stub), 3);
          equal(await callee.fetchStub(stub), "fetched /path");
        }
      }
    },
    async "stubs of objects and entrypoints are returned"({ env }) {
      const cell = await env.NAMED.cell("n");
      equal([await cell.add(3, 4), cell.constructor.name], [7, "Fetcher"]);
      equal(await (await cell.fetch("http://x/c")).text(), "fetched /c");
      await rejects(async () => await cell.id, {
        message: 'The RPC receiver does not implement the method "id".',
      });
      const named = await env.NAMED.named();
      equal([await named.add(5, 6), named.constructor.name], [11, "Fetcher"]);
    },
    async "namespaces, ids and contexts do not pass"({ env, ctx }) {
      const values = {
        DurableObjectNamespace: env.CELL,
        DurableObjectId: env.CELL.idFromName("x"),
        ExecutionContext: ctx,
        LoopbackServiceStub: ctx.exports.Named,
      };
      for (const [type, value] of Object.entries(values)) {
        await rejects(async () => env.NAMED.stub(value), unserializable(type));
      }
    },
  },
});
