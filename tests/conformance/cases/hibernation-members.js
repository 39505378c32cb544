// config: {"objects": {"PROBE": "Probe"}}
import { equal, inspect, probe, suite } from "../support/check.js";
import { fresh, lines, next, outcome, tick } from "../support/websocket.js";

/** Two ends, one of them hibernatable, the other accepted. */
function accepted(ctx, tags) {
  const [client, server] = fresh();
  ctx.acceptWebSocket(server, tags);
  client.accept();
  return [client, server];
}

const object = {
  "acceptWebSocket takes a fresh socket only"({ ctx }) {
    const [a, b] = fresh();
    a.accept();
    const [, twice] = fresh();
    ctx.acceptWebSocket(twice);
    equal(
      lines({
        accepted: outcome(() => ctx.acceptWebSocket(a)),
        twice: outcome(() => ctx.acceptWebSocket(twice)),
        "the other end": outcome(() => ctx.acceptWebSocket(b)),
        nothing: outcome(() => ctx.acceptWebSocket()),
        "no socket": outcome(() => ctx.acceptWebSocket({})),
        "a response": outcome(() => {
          const [c] = fresh();
          const response = new Response(null, { status: 101, webSocket: c });
          ctx.acceptWebSocket(response.webSocket);
        }),
      }),
      [
        "accepted: Error: Cannot call `acceptWebSocket()` if the WebSocket was already accepted via `accept()`",
        "twice: Error: Cannot call `acceptWebSocket()` if the WebSocket was already accepted via `accept()`",
        "the other end: Error: Cannot call `acceptWebSocket()` on this WebSocket because its pair has already been accepted or used in a Response.",
        "nothing: TypeError: Failed to execute 'acceptWebSocket' on 'DurableObjectState': parameter 1 is not of type 'WebSocket'.",
        "no socket: TypeError: Failed to execute 'acceptWebSocket' on 'DurableObjectState': parameter 1 is not of type 'WebSocket'.",
        "a response: ok",
      ],
    );
  },
  "what tags may be"({ ctx }) {
    const tries = {
      none: undefined,
      null: null,
      empty: [],
      "empty tag": [""],
      string: "abc",
      numbers: [1, 2],
      nested: [["a", "b"]],
      ten: Array.from({ length: 10 }, (_, i) => `t${i}`),
      eleven: Array.from({ length: 11 }, (_, i) => `t${i}`),
      "eleven times the same": Array(11).fill("same"),
      "256 characters": ["x".repeat(256)],
      "257 characters": ["x".repeat(257)],
      "256 two-byte characters": ["é".repeat(256)],
      "128 two-byte characters": ["é".repeat(128)],
      "a set": new Set(["a"]),
      object: {},
    };
    const seen = {};
    for (const [what, tags] of Object.entries(tries)) {
      const [, server] = fresh();
      seen[what] = outcome(() => ctx.acceptWebSocket(server, tags)).slice(
        0,
        400,
      );
      if (seen[what] === "ok") {
        const got = ctx.getTags(server);
        seen[what] = [got.length, ...got.map((tag) => tag.slice(0, 9))].join();
      }
    }
    equal(lines(seen), [
      "none: 0",
      "null: TypeError: Failed to execute 'acceptWebSocket' on 'DurableObjectState': parameter 2 is not of type 'Array'.",
      "empty: 0",
      "empty tag: 1,",
      "string: TypeError: Failed to execute 'acceptWebSocket' on 'DurableObjectState': parameter 2 is not of type 'Array'.",
      "numbers: 2,1,2",
      "nested: 1,a,b",
      "ten: 10,t0,t1,t2,t3,t4,t5,t6,t7,t8,t9",
      "eleven: Error: a Hibernatable WebSocket cannot have more than 10 tags",
      "eleven times the same: 1,same",
      "256 characters: 1,xxxxxxxxx",
      '257 characters: Error: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is longer than the max tag length (256 characters).',
      '256 two-byte characters: Error: "éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé" is longer than the max tag length (256 characters).',
      "128 two-byte characters: 1,ééééééééé",
      "a set: TypeError: Failed to execute 'acceptWebSocket' on 'DurableObjectState': parameter 2 is not of type 'Array'.",
      "object: TypeError: Failed to execute 'acceptWebSocket' on 'DurableObjectState': parameter 2 is not of type 'Array'.",
    ]);
  },
  "order and repetition of tags"({ ctx }) {
    const [, server] = accepted(ctx, ["z", "a", "z", "m"]);
    equal([...ctx.getTags(server)].sort(), ["a", "m", "z"]);
    ctx.getTags(server).push("more");
    equal([...ctx.getTags(server)].sort(), ["a", "m", "z"]);
  },
  "getWebSockets by tag"({ ctx }) {
    const before = ctx.getWebSockets().length;
    const [, one] = accepted(ctx, ["one", "both"]);
    const [, two] = accepted(ctx, ["two", "both"]);
    const [, none] = accepted(ctx);
    const all = ctx.getWebSockets();
    equal(
      lines({
        all: all.length - before,
        one: ctx.getWebSockets("one").length,
        both: ctx.getWebSockets("both").length,
        "no such": ctx.getWebSockets("absent").length,
        "empty tag": ctx.getWebSockets("").length,
        undefined: ctx.getWebSockets(undefined).length - before,
        null: outcome(() => ctx.getWebSockets(null)),
        same: ctx.getWebSockets("one")[0] === one,
        includes: [one, two, none].map((socket) => all.includes(socket)),
        order: ctx
          .getWebSockets("both")
          .map((socket) => [one, two].indexOf(socket)),
        array: Array.isArray(all),
      }),
      [
        "all: 3",
        "one: 1",
        "both: 2",
        "no such: 0",
        "empty tag: 0",
        "undefined: 3",
        "null: ok",
        "same: true",
        "includes: [true, true, true]",
        "order: [0, 1]",
        "array: true",
      ],
    );
  },
  async "a socket that has gone is not listed"({ ctx }) {
    const [client, server] = accepted(ctx, ["gone"]);
    client.close(1000);
    await tick();
    equal(ctx.getWebSockets("gone").length, 0);
    equal(
      lines({
        tags: outcome(() => ctx.getTags(server)),
        attachment: outcome(() => server.deserializeAttachment()),
        attach: outcome(() => server.serializeAttachment(1)),
        timestamp: outcome(() => ctx.getWebSocketAutoResponseTimestamp(server)),
      }),
      ["tags: ok", "attachment: ok", "attach: ok", "timestamp: ok"],
    );
  },
  "getTags refuses what is not hibernatable"({ ctx }) {
    const [a] = fresh();
    equal(
      [
        outcome(() => ctx.getTags(a)),
        outcome(() => ctx.getTags()),
        outcome(() => ctx.getTags({})),
      ],
      [
        "Error: you must call 'acceptWebSocket()' before attempting to access the tags of a WebSocket.",
        "TypeError: Failed to execute 'getTags' on 'DurableObjectState': parameter 1 is not of type 'WebSocket'.",
        "TypeError: Failed to execute 'getTags' on 'DurableObjectState': parameter 1 is not of type 'WebSocket'.",
      ],
    );
  },
  "attachments: kinds of values"({ ctx }) {
    const [, server] = accepted(ctx);
    const tries = {
      undefined: undefined,
      null: null,
      number: 5,
      map: new Map([["a", 1]]),
      date: new Date(5),
      bytes: new Uint8Array([1, 2]),
      error: new TypeError("kept"),
      bigint: 5n,
      regexp: /x/g,
      nested: { a: [1, { b: 2 }] },
    };
    const seen = {};
    for (const [what, value] of Object.entries(tries)) {
      server.serializeAttachment(value);
      seen[what] = server.deserializeAttachment();
    }
    equal(lines(seen), [
      "undefined: undefined",
      "null: null",
      "number: 5",
      'map: Map("a" => 1)',
      "date: Date(5)",
      "bytes: Uint8Array(1 2)",
      'error: TypeError("kept")',
      "bigint: 5n",
      "regexp: /x/g",
      "nested: {a: [1, {b: 2}]}",
    ]);
    equal(
      [
        outcome(() => server.serializeAttachment(Math.max)),
        outcome(() => server.serializeAttachment(Symbol("s"))),
        outcome(() => server.serializeAttachment(new WeakMap())),
        outcome(() => server.serializeAttachment()),
      ],
      [
        "DataCloneError: function max() { [native code] } could not be cloned.",
        "DataCloneError: Symbol(s) could not be cloned.",
        "DataCloneError: #<WeakMap> could not be cloned.",
        "TypeError: Failed to execute 'serializeAttachment' on 'WebSocket': parameter 1 is not of type 'Value'.",
      ],
    );
  },
  "attachments: the limit"({ ctx }) {
    const [, server] = accepted(ctx);
    const seen = {};
    for (const length of [16_377, 16_378, 16_379, 16_380, 16_381, 20_000])
      seen[length] = outcome(() =>
        server.serializeAttachment("x".repeat(length)),
      );
    equal(lines(seen), [
      "16377: ok",
      "16378: ok",
      "16379: ok",
      "16380: Error: A WebSocket 'attachment' cannot be larger than 16384 bytes.'attachment' was 16385 bytes.",
      "16381: Error: A WebSocket 'attachment' cannot be larger than 16384 bytes.'attachment' was 16386 bytes.",
      "20000: Error: A WebSocket 'attachment' cannot be larger than 16384 bytes.'attachment' was 20006 bytes.",
    ]);
    server.serializeAttachment("kept");
    outcome(() => server.serializeAttachment("x".repeat(20_000)));
    outcome(() => server.serializeAttachment(() => {}));
    equal(server.deserializeAttachment(), "kept");
  },
  "attachments are copies on both sides"({ ctx }) {
    const [, server] = accepted(ctx);
    const value = { list: [1] };
    server.serializeAttachment(value);
    value.list.push(2);
    server.deserializeAttachment().list.push(3);
    equal(server.deserializeAttachment(), { list: [1] });
  },
  "an attachment from before acceptWebSocket"({ ctx }) {
    const [client, server] = fresh();
    server.serializeAttachment("early");
    ctx.acceptWebSocket(server);
    equal(server.deserializeAttachment(), "early");
    client.accept();
  },
  "auto-response: what may be set"({ ctx }) {
    const pair = (a, b) => new WebSocketRequestResponsePair(a, b);
    const seen = {
      initially: String(ctx.getWebSocketAutoResponse()),
      set: outcome(() => ctx.setWebSocketAutoResponse(pair("a", "b"))),
    };
    const got = ctx.getWebSocketAutoResponse();
    seen.got = [
      got.request,
      got.response,
      got instanceof WebSocketRequestResponsePair,
    ];
    seen.identity = ctx.getWebSocketAutoResponse() === got;
    seen.plain = outcome(() =>
      ctx.setWebSocketAutoResponse({ request: "x", response: "y" }),
    );
    seen.null = outcome(() => ctx.setWebSocketAutoResponse(null));
    seen.still = String(ctx.getWebSocketAutoResponse()?.request);
    seen.unset = outcome(() => ctx.setWebSocketAutoResponse());
    seen.after = String(ctx.getWebSocketAutoResponse());
    seen.number = [pair(1, null).request, pair(1, null).response];
    seen.one = outcome(() => new WebSocketRequestResponsePair("a"));
    seen.none = outcome(() => new WebSocketRequestResponsePair());
    for (const [what, a, b] of [
      ["request of 2048", "x".repeat(2048), ""],
      ["request of 2049", "x".repeat(2049), ""],
      ["response of 2048", "", "x".repeat(2048)],
      ["response of 2049", "", "x".repeat(2049)],
      ["request of 1025 two-byte characters", "é".repeat(1025), ""],
      ["both", "x".repeat(3000), "x".repeat(3000)],
    ])
      seen[what] = outcome(() => ctx.setWebSocketAutoResponse(pair(a, b)));
    ctx.setWebSocketAutoResponse();
    equal(lines(seen), [
      "initially: null",
      "set: ok",
      'got: ["a", "b", true]',
      "identity: false",
      "plain: TypeError: Failed to execute 'setWebSocketAutoResponse' on 'DurableObjectState': parameter 1 is not of type 'WebSocketRequestResponsePair'.",
      "null: TypeError: Failed to execute 'setWebSocketAutoResponse' on 'DurableObjectState': parameter 1 is not of type 'WebSocketRequestResponsePair'.",
      "still: a",
      "unset: ok",
      "after: null",
      'number: ["1", "null"]',
      "one: TypeError: Failed to construct 'WebSocketRequestResponsePair': constructor parameter 2 is not of type 'string'.",
      "none: TypeError: Failed to construct 'WebSocketRequestResponsePair': constructor parameter 1 is not of type 'string'.",
      "request of 2048: ok",
      "request of 2049: RangeError: Request cannot be larger than 2048 bytes. A request of size 2049 was provided.",
      "response of 2048: ok",
      "response of 2049: RangeError: Response cannot be larger than 2048 bytes. A response of size 2049 was provided.",
      "request of 1025 two-byte characters: RangeError: Request cannot be larger than 2048 bytes. A request of size 2050 was provided.",
      "both: RangeError: Request cannot be larger than 2048 bytes. A request of size 3000 was provided.",
    ]);
  },
  async "auto-response: which messages it answers"({ ctx, self }) {
    ctx.setWebSocketAutoResponse(
      new WebSocketRequestResponsePair("ping", "pong"),
    );
    const [client, server] = accepted(ctx);
    equal(ctx.getWebSocketAutoResponseTimestamp(server), null);
    const got = [];
    client.addEventListener("message", ({ data }) => got.push(data));
    self.heard = [];
    for (const text of ["ping", "ping ", "Ping", "xping", "ping"])
      client.send(text);
    client.send(new TextEncoder().encode("ping"));
    await tick();
    const at = ctx.getWebSocketAutoResponseTimestamp(server);
    equal(
      [
        got,
        self.heard.map((message) => inspect(message)),
        at instanceof Date,
        Math.abs(at.getTime() - Date.now()) < 10_000,
      ],
      [
        ["pong", "pong"],
        ['"ping "', '"Ping"', '"xping"', "ArrayBuffer(112 105 110 103)"],
        true,
        true,
      ],
    );
    ctx.setWebSocketAutoResponse();
    self.heard = [];
    client.send("ping");
    await tick();
    equal(self.heard, ["ping"]);
    equal(ctx.getWebSocketAutoResponseTimestamp(server) instanceof Date, true);
  },
  "auto-response: the timestamp of other sockets"({ ctx }) {
    const [a] = fresh();
    equal(
      [
        outcome(() => ctx.getWebSocketAutoResponseTimestamp(a)),
        outcome(() => ctx.getWebSocketAutoResponseTimestamp()),
        outcome(() => ctx.getWebSocketAutoResponseTimestamp({})),
      ],
      [
        "ok",
        "TypeError: Failed to execute 'getWebSocketAutoResponseTimestamp' on 'DurableObjectState': parameter 1 is not of type 'WebSocket'.",
        "TypeError: Failed to execute 'getWebSocketAutoResponseTimestamp' on 'DurableObjectState': parameter 1 is not of type 'WebSocket'.",
      ],
    );
  },
  "the event timeout's limits"({ ctx }) {
    const seen = {
      initially: String(ctx.getHibernatableWebSocketEventTimeout()),
    };
    for (const ms of [
      1,
      1000,
      604_800_000,
      604_800_001,
      0,
      -1,
      1.5,
      NaN,
      null,
      "5",
      4_294_967_297,
    ]) {
      const thrown = outcome(() =>
        ctx.setHibernatableWebSocketEventTimeout(ms),
      );
      seen[typeof ms === "string" ? `"${ms}"` : `${ms} ms`] =
        `${thrown}, ${ctx.getHibernatableWebSocketEventTimeout()}`;
    }
    const thrown = outcome(() => ctx.setHibernatableWebSocketEventTimeout());
    seen.nothing = `${thrown}, ${ctx.getHibernatableWebSocketEventTimeout()}`;
    equal(lines(seen), [
      "initially: null",
      "1 ms: ok, 1",
      "1000 ms: ok, 1000",
      "604800000 ms: ok, 604800000",
      "604800001 ms: Error: Event timeout should not exceed 604800000 ms., 604800000",
      "0 ms: ok, null",
      "-1 ms: TypeError: The value cannot be converted because it is negative and this API expects a positive number., null",
      "1.5 ms: ok, 1",
      "NaN ms: TypeError: The value cannot be converted because it is not an integer., 1",
      "null ms: ok, null",
      '"5": ok, 5',
      "4294967297 ms: TypeError: Value out of range. Must be less than or equal to 4294967295., 5",
      "nothing: ok, null",
    ]);
  },
  async "a hibernatable socket and listeners"({ ctx, self }) {
    const [client, server] = accepted(ctx);
    const heard = [];
    server.addEventListener("message", ({ data }) => heard.push(data));
    self.heard = [];
    client.send("x");
    await tick();
    equal([heard, self.heard], [[], ["x"]]);
  },
  "binaryType and state of a hibernatable socket"({ ctx }) {
    const [, server] = accepted(ctx);
    equal(
      [
        server.binaryType,
        server.readyState,
        server.url,
        server.protocol,
        server.extensions,
      ],
      ["blob", 1, null, "", ""],
    );
  },
  async "handlers always get ArrayBuffers"({ ctx, self }) {
    const [client, server] = accepted(ctx);
    outcome(() => (server.binaryType = "blob"));
    self.heard = [];
    client.send(new Uint8Array([1, 2]));
    client.send(new ArrayBuffer(0));
    client.send("");
    await tick();
    equal(
      self.heard.map((message) => inspect(message)),
      ["ArrayBuffer(1 2)", "ArrayBuffer()", '""'],
    );
  },
  async "the socket of an event is the one that was accepted"({ ctx, self }) {
    const [client, server] = accepted(ctx, ["identity"]);
    server.mine = "kept";
    client.send("identity");
    await tick();
    equal(
      [
        self.last === server,
        self.last?.mine,
        ctx.getWebSockets("identity")[0] === server,
      ],
      [true, "kept", true],
    );
  },
  async "send and close wait for nothing but the gate, in order"({ ctx }) {
    const [client, server] = accepted(ctx);
    const got = [];
    client.addEventListener("message", ({ data }) => got.push(data));
    client.addEventListener("close", ({ code }) => got.push(code));
    for (let i = 0; i < 20; i++) server.send(String(i));
    server.close(4000, "done");
    equal(
      outcome(() => server.send("late")),
      "TypeError: Can't call WebSocket send() after close().",
    );
    await tick();
    equal(
      [got, server.readyState],
      [
        [
          "0",
          "1",
          "2",
          "3",
          "4",
          "5",
          "6",
          "7",
          "8",
          "9",
          "10",
          "11",
          "12",
          "13",
          "14",
          "15",
          "16",
          "17",
          "18",
          "19",
          4000,
        ],
        3,
      ],
    );
  },
  async "a hibernatable socket whose other end nobody accepts"({ ctx, self }) {
    const [client, server] = fresh();
    ctx.acceptWebSocket(server);
    server.send("waits");
    await tick();
    const got = next(client);
    client.accept();
    equal((await got).data, "waits");
  },
  "close arguments of a hibernatable socket"({ ctx }) {
    const seen = {};
    for (const args of [
      [],
      [1000],
      [1005],
      [999],
      [3000, "x".repeat(124)],
      [undefined, "why"],
    ]) {
      const [, server] = accepted(ctx);
      seen[`${args[0]} ${args[1]?.length ?? ""}`] = outcome(() =>
        server.close(...args),
      );
    }
    equal(lines(seen), [
      "undefined : ok",
      "1000 : ok",
      "1005 : InvalidAccessError: Invalid WebSocket close code: 1005.",
      "999 : InvalidAccessError: Invalid WebSocket close code: 999.",
      "3000 124: SyntaxError: WebSocket close reason must not be longer than 123 bytes when UTF-8 encoded.",
      "undefined 3: InvalidAccessError: If you specify a WebSocket close reason, you must also specify a code.",
    ]);
  },
};

export class Probe extends probe(object) {
  heard = [];
  webSocketMessage(socket, message) {
    this.last = socket;
    this.heard.push(message);
  }
  webSocketClose() {}
}
export default suite({ object });
