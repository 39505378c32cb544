// Cap'n Web for browsers and other clients, with a Durable Object behind it by Workers' own RPC.
import { DurableObject } from "cloudflare:workers";
import { RpcTarget, newWorkersRpcResponse } from "capnweb";

class Session extends RpcTarget {
  #env;
  #name;

  constructor(env, name) {
    super();
    this.#env = env;
    this.#name = name;
  }

  get name() {
    return this.#name;
  }

  post(text) {
    return this.#env.BOARD.getByName("main").post(this.#name, text);
  }

  async countdown(from, callback) {
    for (let i = from; i > 0; i--) await callback(i);
    return "lift-off";
  }
}

class Api extends RpcTarget {
  #env;

  constructor(env) {
    super();
    this.#env = env;
  }

  hello(name) {
    return `Hello, ${name}!`;
  }

  login(name) {
    if (name === "nobody") throw new RangeError("nobody may not log in");
    return new Session(this.#env, name);
  }

  async board() {
    return this.#env.BOARD.getByName("main").list();
  }

  /** A session whose calls are made by the object, through the stub that it gets. */
  relay(callback) {
    return this.#env.BOARD.getByName("main").tell((text) => callback(text));
  }
}

export class Board extends DurableObject {
  post(name, text) {
    const list = this.ctx.storage.kv.get("list") ?? [];
    list.push(`${name}: ${text}`);
    this.ctx.storage.kv.put("list", list);
    return list.length;
  }

  list() {
    return this.ctx.storage.kv.get("list") ?? [];
  }

  async tell(callback) {
    return [await callback("one"), await callback("two")];
  }
}

export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/api")
      return newWorkersRpcResponse(request, new Api(env));
    return new Response("no such path", { status: 404 });
  },
};
