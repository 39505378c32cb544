// Bundles a Wrangler project for the reference runtime, as Wrangler does: with esbuild.
import { readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { basename, extname, join, relative } from "node:path";
import { load } from "./deps.mjs";

/** The kind of module that Wrangler's default rules give a file. */
export const kindOf = {
  ".wasm": "wasm",
  ".txt": "text",
  ".html": "text",
  ".sql": "text",
  ".bin": "data",
  ".json": "json",
  ".cjs": "cjs",
  ".js": "esm",
};

/**
 * Leaves modules of Node.js to the runtime, by their names with `node:`. An ES module cannot
 * require them: a module that imports them stands in.
 */
const nodeModules = {
  name: "node-modules",
  setup(build) {
    const named = /^(node:)?[a-z_]+(\/[a-z]+)?$/;
    build.onResolve({ filter: named }, ({ path, kind }) => {
      if (!isBuiltin(path)) return undefined;
      const name = path.startsWith("node:") ? path : `node:${path}`;
      if (kind === "require-call") return { path: name, namespace: "required" };
      return { path: name, external: true };
    });
    build.onLoad({ filter: /.*/, namespace: "required" }, ({ path }) => ({
      contents: `import found from "${path}"; module.exports = found;`,
    }));
  },
};

/** workerd alone has no `cloudflare:email`; a class to be imported is enough here. */
const email = {
  name: "email",
  setup(build) {
    build.onResolve({ filter: /^cloudflare:email$/ }, ({ path }) => {
      return { path, namespace: "email" };
    });
    build.onLoad({ filter: /.*/, namespace: "email" }, () => {
      return { contents: "export class EmailMessage {}" };
    });
  },
};

/**
 * Bundles `entry` (relative to `root`) into `output` (relative to `root`), and returns the list of
 * modules that workerd is to embed; the main module comes first.
 */
export async function bundle(root, entry, output) {
  const extra = new Map();
  const rules = {
    name: "module-rules",
    setup(build) {
      build.onResolve({ filter: /\.(wasm|txt|html|sql|bin)$/ }, (args) => {
        const path = relative(root, join(args.resolveDir, args.path));
        const name = path.replaceAll("/", "-");
        extra.set(name, { name, kind: kindOf[extname(path)], path });
        return { path: `./${name}`, external: true };
      });
    },
  };
  await load("esbuild").build({
    entryPoints: [join(root, entry)],
    outfile: join(root, output),
    absWorkingDir: root,
    bundle: true,
    format: "esm",
    target: "esnext",
    keepNames: true,
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*"],
    logLevel: "silent",
    plugins: [rules, email, nodeModules],
  });
  return [
    { name: basename(output), kind: "esm", path: output },
    ...extra.values(),
  ];
}

/** Reads JSON with comments and trailing commas; the file is one of ours. */
export const readJsonc = (file) =>
  new Function(`return (${readFileSync(file, "utf8")})`)();

/** Bundles the Wrangler project in `directory` into it and describes it for `startWorkerd`. */
export async function workerdProject(directory) {
  const config = readJsonc(join(directory, "wrangler.jsonc"));
  const modules = await bundle(directory, config.main, "out/worker.js");
  const migrations = config.migrations ?? [];
  const bindings = config.durable_objects?.bindings ?? [];
  const sqlite = migrations.flatMap((m) => m.new_sqlite_classes ?? []);
  const kv = migrations.flatMap((m) => m.new_classes ?? []);
  return {
    name: config.name,
    date: config.compatibility_date,
    flags: config.compatibility_flags ?? [],
    vars: config.vars,
    objects: Object.fromEntries(bindings.map((b) => [b.name, b.class_name])),
    classes: [
      ...sqlite.map((name) => ({ name, sqlite: true })),
      ...kv.map((name) => ({ name, sqlite: false })),
    ],
    modules,
  };
}
