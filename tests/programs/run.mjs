// Real programs that must run unchanged:
//   node tests/programs/run.mjs [--runtime celld|workerd] [--celld PATH] [--json] [FILTER]
import { mkdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { workerdProject } from "../support/bundle.mjs";
import { dev } from "../support/celld.mjs";
import { checksOf, runChecks } from "../support/phases.mjs";
import { pool, print } from "../support/report.mjs";
import { startWorkerd } from "../support/workerd.mjs";
import { examples } from "./examples.mjs";
import {
  copyExample,
  copyProgram,
  fillTemplate,
  installPackages,
} from "./setup.mjs";
import { templates } from "./templates.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runtime: { type: "string", default: "celld" },
    celld: { type: "string", default: process.env.CELLD ?? "" },
    json: { type: "boolean", default: false },
  },
});

/** How long a phase of a check may take, in ms. */
const checkMs = 20_000;

/** How long a start may take, with the bundling of large packages by a build for debugging, in ms. */
const startMs = 120_000;

const ours = [
  "actors-counter",
  "agents-tasks",
  "capnweb",
  "drizzle-library",
  "hono-jsx",
  "itty-router",
  "partyserver-room",
  "wasm",
  "workers-qb-staff",
  "yjs-notes",
];

async function programs(store) {
  const list = templates.map(([path, checks]) => {
    const name = `template-${path.replaceAll("/", "-")}`;
    const lay = (target) => fillTemplate(store, path, name, target);
    return { name, checks, lay };
  });
  for (const name of ours) {
    const { default: checks } = await import(`./${name}/checks.mjs`);
    list.push({ name, checks, lay: (target) => copyProgram(name, target) });
  }
  for (const [name, checks] of examples) {
    const lay = (target) => copyExample(name, target);
    list.push({ name: `example-${name}`, checks, lay });
  }
  return list;
}

/** Serves a project; `boundary` kills the process and starts it again on its data. */
async function serve(project) {
  const server = {};
  let begin;
  if (options.runtime === "celld") {
    if (!options.celld) throw new Error("say where celld is: --celld PATH");
    begin = () => dev(options.celld, project, { startMs });
  } else {
    const worker = await workerdProject(project);
    begin = async () => {
      const { handle, urls } = await startWorkerd(project, [worker]);
      return { handle, url: urls.get(worker.name) };
    };
  }
  server.boundary = async () => {
    await server.handle?.stop("SIGKILL");
    Object.assign(server, await begin());
  };
  await server.boundary();
  return server;
}

/** Projects lie below the store, so that their imports find its packages. */
async function runProgram({ name, checks, lay }, scratch) {
  const project = join(scratch, name);
  lay(project);
  const about = { case: name, runtime: options.runtime };
  const list = checksOf(checks);
  // A program whose checks have phases is killed between them.
  if (list.some(({ phases }) => phases.length > 1)) about.after = "kill";
  let server;
  try {
    server = await serve(project);
    const results = await runChecks(list, server, about, checkMs, { load });
    const failed = results.find(({ verdict }) => verdict !== "pass");
    if (failed) failed.log = server.handle.output.slice(-3_000);
    return results;
  } catch ({ message: detail }) {
    const log = server?.handle.output.slice(-3_000);
    return [{ ...about, verdict: "error", detail, log }];
  } finally {
    await server?.handle.stop();
  }
}

const store = installPackages();
/** Loads a package of the store into a check. */
const load = createRequire(join(store, "package.json"));
const scratch = join(store, `run-${process.pid}`);
mkdirSync(scratch);
let ok = false;
try {
  const all = await programs(store);
  const cases = all.filter(({ name }) => name.includes(positionals[0] ?? ""));
  const results = await pool(cases, 2, (one) => runProgram(one, scratch));
  ok = print({ cases, results }, options.json) && results.length > 0;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(ok ? 0 : 1);
