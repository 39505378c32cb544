// Measures celld beside workerd, in interleaved rounds, and prints a table and JSON:
//   node perf/bench.mjs [--celld PATH] [--rounds 5] [--seconds 3] [--only celld,workerd] [--json FILE]
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, release, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { workerdProject } from "../tests/support/bundle.mjs";
import { dev, finish, run } from "../tests/support/celld.mjs";
import { startWorkerd } from "../tests/support/workerd.mjs";
import { cpuSeconds, rssBytes } from "./process-tree.mjs";
import { load, prepareClient } from "./load.mjs";
import { printTable } from "./table.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const cells = 1_000;
const connections = 8;

const { values: options } = parseArgs({
  options: {
    celld: { type: "string", default: process.env.CELLD ?? "" },
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "3" },
    only: { type: "string", default: "celld,workerd" },
    json: { type: "string", default: "" },
  },
});
const seconds = Number(options.seconds);

function counterProject(scratch) {
  const project = join(scratch, "counter");
  const filter = (path) => !path.endsWith("/.celld");
  cpSync(join(root, "examples/counter"), project, { recursive: true, filter });
  return project;
}

/** Each runtime: start it on the counter, its data in `data`, and say when it answered first. */
const runtimes = {
  async celld(project, data) {
    const bucket = `file://${join(data, "bucket")}`;
    const deploy = await finish(options.celld, [
      "deploy",
      project,
      "--bucket",
      bucket,
    ]);
    if (deploy.code !== 0)
      throw new Error(`celld deploy failed:\n${deploy.output}`);
    return firstAnswer(() =>
      run(options.celld, bucket, { readyPath: "/ready" }),
    );
  },
  async workerd(project, data) {
    const worker = await workerdProject(project);
    cpSync(project, data, { recursive: true });
    return firstAnswer(async () => {
      const { handle, urls } = await startWorkerd(data, [worker]);
      const url = urls.get(worker.name);
      await (await fetch(`${url}/ready`)).text();
      return { handle, url };
    });
  },
};

async function firstAnswer(begin) {
  const began = performance.now();
  const server = await begin();
  return { ...server, startMs: performance.now() - began };
}

/** CPU time and latency of one kind of request. */
async function measure(server, method) {
  const pid = server.handle.child.pid;
  const port = new URL(server.url).port;
  const common = { port, method, connections, path: "/client-{connection}" };
  await load({ ...common, seconds: Math.min(1, seconds / 3) });
  const before = cpuSeconds(pid);
  const result = await load({ ...common, seconds });
  const used = cpuSeconds(pid) - before;
  if (result.errors > 0) {
    throw new Error(`${result.errors} errors:\n${server.handle.output}`);
  }
  return {
    p50: result.p50_us,
    p99: result.p99_us,
    cpu: (used / result.requests) * 1e6,
    rate: result.requests / result.seconds,
  };
}

async function round(name, project, data) {
  const server = await runtimes[name](project, data);
  const pid = server.handle.child.pid;
  const port = new URL(server.url).port;
  const values = { start: server.startMs, "rss 1": rssBytes(pid) / 2 ** 20 };
  for (const [kind, method] of [
    ["read", "GET"],
    ["write", "POST"],
  ]) {
    const seen = await measure(server, method);
    for (const [key, value] of Object.entries(seen)) {
      values[`${kind} ${key}`] = value;
    }
  }
  await server.handle.stop("SIGTERM");
  Object.assign(values, await memory(name, project, `${data}-cells`));
  return values;
}

/** Memory of a fresh process with one isolate, and again with many cells. */
async function memory(name, project, data) {
  mkdirSync(data, { recursive: true });
  const server = await runtimes[name](project, data);
  const pid = server.handle.child.pid;
  const port = new URL(server.url).port;
  const common = { port, method: "POST", connections };
  await load({ ...common, path: "/cell-0", requests: 8 });
  const one = rssBytes(pid);
  await load({ ...common, path: "/cell-{request}", requests: cells });
  const many = rssBytes(pid);
  await server.handle.stop("SIGTERM");
  return {
    "rss first cell": one / 2 ** 20,
    "rss cells": many / 2 ** 20,
    "rss per cell": (many - one) / (cells - 1) / 1024,
  };
}

/** `celld dev` on a project that was built before. */
async function warmDev(project) {
  const started = await firstAnswer(() =>
    dev(options.celld, project, { readyPath: "/ready" }),
  );
  await started.handle.stop("SIGTERM");
  return started.startMs;
}

async function main() {
  const names = options.only.split(",");
  if (names.includes("celld") && !options.celld) {
    throw new Error("say where celld is: --celld PATH, or `cargo xtask bench`");
  }
  prepareClient(root);
  const scratch = mkdtempSync(join(tmpdir(), "celld-bench-"));
  const results = Object.fromEntries(names.map((name) => [name, []]));
  try {
    const project = counterProject(scratch);
    if (names.includes("celld")) await warmDev(project);
    for (let number = 0; number < Number(options.rounds); number++) {
      for (const name of names) {
        const data = join(scratch, `${name}-${number}`);
        mkdirSync(data, { recursive: true });
        const values = await round(name, project, data);
        if (name === "celld") values["start dev"] = await warmDev(project);
        results[name].push(values);
        console.error(`round ${number + 1}: ${name} measured`);
      }
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  const host = {
    cpu: cpus()[0].model,
    cores: cpus().length,
    memoryBytes: totalmem(),
    kernel: release(),
  };
  printTable(host, results);
  const report = { host, rounds: Number(options.rounds), seconds, results };
  if (options.json)
    writeFileSync(options.json, JSON.stringify(report, null, 2));
  else console.log(JSON.stringify(report));
}

await main();
