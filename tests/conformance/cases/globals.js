// config: {"vars": {"V": "v"}}
import { equal, rejects, suite, throws } from "../support/check.js";

export default suite({
  worker: {
    "navigator and self"() {
      equal(navigator.userAgent, "Cloudflare-Workers");
      equal(
        [self === globalThis, typeof caches, typeof performance.now()],
        [true, "object", "number"],
      );
    },
    "eval and new Function are refused"() {
      throws(() => eval("1"), {
        name: "EvalError",
        message: "Code generation from strings disallowed for this context",
      });
      throws(() => new Function("return 1"), { name: "EvalError" });
    },
    async "WebAssembly is not compiled from bytes"() {
      const bytes = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
      await rejects(WebAssembly.compile(bytes), { name: "CompileError" });
      throws(() => new WebAssembly.Module(bytes), { name: "CompileError" });
    },
    "there is no document, window or Deno"() {
      equal(
        [typeof document, typeof window, typeof Deno],
        ["undefined", "undefined", "undefined"],
      );
    },
    "names of the platform's classes"() {
      const names = [
        "WebSocketPair",
        "WebSocket",
        "IdentityTransformStream",
        "FixedLengthStream",
        "ReadableStreamBYOBReader",
        "CompressionStream",
        "TextDecoderStream",
        "URLPattern",
        "CryptoKey",
        "FormData",
        "File",
        "Blob",
        "AbortSignal",
        "DOMException",
        "CustomEvent",
        "MessageChannel",
        "ReadableByteStreamController",
        "TransformStreamDefaultController",
        "ByteLengthQueuingStrategy",
        "CountQueuingStrategy",
        "WritableStreamDefaultWriter",
      ];
      equal(
        names.filter((name) => typeof globalThis[name] !== "function"),
        [],
      );
    },
    "names of caches, HTMLRewriter and EventSource"() {
      const names = ["HTMLRewriter", "Cache", "CacheStorage", "EventSource"];
      equal(
        names.filter((name) => typeof globalThis[name] !== "function"),
        [],
      );
    },
    "Object.prototype.toString of platform objects"() {
      equal(
        [`${new Headers()}`, `${new Request("http://a")}`, `${new Response()}`],
        ["[object Headers]", "[object Request]", "[object Response]"],
      );
    },
    async "subclasses of Request and Response work"() {
      class Mine extends Response {
        get twice() {
          return this.status * 2;
        }
      }
      const mine = new Mine("x", { status: 201 });
      equal(
        [mine.twice, await mine.text(), mine instanceof Response],
        [402, "x", true],
      );
    },
    async "reportError does not end the request"() {
      reportError(new Error("reported"));
      await Promise.resolve();
    },
  },
});
