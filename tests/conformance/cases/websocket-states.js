import { equal, suite } from "../support/check.js";
import {
  fresh,
  lines,
  next,
  outcome,
  pair,
  tick,
} from "../support/websocket.js";

export default suite({
  worker: {
    "constants stand on the class and on its instances"() {
      const [a] = fresh();
      const names = ["CONNECTING", "OPEN", "CLOSING", "CLOSED"];
      const all = [...names, ...names.map((name) => `READY_STATE_${name}`)];
      equal(
        all.map((name) => [WebSocket[name], a[name]].join()),
        ["0,0", "1,1", "2,2", "3,3", "0,0", "1,1", "2,2", "3,3"],
      );
    },
    async "a second close is ignored"() {
      const [a, b] = pair();
      const closed = next(b, "close");
      a.close(4001, "first");
      equal(
        outcome(() => a.close(4002, "second")),
        "ok",
      );
      const { code, reason } = await closed;
      equal([code, reason], [4001, "first"]);
    },
    "codes that close() takes"() {
      const codes = [
        0,
        1,
        999,
        1000,
        1001,
        1002,
        1003,
        1004,
        1005,
        1006,
        1007,
        1008,
        1009,
        1010,
        1011,
        1012,
        1013,
        1014,
        1015,
        1016,
        1999,
        2000,
        2999,
        3000,
        4000,
        4999,
        5000,
        65535,
        65536,
        66536,
        -1,
        1.5,
        1000.9,
        NaN,
        Infinity,
        null,
        undefined,
        "1000",
        "x",
        true,
      ];
      const seen = {};
      for (const code of codes) {
        const [a] = pair();
        seen[typeof code === "string" ? `"${code}"` : String(code)] = outcome(
          () => a.close(code),
        );
      }
      equal(lines(seen), [
        "0: InvalidAccessError: Invalid WebSocket close code: 0.",
        "1: InvalidAccessError: Invalid WebSocket close code: 1.",
        "999: InvalidAccessError: Invalid WebSocket close code: 999.",
        "1000: ok",
        "1001: ok",
        "1002: ok",
        "1003: ok",
        "1004: InvalidAccessError: Invalid WebSocket close code: 1004.",
        "1005: InvalidAccessError: Invalid WebSocket close code: 1005.",
        "1006: InvalidAccessError: Invalid WebSocket close code: 1006.",
        "1007: ok",
        "1008: ok",
        "1009: ok",
        "1010: ok",
        "1011: ok",
        "1012: ok",
        "1013: ok",
        "1014: ok",
        "1015: InvalidAccessError: Invalid WebSocket close code: 1015.",
        "1016: ok",
        "1999: ok",
        "2000: ok",
        "2999: ok",
        "3000: ok",
        "4000: ok",
        "4999: ok",
        "5000: InvalidAccessError: Invalid WebSocket close code: 5000.",
        "65535: InvalidAccessError: Invalid WebSocket close code: 65535.",
        "65536: InvalidAccessError: Invalid WebSocket close code: 65536.",
        "66536: InvalidAccessError: Invalid WebSocket close code: 66536.",
        "-1: InvalidAccessError: Invalid WebSocket close code: -1.",
        "1.5: InvalidAccessError: Invalid WebSocket close code: 1.",
        "1000.9: ok",
        "NaN: InvalidAccessError: Invalid WebSocket close code: 0.",
        "Infinity: InvalidAccessError: Invalid WebSocket close code: 0.",
        "null: InvalidAccessError: Invalid WebSocket close code: 0.",
        "undefined: ok",
        '"1000": ok',
        '"x": InvalidAccessError: Invalid WebSocket close code: 0.',
        "true: InvalidAccessError: Invalid WebSocket close code: 1.",
      ]);
    },
    "reasons that close() takes"() {
      const seen = {};
      const tries = {
        none: [1000],
        undefined: [1000, undefined],
        null: [1000, null],
        empty: [1000, ""],
        "123 bytes": [1000, "x".repeat(123)],
        "124 bytes": [1000, "x".repeat(124)],
        "123 bytes of two each": [1000, "é".repeat(61)],
        "124 bytes of two each": [1000, "é".repeat(62)],
        "without a code": [undefined, "why"],
        "empty, without a code": [undefined, ""],
        "null code": [null, "why"],
        number: [1000, 7],
        "bad code and long reason": [999, "x".repeat(200)],
      };
      for (const [what, args] of Object.entries(tries)) {
        const [a] = pair();
        seen[what] = outcome(() => a.close(...args));
      }
      equal(lines(seen), [
        "none: ok",
        "undefined: ok",
        "null: ok",
        "empty: ok",
        "123 bytes: ok",
        "124 bytes: SyntaxError: WebSocket close reason must not be longer than 123 bytes when UTF-8 encoded.",
        "123 bytes of two each: ok",
        "124 bytes of two each: SyntaxError: WebSocket close reason must not be longer than 123 bytes when UTF-8 encoded.",
        "without a code: InvalidAccessError: If you specify a WebSocket close reason, you must also specify a code.",
        "empty, without a code: InvalidAccessError: If you specify a WebSocket close reason, you must also specify a code.",
        "null code: InvalidAccessError: Invalid WebSocket close code: 0.",
        "number: ok",
        "bad code and long reason: InvalidAccessError: Invalid WebSocket close code: 999.",
      ]);
    },
    async "what the other end sees of a close"() {
      const seen = {};
      const tries = {
        nothing: [],
        code: [1000],
        "code and reason": [3000, "why"],
        "lone surrogate": [3001, "\ud800"],
        fraction: [3002.7, "f"],
      };
      for (const [what, args] of Object.entries(tries)) {
        const [a, b] = pair();
        const closed = next(b, "close");
        const own = next(a, "close");
        a.close(...args);
        const event = await closed;
        seen[what] = [event.code, event.reason, event.wasClean, event.type];
        const back = await Promise.race([own, tick()]);
        seen[what].push(
          back ? [back.code, back.reason, back.wasClean] : "none",
        );
      }
      equal(lines(seen), [
        'nothing: [1005, "", true, "close", [1005, "", true]]',
        'code: [1000, "", true, "close", [1000, "", true]]',
        'code and reason: [3000, "why", true, "close", [3000, "why", true]]',
        'lone surrogate: [3001, "�", true, "close", [3001, "�", true]]',
        'fraction: [3002, "f", true, "close", [3002, "f", true]]',
      ]);
    },
    async "what send() takes"() {
      const values = {
        string: "text",
        empty: "",
        number: 7,
        null: null,
        undefined: undefined,
        boolean: true,
        object: { a: 1 },
        array: [1, 2],
        "string object": new String("boxed"),
        ArrayBuffer: new Uint8Array([1, 2]).buffer,
        "view with an offset": new Uint8Array([1, 2, 3, 4]).subarray(1, 3),
        Uint16Array: new Uint16Array([258]),
        DataView: new DataView(new Uint8Array([9, 8, 7]).buffer, 1, 1),
        bigint: 5n,
      };
      const seen = {};
      for (const [what, value] of Object.entries(values)) {
        const [a, b] = pair();
        b.binaryType = "arraybuffer";
        const got = next(b);
        const thrown = outcome(() => a.send(value));
        const event =
          thrown === "ok" ? await Promise.race([got, tick()]) : null;
        seen[what] = event ? event.data : thrown;
      }
      equal(lines(seen), [
        "string: text",
        "empty: ",
        "number: 7",
        "null: null",
        "undefined: undefined",
        "boolean: true",
        "object: [object Object]",
        "array: 1,2",
        "string object: boxed",
        "ArrayBuffer: ArrayBuffer(1 2)",
        "view with an offset: ArrayBuffer(2 3)",
        "Uint16Array: ArrayBuffer(2 1)",
        "DataView: ArrayBuffer(8)",
        "bigint: 5",
      ]);
      const [a] = pair();
      equal(
        [outcome(() => a.send()), outcome(() => a.send(Symbol("s")))],
        [
          "TypeError: Failed to execute 'send' on 'WebSocket': parameter 1 is not of type 'ArrayBuffer or ArrayBufferView or string'.",
          "TypeError: Cannot convert a Symbol value to a string",
        ],
      );
    },
    async "a Blob can be sent"() {
      const [a, b] = pair();
      b.binaryType = "arraybuffer";
      const got = next(b);
      const thrown = outcome(() => a.send(new Blob(["xyz"])));
      const event = await Promise.race([got, tick()]);
      equal([thrown, event?.data], ["ok", "[object Blob]"]);
    },
    async "bytes are copied when they are sent"() {
      const [a, b] = pair();
      b.binaryType = "arraybuffer";
      const got = next(b);
      const bytes = new Uint8Array([1, 2, 3]);
      a.send(bytes);
      bytes.fill(9);
      equal(new Uint8Array((await got).data), new Uint8Array([1, 2, 3]));
    },
    async "sending after a close, by either side"() {
      const seen = {};
      {
        const [a] = pair();
        a.close(1000);
        seen.own = outcome(() => a.send("x"));
      }
      {
        const [a, b] = pair();
        const closed = next(b, "close");
        a.close(1000);
        await closed;
        seen["after the other's"] = outcome(() => b.send("x"));
        await tick();
        seen["later still"] = outcome(() => b.send("x"));
      }
      equal(lines(seen), [
        "own: TypeError: Can't call WebSocket send() after close().",
        "after the other's: TypeError: Can't call WebSocket send() after close().",
        "later still: TypeError: Can't call WebSocket send() after close().",
      ]);
    },
    async "a message event's fields"() {
      const [a, b] = pair();
      const got = next(b);
      a.send("x");
      const event = await got;
      equal(
        lines({
          type: event.type,
          constructor: event.constructor.name,
          lastEventId: event.lastEventId,
          source: event.source,
          ports: event.ports,
          target: event.target === b,
          bubbles: event.bubbles,
          cancelable: event.cancelable,
        }),
        [
          "type: message",
          "constructor: MessageEvent",
          "lastEventId: ",
          "source: null",
          "ports: []",
          "target: true",
          "bubbles: false",
          "cancelable: false",
        ],
      );
    },
    "url, protocol, extensions and binaryType of a pair"() {
      const [a] = fresh();
      const seen = [a.url, a.protocol, a.extensions, a.binaryType];
      seen.push(
        outcome(() => (a.binaryType = "nodebuffer")),
        a.binaryType,
      );
      seen.push(
        outcome(() => (a.binaryType = "arraybuffer")),
        a.binaryType,
      );
      equal(seen, [null, "", "", "blob", "ok", "blob", "ok", "arraybuffer"]);
    },
    "handler properties"() {
      const [a] = fresh();
      equal(
        ["onmessage", "onclose", "onerror", "onopen"].map((name) => [
          name in a,
          a[name],
        ]),
        [
          [false, undefined],
          [false, undefined],
          [false, undefined],
          [false, undefined],
        ],
      );
    },
    "what a WebSocketPair is"() {
      const made = new WebSocketPair();
      equal(
        lines({
          keys: Object.keys(made),
          instance: made instanceof WebSocketPair,
          sockets: Object.values(made).map((one) => one instanceof WebSocket),
          iterable: typeof made[Symbol.iterator],
          called: outcome(() => WebSocketPair()),
          tag: String(made),
          socket: String(made[0]),
          sameEnd: made[0] === made[0],
        }),
        [
          'keys: ["0", "1"]',
          "instance: true",
          "sockets: [true, true]",
          "iterable: function",
          "called: TypeError: Failed to construct 'WebSocketPair': Please use the 'new' operator, this object constructor cannot be called as a function.",
          "tag: [object WebSocketPair]",
          "socket: [object WebSocket]",
          "sameEnd: true",
        ],
      );
    },
    async "accept() may be called twice"() {
      const [a, b] = fresh();
      a.accept();
      equal(
        outcome(() => a.accept()),
        "ok",
      );
      b.accept();
      const got = next(b);
      a.send("once");
      equal((await got).data, "once");
    },
    "before accept()"() {
      const [a] = fresh();
      equal(
        lines({
          send: outcome(() => a.send("x")),
          close: outcome(() => a.close(1000)),
          "close with a bad code": outcome(() => a.close(5)),
          state: a.readyState,
        }),
        [
          "send: TypeError: You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.",
          "close: TypeError: You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.",
          "close with a bad code: InvalidAccessError: Invalid WebSocket close code: 5.",
          "state: 1",
        ],
      );
    },
    async "messages and a close wait for accept(), in order"() {
      const [a, b] = fresh();
      a.accept();
      for (let i = 0; i < 5; i++) a.send(`m${i}`);
      a.close(4000, "early");
      await tick();
      const seen = [];
      b.addEventListener("message", ({ data }) => seen.push(data));
      const closed = next(b, "close");
      b.accept();
      const { code } = await closed;
      equal([...seen, code], ["m0", "m1", "m2", "m3", "m4", 4000]);
    },
    async "a listener added after accept() in the same turn hears all"() {
      const [a, b] = pair();
      a.send("first");
      const seen = [];
      b.addEventListener("message", ({ data }) => seen.push(data));
      a.send("second");
      await tick();
      equal(seen, ["first", "second"]);
    },
    async "a listener that throws"() {
      const [a, b] = pair();
      const seen = [];
      b.addEventListener("error", (event) =>
        seen.push(`error ${event.message ?? ""}`),
      );
      b.addEventListener("close", ({ code }) => seen.push(`close ${code}`));
      b.addEventListener("message", ({ data }) => {
        seen.push(data);
        if (data === "throw") throw new Error("by the listener");
      });
      a.addEventListener("close", ({ code }) => seen.push(`a closed ${code}`));
      a.send("throw");
      a.send("after");
      await tick();
      equal(
        [seen, b.readyState],
        [
          ["throw", "error Uncaught Error: by the listener", "a closed 1006"],
          3,
        ],
      );
    },
    async "one listener that throws does not keep the others from hearing"() {
      const [a, b] = pair();
      const seen = [];
      b.addEventListener("message", () => {
        seen.push("one");
        throw new Error("by the first listener");
      });
      b.addEventListener("message", () => seen.push("two"));
      a.send("x");
      await tick();
      equal(seen, ["one", "two"]);
    },
    "attachments on a socket that is not hibernatable"() {
      const [a] = fresh();
      equal(
        [
          outcome(() => a.deserializeAttachment()),
          outcome(() => a.serializeAttachment({ x: 1 })),
          outcome(() => a.deserializeAttachment()),
        ],
        ["ok", "ok", "ok"],
      );
      equal(a.deserializeAttachment(), { x: 1 });
    },
    "errors of the constructor"() {
      const tries = {
        "no arguments": [],
        "no url": ["not a url"],
        ftp: ["ftp://example.com/"],
        fragment: ["ws://example.com/#part"],
        "empty fragment": ["ws://example.com/#"],
        "twice the same protocol": ["ws://127.0.0.1:1/", ["a", "a"]],
        "protocol with a blank": ["ws://127.0.0.1:1/", ["a b"]],
        "empty protocol": ["ws://127.0.0.1:1/", ""],
        credentials: ["ws://u:p@127.0.0.1:1/"],
      };
      const seen = {};
      for (const [what, args] of Object.entries(tries)) {
        seen[what] = outcome(() => {
          const socket = new WebSocket(...args);
          socket.addEventListener("error", () => {});
        });
      }
      equal(lines(seen), [
        "no arguments: TypeError: Failed to construct 'WebSocket': constructor parameter 1 is not of type 'string'.",
        "no url: SyntaxError: WebSocket Constructor: The url is invalid.",
        "ftp: SyntaxError: WebSocket Constructor: The url scheme must be ws or wss.",
        "fragment: SyntaxError: WebSocket Constructor: The url fragment must be empty.",
        "empty fragment: SyntaxError: WebSocket Constructor: The url fragment must be empty.",
        "twice the same protocol: SyntaxError: WebSocket Constructor: The protocols header cannot have repeating values.",
        "protocol with a blank: SyntaxError: WebSocket Constructor: One of the protocol header tokens is invalid.",
        "empty protocol: SyntaxError: WebSocket Constructor: The protocol header token is invalid.",
        "credentials: ok",
      ]);
    },
    async "a response takes a socket only fresh"() {
      const accepted = fresh();
      accepted[0].accept();
      const seen = {
        accepted: outcome(
          () => new Response(null, { status: 101, webSocket: accepted[0] }),
        ),
        "status 200": outcome(
          () => new Response(null, { webSocket: fresh()[0] }),
        ),
        "no socket": outcome(() => new Response(null, { status: 101 })),
        "not a socket": outcome(
          () => new Response(null, { status: 101, webSocket: {} }),
        ),
        "null socket": outcome(
          () => new Response(null, { status: 200, webSocket: null }),
        ),
        body: outcome(
          () => new Response("body", { status: 101, webSocket: fresh()[0] }),
        ),
      };
      const response = new Response(null, {
        status: 101,
        webSocket: fresh()[0],
      });
      seen.clone = outcome(() => response.clone());
      seen["read back"] = response.webSocket instanceof WebSocket;
      equal(lines(seen), [
        "accepted: ok",
        "status 200: RangeError: Responses with a WebSocket must have status code 101.",
        "no socket: RangeError: Responses may only be constructed with status codes in the range 200 to 599, inclusive.",
        "not a socket: TypeError: Incorrect type for the 'webSocket' field on 'InitializerDict': the provided value is not of type 'WebSocket'.",
        "null socket: ok",
        "body: TypeError: Response with null body status (101, 204, 205, or 304) cannot have a body.",
        "clone: TypeError: Cannot clone a response to a WebSocket handshake.",
        "read back: true",
      ]);
    },
    async "many messages keep their order in both directions"() {
      const [a, b] = pair();
      const [atA, atB] = [[], []];
      a.addEventListener("message", ({ data }) => atA.push(data));
      b.addEventListener("message", ({ data }) => atB.push(data));
      for (let i = 0; i < 500; i++) {
        a.send(`${i}`);
        b.send(`${i}`);
      }
      for (let i = 0; i < 200 && atA.length + atB.length < 1000; i++)
        await tick(20);
      const wanted = Array.from({ length: 500 }, (_, i) => `${i}`).join();
      equal([atA.join() === wanted, atB.join() === wanted], [true, true]);
    },
  },
});
