import bytes from "./bytes.bin";
import old from "./old.cjs";
import { twice } from "./other.js";
import text from "./text.txt";
import wasm from "./add.wasm";

export default {
  async fetch() {
    const lazy = await import("./lazy.js");
    const { exports } = new WebAssembly.Instance(wasm);
    return Response.json({
      bytes: [...new Uint8Array(bytes)],
      old,
      twice: twice(21),
      text,
      sum: exports.add(1, 2),
      lazy: lazy.name,
    });
  },
};
