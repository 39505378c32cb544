import license from "./license.txt";
import module from "./sums.wasm";

type Sums = {
  memory: WebAssembly.Memory;
  sum: (pointer: number, length: number) => number;
};

const instance = new WebAssembly.Instance(module);

export default {
  async fetch(request) {
    const { memory, sum } = instance.exports as Sums;
    const bytes = await request.bytes();
    new Uint8Array(memory.buffer).set(bytes);
    return Response.json({ sum: sum(0, bytes.length), license });
  },
} satisfies ExportedHandler;
