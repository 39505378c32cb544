// Measures storage calls of one object on celld beside workerd, in interleaved rounds:
//   node perf/storage.mjs [--celld PATH] [--rounds 7] [--only KIND]
//
// A request does the same work `times` times; the table has the fastest request of each, in
// milliseconds per time, and how many times as long celld took as workerd.
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { dev } from "../tests/support/celld.mjs";
import { startWorkerd } from "../tests/support/workerd.mjs";

const { values: options } = parseArgs({
  options: {
    celld: { type: "string", default: process.env.CELLD ?? "" },
    rounds: { type: "string", default: "7" },
    only: { type: "string", default: "" },
  },
});

const date = "2026-11-17";

/** How often a request does each kind of work. */
const work = {
  objects: 50,
  raw: 50,
  iterate: 50,
  one: 5_000,
  insert: 5_000,
  blobs: 5,
  puts: 1,
  awaitedPuts: 1,
  gets: 1,
  kvPuts: 1,
  kvGets: 1,
  list: 2,
};

function writeProject(root) {
  mkdirSync(root, { recursive: true });
  const source = new URL("storage/worker.js", import.meta.url);
  cpSync(fileURLToPath(source), join(root, "main.js"));
  const config = {
    name: "storage",
    main: "main.js",
    compatibility_date: date,
    durable_objects: { bindings: [{ name: "STORE", class_name: "Store" }] },
    migrations: [{ tag: "v1", new_sqlite_classes: ["Store"] }],
  };
  writeFileSync(join(root, "wrangler.json"), JSON.stringify(config));
}

async function ask(url) {
  const began = performance.now();
  const answer = await fetch(url);
  const text = await answer.text();
  if (text !== "done") throw new Error(text.slice(0, 300));
  return performance.now() - began;
}

async function measure(urls) {
  const fastest = {};
  for (const url of Object.values(urls)) await ask(url);
  const kinds = Object.keys(work).filter((kind) => kind.includes(options.only));
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const kind of kinds) {
      for (const [runtime, url] of Object.entries(urls)) {
        const ms = await ask(`${url}/?kind=${kind}&times=${work[kind]}`);
        const seen = ((fastest[kind] ??= {})[runtime] ??= Infinity);
        fastest[kind][runtime] = Math.min(seen, ms / work[kind]);
      }
    }
  }
  return fastest;
}

if (!options.celld) throw new Error("say where celld is: --celld PATH");
const root = mkdtempSync(join(tmpdir(), "celld-storage-"));
writeProject(root);
const worker = {
  name: "storage",
  date,
  flags: [],
  modules: [{ name: "main.js", kind: "esm", path: "main.js" }],
  objects: { STORE: "Store" },
  classes: [{ name: "Store", sqlite: true }],
};
const reference = await startWorkerd(root, [worker]);
const celld = await dev(options.celld, root);
try {
  const urls = { workerd: reference.urls.get("storage"), celld: celld.url };
  const fastest = await measure(urls);
  console.log("work           workerd ms    celld ms   celld/workerd");
  for (const [kind, { workerd, celld: own }] of Object.entries(fastest)) {
    const [a, b, c] = [
      workerd.toFixed(4),
      own.toFixed(4),
      (own / workerd).toFixed(2),
    ];
    console.log(
      `${kind.padEnd(12)}${a.padStart(13)}${b.padStart(12)}${c.padStart(16)}`,
    );
  }
} finally {
  await Promise.all([reference.handle.stop(), celld.handle.stop()]);
  rmSync(root, { recursive: true, force: true });
}
