import { posix } from "node:path";

export default {
  async "texts of slashes and dots, as Node.js has them"(t) {
    const { methods, results } = await t.json("/");
    t.equal(results.length, 364);
    for (const [text, ...seen] of results) {
      const wanted = methods.map((method) => posix[method](text));
      wanted.push(posix.basename(text, ".a"));
      wanted.push(posix.relative("/a/aa", posix.resolve("/", text)));
      t.equal(seen, wanted, JSON.stringify(text));
    }
  },
};
