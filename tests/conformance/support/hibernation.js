// A Durable Object whose hibernatable sockets do what messages tell them, and how to talk to it.
import { DurableObject } from "cloudflare:workers";
import { inspect } from "./check.js";
import { fresh, next, outcome, tick } from "./websocket.js";

/** What a script may be told to do, by the name in its message. */
const commands = {
  close: ({ socket, code, reason }) => socket.close(code, reason),
  throw: () => {
    throw new Error("by the handler");
  },
  abort: ({ room }) => room.ctx.abort("by the handler"),
  state: ({ socket, room }) =>
    socket.send(
      `state ${socket.readyState} of ${room.ctx.getWebSockets().length}`,
    ),
};

export class Room extends DurableObject {
  log = [];
  constructor(ctx, env) {
    super(ctx, env);
    this.atStart = ctx.getWebSockets().length;
  }
  note(what) {
    this.log.push(what);
  }
  async fetch(request) {
    const url = new URL(request.url);
    const [client, server] = fresh();
    this.ctx.acceptWebSocket(server, url.searchParams.getAll("tag"));
    const attach = url.searchParams.get("attach");
    if (attach !== null) server.serializeAttachment(attach);
    return new Response(null, { status: 101, webSocket: client });
  }
  webSocketMessage(socket, message) {
    if (typeof message === "string" && message.startsWith("{")) {
      const command = JSON.parse(message);
      return commands[command.do]({ socket, room: this, ...command });
    }
    const kind = typeof message === "string" ? "text" : inspect(message);
    this.note(`message ${kind} ${message}`);
    socket.send(`got ${message}`);
  }
  async webSocketClose(socket, code, reason, wasClean) {
    this.note(`close ${code} ${reason} ${wasClean} in ${socket.readyState}`);
    this.note(`listed ${this.ctx.getWebSockets().includes(socket)}`);
    this.note(`attachment ${inspect(socket.deserializeAttachment())}`);
    this.note(`tags ${outcome(() => this.ctx.getTags(socket))}`);
    this.note(`send ${outcome(() => socket.send("from webSocketClose"))}`);
    if (this.answer !== undefined) {
      this.note(`answer ${outcome(() => socket.close(...this.answer))}`);
      this.note(`then ${socket.readyState}`);
    }
  }
  webSocketError(socket, error) {
    this.note(
      `error ${error?.name}: ${error?.message} in ${socket.readyState}`,
    );
  }
  async set(fields) {
    Object.assign(this, fields);
    return null;
  }
  async read() {
    return this.log.splice(0);
  }
  async count(tag) {
    return this.ctx.getWebSockets(tag).length;
  }
  async each(run, tag) {
    const sockets = this.ctx.getWebSockets(tag);
    return sockets.map((socket) => {
      if (run === "state") return socket.readyState;
      if (run === "tags") return this.ctx.getTags(socket);
      if (run === "attachment") return socket.deserializeAttachment();
      if (run === "close") return outcome(() => socket.close(4004, "by each"));
      return outcome(() => socket.send(run));
    });
  }
}

/** Lets a client script open sockets to rooms and read what they noted: `/<room>/<what>`. */
export async function fallback(request, env) {
  const [, name, what] = new URL(request.url).pathname.split("/");
  const stub = env.ROOM.getByName(name);
  if (request.headers.get("upgrade") === "websocket")
    return stub.fetch(request);
  if (what === "set")
    return Response.json(await stub.set(await request.json()));
  if (what === "count") return Response.json(await stub.count());
  if (what === "each") {
    const run = new URL(request.url).searchParams.get("run");
    return Response.json(await stub.each(run));
  }
  return Response.json(await stub.read());
}

/** A client that has not accepted its end. */
export async function connect(stub, query = "") {
  const response = await stub.fetch(`http://room/${query}`, {
    headers: { upgrade: "websocket" },
  });
  return response.webSocket;
}

/** A client whose events are noted in `seen`. */
export async function open(stub, query = "", options) {
  const socket = await connect(stub, query);
  const seen = [];
  socket.addEventListener("message", ({ data }) => seen.push(data));
  socket.addEventListener("close", ({ code, reason, wasClean }) =>
    seen.push(`close ${code} ${reason} ${wasClean}`),
  );
  socket.addEventListener("error", ({ message }) =>
    seen.push(`error ${message}`),
  );
  socket.accept(options);
  return { socket, seen };
}

/** The room's notes, once there are `count` of them. */
export async function notes(stub, count = 1) {
  const all = [];
  for (let i = 0; i < 100 && all.length < count; i++) {
    all.push(...(await stub.read()));
    if (all.length < count) await tick(20);
  }
  await tick();
  all.push(...(await stub.read()));
  return all;
}

/** Observations by name, with clients in the same process; what each date makes of them stands in the cases. */
export const closings = {
  async "the client closes"(stub) {
    const { socket, seen } = await open(stub, "?attach=a&tag=t");
    socket.close(4001, "bye");
    const noted = await notes(stub, 5);
    return [...noted, seen[0], await stub.count()];
  },
  async "the client closes without a code"(stub) {
    const { socket, seen } = await open(stub);
    socket.close();
    return [...(await notes(stub, 5)), seen[0], await stub.count()];
  },
  async "the handler answers the close"(stub) {
    await stub.set({ answer: [4002, "answer"] });
    const { socket, seen } = await open(stub);
    socket.close(4001, "bye");
    return [...(await notes(stub, 7)), ...seen, await stub.count()];
  },
  async "the object closes and the client leaves it unanswered"(stub) {
    const { socket, seen } = await open(stub, "", { allowHalfOpen: true });
    socket.send(JSON.stringify({ do: "close", code: 4003, reason: "out" }));
    await tick();
    const half = [await stub.count(), await stub.each("state")];
    const more = await stub.each("more");
    socket.send("from the client");
    await tick();
    const noted = await notes(stub, 0);
    socket.close(4009, "late");
    return [
      half,
      more,
      noted,
      await notes(stub, 5),
      seen[0],
      await stub.count(),
    ];
  },
  async "a handler that throws"(stub) {
    const { socket, seen } = await open(stub);
    const other = await open(stub);
    socket.send(JSON.stringify({ do: "throw" }));
    await tick();
    socket.send("after");
    other.socket.send("other");
    await tick();
    return [
      ...(await notes(stub, 0)).sort(),
      seen,
      other.seen,
      socket.readyState,
      await stub.count(),
    ];
  },
  async "an object that is aborted"(stub) {
    const { socket, seen } = await open(stub);
    socket.send(JSON.stringify({ do: "abort" }));
    await tick();
    return seen;
  },
};

/** Checks that hold each observation against its expectation. */
export const checks = (equal, expected) =>
  Object.fromEntries(
    Object.entries(closings).map(([name, observe]) => [
      name,
      async ({ env }) =>
        equal(await observe(env.ROOM.getByName(name)), expected[name]),
    ]),
  );
