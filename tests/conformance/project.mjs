// Turns a case file into what each runtime takes: a Wrangler project, or a list of workerd modules.
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundle, kindOf } from "../support/bundle.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const defaultDate = "2026-11-17";

/**
 * Reads the cases of a directory whose name contains `filter`.
 *
 * A case is `<name>.js` (the Worker) with an optional first line `// config: {…}`:
 *
 * - `objects`: Durable Object bindings, `{ "PROBE": "Probe" }`; a binding of any class of the Worker
 * - `kv`: names of those classes that are KV-backed; all others are SQLite-backed
 * - `date`, `flags`: compatibility date and flags
 * - `vars`: variables, strings or JSON
 * - `services`: `[{ binding, entrypoint, props }]`, all of them of this Worker
 * - `bundle`: false to upload the files of `<name>.modules/` as they are, `main.js` first
 * - `checkMs`: time that one check may take
 * - `alone`: true when the case ends or starves its process
 * - `starts`: a text that the refusal to start contains
 * - `skip`: `{ "kill": "why" }` for a case that cannot cross that boundary (see run.mjs)
 * - `caughtAfter`: for a planted fault that only these boundaries show: `["evict", "kill"]`
 *
 * and an optional client script `<name>.test.mjs`. What its checks observe lies in
 * `<name>.seen.json`, and where celld differs on purpose in `<name>.differs.json` (see seen.mjs).
 */
export function readCases(directory, filter) {
  return readdirSync(directory)
    .filter((file) => file.endsWith(".js"))
    .map((file) => readCase(join(directory, file)))
    .filter(({ name }) => name.includes(filter))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function readCase(file) {
  const source = readFileSync(file, "utf8");
  const header = /^\/\/ config: (.*)$/m.exec(source.split("\n", 1)[0]);
  const config = header ? JSON.parse(header[1]) : {};
  const script = file.replace(/\.js$/, ".test.mjs");
  const differs = file.replace(/\.js$/, ".differs.json");
  return {
    name: basename(file, ".js"),
    file,
    differs: existsSync(differs)
      ? JSON.parse(readFileSync(differs, "utf8"))
      : {},
    script: existsSync(script) ? script : null,
    config: { date: defaultDate, flags: [], bundle: true, ...config },
  };
}

const classesOf = ({ config }) =>
  [...new Set(Object.values(config.objects ?? {}))].map((name) => ({
    name,
    sqlite: !(config.kv ?? []).includes(name),
  }));

function copySources(test, root) {
  mkdirSync(join(root, "cases"), { recursive: true });
  cpSync(join(here, "support"), join(root, "support"), { recursive: true });
  copyFileSync(test.file, join(root, "cases", basename(test.file)));
  const modules = test.file.replace(/\.js$/, ".modules");
  if (existsSync(modules)) {
    cpSync(modules, join(root, "cases", basename(modules)), {
      recursive: true,
    });
  }
}

/** Lays a Wrangler project for the case into `root`. */
export function writeProject(test, root) {
  copySources(test, root);
  const { config, name } = test;
  const classes = classesOf(test);
  const wrangler = {
    name,
    main: config.bundle ? `cases/${name}.js` : `cases/${name}.modules/main.js`,
    compatibility_date: config.date,
    compatibility_flags: config.flags,
  };
  if (config.vars) wrangler.vars = config.vars;
  if (config.services) {
    wrangler.services = config.services.map((s) => ({ service: name, ...s }));
  }
  if (!config.bundle) {
    wrangler.no_bundle = true;
    wrangler.rules = [
      { type: "ESModule", globs: ["**/*.js"] },
      { type: "CommonJS", globs: ["**/*.cjs"] },
    ];
  }
  if (classes.length > 0) {
    wrangler.durable_objects = {
      bindings: Object.entries(config.objects).map(([binding, class_name]) => ({
        name: binding,
        class_name,
      })),
    };
    const names = (sqlite) =>
      classes.filter((c) => c.sqlite === sqlite).map((c) => c.name);
    wrangler.migrations = [
      {
        tag: "v1",
        new_sqlite_classes: names(true),
        new_classes: names(false),
      },
    ];
  }
  writeFileSync(
    join(root, "wrangler.jsonc"),
    JSON.stringify(wrangler, null, 2),
  );
}

function plainModules(test, root) {
  const folder = join("cases", `${test.name}.modules`);
  const names = readdirSync(join(root, folder)).filter((f) => f !== "main.js");
  return ["main.js", ...names].map((name) => ({
    name,
    kind: kindOf[extname(name)],
    path: join(folder, name),
  }));
}

/** Lays the case's files into `root` and describes the Worker for `startWorkerd`. */
export async function workerdWorker(test, root) {
  copySources(test, root);
  const modules = test.config.bundle
    ? await bundle(root, `cases/${test.name}.js`, `out/${test.name}.js`)
    : plainModules(test, root);
  return { ...test.config, name: test.name, modules, classes: classesOf(test) };
}
