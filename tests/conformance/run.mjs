// Holds workerd and celld to the same assertions:
//   node tests/conformance/run.mjs [--runtime workerd|celld|both] [--celld PATH] [--after evict|kill]
//                                  [--json] [--results FILE] [--page write|check] [FILTER]
//   node tests/conformance/run.mjs --self-test [--runtime …] [--after …]
//   node tests/conformance/run.mjs --record --runtime workerd|celld FILTER
//
// With --after, what the cases do crosses a boundary: `evict` lets every object go before the last
// phase of each check, `kill` kills the process with signal 9 and starts it again on its data.
// --page writes the pages of docs/ that come from the results, or holds them to the results.
// Without FILTER the planted faults run too: the runner shows that it can fail. What celld is known
// to lack stands in gaps.json. --record writes down what checks observe (see seen.mjs).
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { pool, print } from "../support/report.mjs";
import { missedGapFaults, readGaps, withGaps } from "./gaps.mjs";
import { runCase } from "./checks.mjs";
import { missedPageFaults, updatePages } from "./page.mjs";
import { readCases } from "./project.mjs";
import { celldServer, workerdGroup, workerdServer } from "./servers.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runtime: { type: "string", default: "both" },
    celld: { type: "string", default: process.env.CELLD ?? "" },
    after: { type: "string", default: "" },
    results: { type: "string", default: "" },
    page: { type: "string", default: "" },
    json: { type: "boolean", default: false },
    jobs: { type: "string", default: "2" },
    "self-test": { type: "boolean", default: false },
    record: { type: "boolean", default: false },
  },
});
const { after } = options;
const runsOn = (runtime) =>
  options.runtime === "both" || options.runtime === runtime;

function checkOptions() {
  if (!["workerd", "celld", "both"].includes(options.runtime)) {
    throw new Error("--runtime is workerd, celld or both");
  }
  if (!["", "evict", "kill"].includes(after)) {
    throw new Error("--after is evict or kill");
  }
  if (!["", "write", "check"].includes(options.page)) {
    throw new Error("--page is write or check");
  }
  if (options.page && (after || positionals.length > 0)) {
    throw new Error("--page wants the results of every case, without --after");
  }
  if (options.record && (options.runtime === "both" || !positionals[0])) {
    throw new Error("--record wants one runtime and the name of a case");
  }
  if (runsOn("celld") && !options.celld) {
    throw new Error("say where celld is: --celld PATH");
  }
}

/** A case whose Worker must be refused: the text of the refusal is its only check. */
async function refused(test, about, begin) {
  const result = { ...about, check: "is refused", verdict: "pass" };
  const wanted = JSON.stringify(test.config.starts);
  try {
    const { stop } = await begin();
    await stop();
    result.verdict = "fail";
    result.detail = `expected a refusal that says ${wanted}, but it serves`;
  } catch ({ message }) {
    if (message.includes(test.config.starts)) return [result];
    result.verdict = "fail";
    result.detail = `expected ${wanted} in: ${message}`;
  }
  return [result];
}

/** Runs a case on a server of its own. */
async function alone(test, runtime, begin) {
  const about = { case: test.name, runtime, ...(after && { after }) };
  if (test.config.starts) return refused(test, about, begin);
  let server;
  try {
    server = await begin();
    return await runCase(test, server, about);
  } catch (error) {
    const detail = error.cause?.message ?? error.message;
    const log = server?.handle.output.slice(-3_000);
    return [{ ...about, verdict: "error", detail, log }];
  } finally {
    await server?.stop();
  }
}

/** One process serves all cases but those that ask for one of their own. */
async function onWorkerd(cases, directory) {
  const isShared = ({ config }) => !after && !config.alone && !config.starts;
  const shared = cases.filter(isShared);
  const results = [];
  if (shared.length > 0) {
    const { urls, handle, stop } = await workerdGroup(
      shared,
      join(directory, "all"),
    );
    const begin = (test) => async () => {
      return { url: urls.get(test.name), handle, stop() {} };
    };
    const run = (test) => alone(test, "workerd", begin(test));
    results.push(...(await pool(shared, 6, run)));
    await stop();
  }
  const rest = cases.filter((test) => !isShared(test));
  const begin = (test) => () => workerdServer(test, directory, after);
  const run = (test) => alone(test, "workerd", begin(test));
  results.push(...(await pool(rest, 2, run)));
  return results;
}

function onCelld(cases, directory) {
  const begin = (test) => () =>
    celldServer(options.celld, test, directory, after);
  const run = (test) => alone(test, "celld", begin(test));
  return pool(cases, Number(options.jobs), run);
}

/** Whether a case has something that could cross the boundary. */
const crosses = ({ config }) =>
  !after || (config.objects && !config.starts && !config.skip?.[after]);

async function runAll(cases) {
  const scratch = mkdtempSync(join(tmpdir(), "celld-conformance-"));
  const results = [];
  try {
    if (runsOn("workerd")) {
      results.push(...(await onWorkerd(cases, join(scratch, "workerd"))));
    }
    if (runsOn("celld")) {
      results.push(...(await onCelld(cases, join(scratch, "celld"))));
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return { cases, results };
}

/** Every planted case must fail on every runtime; one that needs a boundary names which. */
async function plantsFound() {
  const planted = readCases(at("planted"), "").filter(({ config }) =>
    config.caughtAfter
      ? config.caughtAfter.includes(after)
      : !after || config.objects,
  );
  const { results } = await runAll(planted);
  const caught = ({ name }) => {
    const own = results.filter((result) => result.case === name);
    return own.length > 0 && own.every(({ verdict }) => verdict !== "pass");
  };
  const missed = planted.filter((test) => !caught(test));
  for (const { name } of missed) console.log(`not caught: ${name}`);
  const gaps = missedGapFaults();
  for (const name of gaps) console.log(`not caught in gaps.json: ${name}`);
  const pages = missedPageFaults();
  for (const name of pages) console.log(`not shown by the pages: ${name}`);
  console.error(
    `${planted.length} planted faults, ${missed.length} not caught`,
  );
  return missed.length + gaps.length + pages.length === 0;
}

/** Runs the cases, and sets apart what celld is known to lack. */
async function casesPass(filter) {
  const cases = readCases(at("cases"), filter).filter(crosses);
  if (cases.length === 0) throw new Error(`no case is named like ${filter}`);
  for (const test of cases) test.record = options.record;
  const run = await runAll(cases);
  const named = (list) => list.map(({ name }) => name);
  const all = named(readCases(at("cases"), ""));
  const ran = runsOn("celld") ? named(cases) : [];
  const results = withGaps(run.results, readGaps(at("gaps.json")), all, ran);
  if (options.results) {
    writeFileSync(options.results, JSON.stringify(results, null, 1));
  }
  const passed = print({ cases, results }, options.json);
  return options.page ? pagesFit(cases, results) && passed : passed;
}

/** Writes the pages, or holds them to the results. Which checks fail is for gaps.json to say. */
function pagesFit(cases, results) {
  if (results.some(({ verdict }) => verdict === "error")) {
    console.log("the pages need cases that all start: their checks are listed");
    return false;
  }
  const read = (name) => JSON.parse(readFileSync(at(name), "utf8"));
  const [gaps, features] = [read("gaps.json"), read("features.json")];
  const stale = updatePages(options.page, { cases, results, gaps, features });
  for (const name of stale) {
    console.log(
      `${name} is out of date: node tests/conformance/run.mjs --runtime workerd --page write`,
    );
  }
  return stale.length === 0;
}

checkOptions();
const [filter = ""] = positionals;
let ok = true;
if (options["self-test"] || !filter) ok = await plantsFound();
if (!options["self-test"]) ok = (await casesPass(filter)) && ok;
process.exit(ok ? 0 : 1);
