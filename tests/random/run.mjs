// Runs random programs of storage calls on workerd and on celld and compares what they saw:
//   node tests/random/run.mjs [--celld PATH] [--count 1000] [--seed N] [--only N] [--shrink 200]
//
// The programs of --seed and the numbers after it, and those of seeds.json, where seeds that once
// found a difference are kept. --only runs one program, and prints what it saw; --shrink says how
// many smaller programs are tried to show a difference.
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { dev } from "../support/celld.mjs";
import { pool } from "../support/report.mjs";
import { startWorkerd } from "../support/workerd.mjs";
import { program } from "./generate.mjs";
import { shrink } from "./shrink.mjs";

const { values: options } = parseArgs({
  options: {
    celld: { type: "string", default: process.env.CELLD ?? "" },
    count: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
    shrink: { type: "string", default: "200" },
  },
});

const date = "2026-11-17";
const batch = 25;
/** Programs between two starts of the runtimes: each leaves a database behind. */
const perStart = 1_000;
/** Differences after which it is no use to go on. */
const enough = 5;

const interpreter = fileURLToPath(
  new URL("worker/interpreter.js", import.meta.url),
);

function writeProject(root) {
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, "main.js"), readFileSync(interpreter));
  const config = {
    name: "random",
    main: "main.js",
    compatibility_date: date,
    durable_objects: { bindings: [{ name: "MACHINE", class_name: "Machine" }] },
    migrations: [{ tag: "v1", new_sqlite_classes: ["Machine"] }],
  };
  writeFileSync(join(root, "wrangler.json"), JSON.stringify(config));
}

async function startBoth(scratch) {
  const root = mkdtempSync(join(scratch, "start-"));
  writeProject(root);
  const worker = {
    name: "random",
    date,
    flags: [],
    modules: [{ name: "main.js", kind: "esm", path: "main.js" }],
    objects: { MACHINE: "Machine" },
    classes: [{ name: "Machine", sqlite: true }],
  };
  const [reference, celld] = await Promise.all([
    startWorkerd(root, [worker]),
    dev(options.celld, root),
  ]);
  const stop = () =>
    Promise.all([reference.handle.stop(), celld.handle.stop()]);
  return { workerd: reference.urls.get("random"), celld: celld.url, stop };
}

async function run(url, programs, plant = false) {
  const body = JSON.stringify({ programs, plant });
  const answer = await fetch(url, { method: "POST", body });
  const text = await answer.text();
  if (answer.status !== 200) {
    throw new Error(`status ${answer.status}: ${text.slice(0, 300)}`);
  }
  return JSON.parse(text);
}

/** What both saw of some programs, in pairs. */
async function runBoth(servers, programs, plant) {
  const [workerd, celld] = await Promise.all([
    run(servers.workerd, programs),
    run(servers.celld, programs, plant),
  ]);
  return programs.map((it, i) => {
    return { program: it, workerd: workerd[i], celld: celld[i] };
  });
}

/** workerd breaks off where its own state is confused: nothing can be compared from there on. */
const brokeOff = ({ workerd }) =>
  /internal error/.test(JSON.stringify(workerd));

const differs = (pair) =>
  !brokeOff(pair) && !isDeepStrictEqual(pair.workerd, pair.celld);

function printPair({ program: { name, events }, workerd, celld }) {
  console.log(`\n── ${name} ──`);
  events.forEach((steps, i) => {
    console.log(`event ${i + 1}: ${JSON.stringify(steps)}`);
    const lines = Math.max(workerd[i].length, celld[i].length);
    for (let line = 0; line < lines; line++) {
      const [a, b] = [workerd[i][line], celld[i][line]];
      if (a === b) console.log(`    ${a}`);
      else console.log(`  w ${a ?? "(nothing)"}\n  c ${b ?? "(nothing)"}`);
    }
  });
}

async function report(servers, pair) {
  const again = async (it) => differs((await runBoth(servers, [it]))[0]);
  const small = await shrink(pair.program, again, Number(options.shrink));
  const named = { ...small, name: `${small.name}: shown small` };
  printPair((await runBoth(servers, [named]))[0]);
  console.log(
    `the whole of it: node tests/random/run.mjs --only ${pair.program.name.slice(5)}`,
  );
}

/** Runs the programs of some seeds and returns the pairs that differ, and how many broke off. */
async function compare(scratch, seeds, plant = false) {
  const found = [];
  let skipped = 0;
  for (
    let from = 0;
    from < seeds.length && found.length < enough;
    from += perStart
  ) {
    const part = seeds.slice(from, from + perStart);
    const batches = [];
    for (let i = 0; i < part.length; i += batch) {
      batches.push(part.slice(i, i + batch).map(program));
    }
    const servers = await startBoth(scratch);
    try {
      const pairs = await pool(batches, 4, (it) => runBoth(servers, it, plant));
      skipped += pairs.filter(brokeOff).length;
      const different = pairs.filter(differs);
      found.push(...different);
      if (!plant)
        for (const pair of different.slice(0, enough))
          await report(servers, pair);
    } finally {
      await servers.stop();
    }
  }
  return { found, skipped };
}

/** The generator, the comparison and the planted difference work. */
async function selfTest(scratch) {
  if (!isDeepStrictEqual(program(7), program(7))) {
    throw new Error("one seed gives two programs");
  }
  const seeds = Array.from({ length: 50 }, (_, i) => i + 1);
  const { found } = await compare(scratch, seeds, true);
  if (found.length === 0) throw new Error("the planted difference is not seen");
}

async function main(scratch) {
  if (options.only) {
    const servers = await startBoth(scratch);
    const [pair] = await runBoth(servers, [program(Number(options.only))]);
    await servers.stop();
    printPair(pair);
    return !differs(pair);
  }
  await selfTest(scratch);
  const kept = JSON.parse(readFileSync(new URL("seeds.json", import.meta.url)));
  const fresh = Array.from(
    { length: Number(options.count) },
    (_, i) => Number(options.seed) + i,
  );
  const seeds = [...kept.map(({ seed }) => seed), ...fresh];
  const { found, skipped } = await compare(scratch, seeds);
  console.log(
    `${seeds.length} programs: ${found.length} differ, ${skipped} broke off on workerd`,
  );
  return found.length === 0 && skipped < seeds.length / 10;
}

if (!options.celld) throw new Error("say where celld is: --celld PATH");
const scratch = mkdtempSync(join(tmpdir(), "celld-random-"));
let passed = false;
try {
  passed = await main(scratch);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(passed ? 0 : 1);
