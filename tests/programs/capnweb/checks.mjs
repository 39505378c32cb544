import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { installPackages } from "../setup.mjs";

const capnweb = () =>
  import(
    pathToFileURL(join(installPackages(), "node_modules/capnweb/dist/index.js"))
  );

const batch = async (t) =>
  (await capnweb()).newHttpBatchRpcSession(`${t.url}/api`);
const socket = async (t) => {
  const address = `${t.url.replace("http", "ws")}/api`;
  return (await capnweb()).newWebSocketRpcSession(address);
};

async function rejects(t, promise, name, message) {
  const error = await promise.then(
    (value) => new Error(`expected a rejection, got ${value}`),
    (thrown) => thrown,
  );
  t.equal([error.name, error.message], [name, message]);
}

export default {
  async "calls of one batch share a request"(t) {
    const api = await batch(t);
    const calls = [api.hello("Ann"), api.hello("Bob")];
    t.equal(await Promise.all(calls), ["Hello, Ann!", "Hello, Bob!"]);
  },
  async "a batch is pipelined through a target"(t) {
    const api = await batch(t);
    const session = api.login("ann");
    t.equal(await Promise.all([session.name, session.post("first")]), [
      "ann",
      1,
    ]);
    t.equal(await (await batch(t)).board(), ["ann: first"]);
  },
  async "errors keep their class"(t) {
    const api = await batch(t);
    await rejects(
      t,
      api.login("nobody").name,
      "RangeError",
      "nobody may not log in",
    );
  },
  async "a callback is called over a WebSocket"(t) {
    const api = await socket(t);
    const seen = [];
    const session = api.login("bob");
    t.equal(await session.countdown(3, (i) => void seen.push(i)), "lift-off");
    t.equal(seen, [3, 2, 1]);
    api[Symbol.dispose]();
  },
  async "a callback reaches the client from a Durable Object"(t) {
    const api = await socket(t);
    t.equal(await api.relay((text) => `${text}!`), ["one!", "two!"]);
    api[Symbol.dispose]();
  },
  async "a WebSocket serves many calls, in order"(t) {
    const api = await socket(t);
    const session = api.login("cy");
    const posts = Array.from({ length: 20 }, (_, i) => session.post(`${i}`));
    const numbers = await Promise.all(posts);
    t.equal(
      numbers.map((n) => n - numbers[0]),
      posts.map((_, i) => i),
    );
    api[Symbol.dispose]();
  },
};
