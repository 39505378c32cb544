import { equal, suite } from "../support/check.js";
import wasm from "./modules-bundled.modules/add.wasm";
import bytes from "./modules-bundled.modules/bytes.bin";
import data from "./modules-bundled.modules/data.json";
import { tree } from "./modules-bundled.modules/jsx.tsx";
import old, { answer } from "./modules-bundled.modules/old.cjs";
import page from "./modules-bundled.modules/page.html";
import schema from "./modules-bundled.modules/schema.sql";
import text from "./modules-bundled.modules/text.txt";

export default suite({
  worker: {
    "text modules are strings"() {
      equal([text, page, schema], ["grüße\n", "<p>hi</p>\n", "SELECT 1;\n"]);
    },
    "data modules are ArrayBuffers"() {
      equal(bytes, new Uint8Array([0, 255, 128, 7]).buffer);
    },
    "JSON modules are values"() {
      equal(data, { a: [1, null], b: "ü" });
    },
    async "wasm modules are compiled modules"() {
      equal(wasm instanceof WebAssembly.Module, true);
      const { exports } = await WebAssembly.instantiate(wasm);
      equal(exports.add(2, 40), 42);
      equal(new WebAssembly.Instance(wasm).exports.add(1, 1), 2);
    },
    "CommonJS modules have a default and named exports"() {
      equal([old.answer, answer, old.where], [42, 42, "object"]);
    },
    "TypeScript and JSX are compiled"() {
      equal(tree, { tag: "p", props: { class: "red" }, children: ["hi"] });
    },
    async "dynamic import gives the same module"() {
      const again = await import("./modules-bundled.modules/old.cjs");
      equal(again.default.answer, 42);
    },
  },
});
