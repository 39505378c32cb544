import { createServer } from "node:http";
import { gzipSync } from "node:zlib";

const routes = {
  "/hello": (request, response, url) =>
    response.writeHead(200, { "x-method": request.method }).end(
      JSON.stringify({
        q: url.searchParams.get("q"),
        a: request.headers["x-a"],
        agent: request.headers["user-agent"],
      }),
    ),
  "/echo": (request, response) => {
    response.writeHead(200, {
      "x-length": String(request.headers["content-length"]),
      "x-encoding": String(request.headers["transfer-encoding"]),
    });
    request.pipe(response);
  },
  "/redirect": (_, response) =>
    response.writeHead(302, { location: "/hello" }).end(),
  "/redirect-303": (_, response) =>
    response.writeHead(303, { location: "/hello" }).end(),
  "/loop": (_, response) =>
    response.writeHead(302, { location: "/loop" }).end(),
  "/gzip": (_, response) =>
    response
      .writeHead(200, { "content-encoding": "gzip" })
      .end(gzipSync("unpacked")),
  "/cookies": (_, response) =>
    response.writeHead(200, { "set-cookie": ["a=1", "b=2"] }).end(),
  "/never": () => {},
};

async function ask(t, action) {
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://x");
    routes[url.pathname](request, response, url);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const base = `http://127.0.0.1:${server.address().port}`;
    return await t.text(`/${action}?base=${encodeURIComponent(base)}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const gives = (action, expected) => async (t) =>
  t.equal(JSON.parse(await ask(t, action)), expected);

export default {
  "GET with headers": gives("get", [
    200,
    true,
    true,
    "GET",
    { q: "1", a: "1" },
  ]),
  "POST with a known length": gives("post", ["7", "payload"]),
  "a stream is sent in chunks": gives("stream", ["chunked", "ab"]),
  "redirects are followed": gives("follow", [true, true, 200]),
  "redirects are shown in manual mode": gives("manual", [302, "/hello", false]),
  "a 303 turns POST into GET": gives("redirectPost", [200, "GET"]),
  "a redirect loop is an error": gives("loop", ["TypeError", true]),
  "a refused connection is an Error": gives("refused", true),
  "an unknown protocol is a TypeError": gives("protocol", [
    "TypeError",
    "Fetch API cannot load: ftp://127.0.0.1/",
  ]),
  "gzip is unpacked": gives("gzip", ["gzip", "unpacked"]),
  "a fetch can be aborted": gives("abort", "AbortError"),
  "each Set-Cookie is seen": gives("cookies", ["a=1", "b=2"]),
  "no User-Agent is added": gives("agent", null),
  "HEAD has no body": gives("head", [200, true]),
  "more than six at once all end": gives("many", "0,1,2,3,4,5,6,7,8,9,10,11"),
  async "a Request can be fetched"(t) {
    t.equal(JSON.parse(await ask(t, "request")), "req");
  },
  async "an answer can be passed through"(t) {
    t.equal(await ask(t, "pass"), "passed through");
  },
};
