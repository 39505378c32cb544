// Holds workerd and celld to the same assertions:
//   node tests/conformance/run.mjs [--runtime workerd|celld|both] [--celld PATH] [--json] [FILTER]
//   node tests/conformance/run.mjs --self-test [--runtime …]
//
// Without FILTER the planted faults run too: the runner shows that it can fail. What celld is known
// to lack stands in gaps.json.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { dev } from "../support/celld.mjs";
import { Client } from "../support/client.mjs";
import { checker, pool, print } from "../support/report.mjs";
import { startWorkerd } from "../support/workerd.mjs";
import { missedGapFaults, readGaps, withGaps } from "./gaps.mjs";
import { readCases, workerdWorker, writeProject } from "./project.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runtime: { type: "string", default: "both" },
    celld: { type: "string", default: process.env.CELLD ?? "" },
    json: { type: "boolean", default: false },
    jobs: { type: "string", default: "2" },
    "self-test": { type: "boolean", default: false },
  },
});

/** Runs the checks that the Worker holds itself. */
async function innerChecks(client, check) {
  const response = await client.fetch("/__checks");
  const body = await response.text();
  if (response.headers.get("x-checks") !== "1") return;
  for (const { name, kind } of JSON.parse(body)) {
    const query = new URLSearchParams({ name });
    await check(name, async () => {
      const answer = await client.fetch(`/__${kind}?${query}`);
      const text = await answer.text();
      if (answer.status !== 200) {
        throw new Error(`status ${answer.status}: ${text.slice(0, 500)}`);
      }
      const { ok, detail } = JSON.parse(text);
      if (!ok) throw new Error(detail);
    });
  }
}

async function runCase(test, url, runtime) {
  const results = [];
  const client = new Client(url, runtime);
  const { checkMs } = test.config;
  const check = checker(results, { case: test.name, runtime }, checkMs);
  try {
    await innerChecks(client, check);
    if (test.script) {
      const { default: checks } = await import(pathToFileURL(test.script));
      for (const [name, body] of Object.entries(checks)) {
        await check(name, () => body(client));
        client.dispose();
      }
    }
    if (results.length === 0) throw new Error("the case holds no check");
  } catch (error) {
    const detail = error.cause?.message ?? error.message;
    results.push({ case: test.name, runtime, verdict: "error", detail });
  }
  return results;
}

/** A case whose Worker must be refused: the text of the refusal is its only check. */
async function refused(test, runtime, begin) {
  const result = { case: test.name, check: "is refused", runtime };
  let stop;
  try {
    ({ stop } = await begin());
    result.verdict = "fail";
    result.detail = `expected a refusal that says ${JSON.stringify(test.config.starts)}, but it serves`;
  } catch (error) {
    const said = error.message.includes(test.config.starts);
    result.verdict = said ? "pass" : "fail";
    if (!said) {
      result.detail = `expected ${JSON.stringify(test.config.starts)} in: ${error.message}`;
    }
  } finally {
    await stop?.();
  }
  return [result];
}

async function workerdGroup(cases, directory) {
  mkdirSync(directory, { recursive: true });
  const workers = [];
  for (const test of cases) workers.push(await workerdWorker(test, directory));
  const { handle, urls } = await startWorkerd(directory, workers);
  return { urls, stop: () => handle.stop() };
}

async function aloneOnWorkerd(test, directory) {
  const begin = () => workerdGroup([test], join(directory, test.name));
  if (test.config.starts) return refused(test, "workerd", begin);
  try {
    const { urls, stop } = await begin();
    const results = await runCase(test, urls.get(test.name), "workerd");
    await stop();
    return results;
  } catch ({ message: detail }) {
    return [{ case: test.name, runtime: "workerd", verdict: "error", detail }];
  }
}

/** One process serves all cases but those that ask for one of their own. */
async function onWorkerd(cases, directory) {
  const isShared = ({ config }) => !config.alone && !config.starts;
  const shared = cases.filter(isShared);
  const alone = cases.filter((test) => !isShared(test));
  const results = [];
  if (shared.length > 0) {
    const { urls, stop } = await workerdGroup(shared, join(directory, "all"));
    const run = (test) => runCase(test, urls.get(test.name), "workerd");
    results.push(...(await pool(shared, 6, run)));
    await stop();
  }
  const run = (test) => aloneOnWorkerd(test, directory);
  results.push(...(await pool(alone, 2, run)));
  return results;
}

async function onCelld(cases, directory, celld) {
  return pool(cases, Number(options.jobs), async (test) => {
    const project = join(directory, test.name);
    writeProject(test, project);
    const begin = async () => {
      const { handle, url } = await dev(celld, project);
      return { url, handle, stop: () => handle.stop() };
    };
    if (test.config.starts) return refused(test, "celld", begin);
    let server;
    try {
      server = await begin();
    } catch (error) {
      const detail = error.message;
      return [{ case: test.name, runtime: "celld", verdict: "error", detail }];
    }
    const results = await runCase(test, server.url, "celld");
    await server.stop();
    for (const result of results) {
      if (result.verdict === "error")
        result.log = server.handle.output.slice(-3_000);
    }
    return results;
  });
}

async function runAll(directory, filter) {
  const cases = readCases(directory, filter);
  if (cases.length === 0) throw new Error(`no case is named like ${filter}`);
  const scratch = mkdtempSync(join(tmpdir(), "celld-conformance-"));
  const results = [];
  try {
    if (options.runtime !== "celld") {
      results.push(...(await onWorkerd(cases, join(scratch, "workerd"))));
    }
    if (options.runtime !== "workerd") {
      if (!options.celld) throw new Error("say where celld is: --celld PATH");
      results.push(
        ...(await onCelld(cases, join(scratch, "celld"), options.celld)),
      );
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return { cases, results };
}

/** Every planted case must fail on every runtime. */
function plantsFound({ cases, results }) {
  const caught = ({ name }) => {
    const own = results.filter((result) => result.case === name);
    return own.length > 0 && own.every(({ verdict }) => verdict !== "pass");
  };
  const missed = cases.filter((test) => !caught(test));
  for (const { name } of missed) console.log(`not caught: ${name}`);
  const gaps = missedGapFaults();
  for (const name of gaps) console.log(`not caught in gaps.json: ${name}`);
  console.error(`${cases.length} planted faults, ${missed.length} not caught`);
  return missed.length + gaps.length === 0;
}

/** Sets apart what celld is known to lack. */
function knowingGaps({ cases, results }) {
  const named = (list) => list.map(({ name }) => name);
  const all = named(readCases(at("cases"), ""));
  const ran = options.runtime === "workerd" ? [] : named(cases);
  const gaps = readGaps(at("gaps.json"));
  return { cases, results: withGaps(results, gaps, all, ran) };
}

const [filter = ""] = positionals;
let ok = true;
if (options["self-test"] || !filter) {
  ok = plantsFound(await runAll(at("planted"), "")) && ok;
}
if (!options["self-test"]) {
  const run = knowingGaps(await runAll(at("cases"), filter));
  ok = print(run, options.json) && ok;
}
process.exit(ok ? 0 : 1);
