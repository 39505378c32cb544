import path from "node:path";
import posix from "node:path/posix";
import os, { EOL } from "node:os";
import { equal, suite, throws } from "../support/check.js";

/** Every text of up to five characters of `/`, `.` and `a`. */
function texts() {
  let last = [""];
  const all = [""];
  for (let length = 1; length <= 5; length++) {
    last = last.flatMap((text) => [`${text}/`, `${text}.`, `${text}a`]);
    all.push(...last);
  }
  return all;
}

export default suite({
  worker: {
    "path is path/posix"() {
      equal([path === posix, path.posix === posix], [true, true]);
      equal([path.sep, path.delimiter], ["/", ":"]);
    },
    "join, resolve, relative"() {
      equal(path.join("a", "..", "..", "b", ""), "../b");
      equal(path.join(), ".");
      equal(path.resolve("/a", "b", "../c"), "/a/c");
      equal(path.resolve("/a", "/b"), "/b");
      equal(path.resolve("x"), "/x");
      equal(path.relative("/a/b/c", "/a/d"), "../../d");
    },
    "basename with a suffix, format"() {
      equal(path.basename("/a/b.html", ".html"), "b");
      equal(path.basename(".html", ".html"), "");
      equal(path.basename("a/.html", ".html"), ".html");
      equal(path.format({ dir: "/d", name: "n", ext: "x" }), "/d/n.x");
      equal(path.format({ root: "/", base: "b" }), "/b");
    },
    "what is no text is refused"() {
      const of = (run, name, seen) =>
        throws(run, {
          name: "TypeError",
          code: "ERR_INVALID_ARG_TYPE",
          message: `The "${name}" argument must be of type string. Received ${seen}`,
        });
      of(() => path.join("a", 5), "path", "type number (5)");
      of(() => path.dirname(undefined), "path", "undefined");
      of(() => path.basename({}), "path", "an instance of Object");
    },
    "the machine"() {
      equal(
        [EOL, os.EOL, os.platform(), os.type(), os.arch(), os.endianness()],
        ["\n", "\n", "linux", "Linux", "x64", "LE"],
      );
      equal(
        [os.cpus(), os.hostname(), os.tmpdir(), os.availableParallelism()],
        [[], "localhost", "/tmp/", 1],
      );
    },
  },
  fallback() {
    const methods = [
      "normalize",
      "dirname",
      "basename",
      "extname",
      "isAbsolute",
      "parse",
    ];
    const results = texts().map((text) => [
      text,
      ...methods.map((method) => path[method](text)),
      path.basename(text, ".a"),
      path.relative("/a/aa", text),
    ]);
    return Response.json({ methods, results });
  },
});
