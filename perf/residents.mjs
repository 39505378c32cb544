// Memory per resident object, beside workerd:
//   node perf/residents.mjs --celld PATH [--cells 1000] [--runtime celld|workerd|both]
//
// Each object holds a few values in memory; the "stored" ones have written one row, too. "active" is
// measured right after the last object was made; "parked" when none has had an event for 15 s, with
// a timer that keeps it in memory; "asleep" the same without a timer. Resident memory of the process, divided by
// the objects, so each has its share of its isolate.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { dev } from "../tests/support/celld.mjs";
import { startWorkerd } from "../tests/support/workerd.mjs";
import { rssBytes } from "./process-tree.mjs";

const { values: options } = parseArgs({
  options: {
    celld: { type: "string", default: process.env.CELLD ?? "" },
    cells: { type: "string", default: "1000" },
    runtime: { type: "string", default: "both" },
  },
});
const cells = Number(options.cells);
/** Longer than it takes an object to rest, and shorter than it takes one to leave. */
const REST_MS = 15_000;
const AT_ONCE = 32;

const source = `import { DurableObject } from "cloudflare:workers";
export class Cell extends DurableObject {
  held = { list: [1, 2, 3], text: "a few values" };
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname.includes("stored")) await this.ctx.storage.put("k", 1);
    if (pathname.includes("timer")) this.timer ??= setInterval(() => {}, 3_600_000);
    return new Response("ok");
  }
}
export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/") return new Response("ready");
    return env.CELL.getByName(pathname).fetch(request);
  },
};
`;

async function startCelld(folder) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "index.js"), source);
  const config = {
    name: "residents",
    main: "index.js",
    compatibility_date: "2026-06-01",
    durable_objects: { bindings: [{ name: "CELL", class_name: "Cell" }] },
    migrations: [{ tag: "v1", new_sqlite_classes: ["Cell"] }],
  };
  writeFileSync(join(folder, "wrangler.json"), JSON.stringify(config));
  return dev(options.celld, folder);
}

async function startReference(folder) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "index.js"), source);
  const worker = {
    name: "residents",
    date: "2026-06-01",
    flags: [],
    objects: { CELL: "Cell" },
    classes: [{ name: "Cell", sqlite: true }],
    modules: [{ name: "index.js", kind: "esm", path: "index.js" }],
  };
  const { handle, urls } = await startWorkerd(folder, [worker]);
  return { handle, url: urls.get("residents") };
}

async function ask(url) {
  const response = await fetch(url);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${url}: ${text}`);
}

/** Makes the objects, a few at once. */
async function makeAll(url, kind) {
  let next = 0;
  const maker = async () => {
    while (next < cells) await ask(`${url}/${kind}/${next++}`);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, maker));
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const perCell = (bytes, before) =>
  `${((bytes - before) / cells / 1024).toFixed(1)} KiB`;

async function measure(name, begin, kind) {
  const folder = mkdtempSync(join(tmpdir(), "celld-residents-"));
  const { handle, url } = await begin(join(folder, "project"));
  try {
    const { pid } = handle.child;
    await ask(`${url}/${kind}/first`);
    const before = rssBytes(pid);
    const begun = performance.now();
    await makeAll(url, kind);
    const seconds = (performance.now() - begun) / 1000;
    const active = rssBytes(pid);
    await sleep(REST_MS);
    const later = rssBytes(pid);
    const state = kind.includes("timer") ? "parked" : "asleep";
    console.log(
      `${name}  ${cells} cells  ${kind}: active ${perCell(active, before)}, ${state} ${perCell(later, before)} (made in ${seconds.toFixed(1)} s)`,
    );
  } finally {
    await handle.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

for (const kind of ["stored-timer", "stored", "plain-timer"]) {
  if (options.runtime !== "workerd") await measure("celld  ", startCelld, kind);
  if (options.runtime !== "celld") {
    await measure("workerd", startReference, kind);
  }
}
process.exit(0);
