// Real programs that must run unchanged:
//   node tests/programs/run.mjs [--runtime celld|workerd] [--celld PATH] [--json] [FILTER]
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { workerdProject } from "../support/bundle.mjs";
import { dev } from "../support/celld.mjs";
import { Client } from "../support/client.mjs";
import { checker, pool, print } from "../support/report.mjs";
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

const ours = ["hono-jsx", "partyserver-room", "itty-router", "wasm"];

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

async function serve(project) {
  if (options.runtime === "celld") {
    if (!options.celld) throw new Error("say where celld is: --celld PATH");
    return dev(options.celld, project);
  }
  const worker = await workerdProject(project);
  const { handle, urls } = await startWorkerd(project, [worker]);
  return { handle, url: urls.get(worker.name) };
}

/** Projects lie below the store, so that their imports find its packages. */
async function runProgram({ name, checks, lay }, scratch) {
  const project = join(scratch, name);
  lay(project);
  const about = { case: name, runtime: options.runtime };
  const results = [];
  let server;
  try {
    server = await serve(project);
  } catch ({ message: detail }) {
    return [{ ...about, verdict: "error", detail }];
  }
  const client = new Client(server.url, options.runtime);
  const check = checker(results, about);
  for (const [title, body] of Object.entries(checks)) {
    await check(title, () => body(client));
    client.dispose();
  }
  await server.handle.stop();
  const failed = results.find(({ verdict }) => verdict !== "pass");
  if (failed) failed.log = server.handle.output.slice(-3_000);
  return results;
}

const store = installPackages();
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
