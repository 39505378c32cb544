// The two runtimes as the runner sees them: a base URL, an end, and a boundary between phases.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { dev } from "../support/celld.mjs";
import { startWorkerd } from "../support/workerd.mjs";
import { workerdWorker, writeProject } from "./project.mjs";

/** How long an object may take to come to rest before it is evicted, in ms. */
const restMs = 10_000;

/** Lets every object go, or says how many do not. */
async function evictAll(url) {
  const response = await fetch(`${url}/cdn-cgi/celld/evict`, {
    method: "POST",
    signal: AbortSignal.timeout(restMs + 5_000),
  });
  const text = await response.text();
  if (response.status !== 200) {
    throw new Error(`the objects were not evicted: ${text.trim()}`);
  }
}

/** celld on the project of a case, whose data lies beside its code. */
export async function celldServer(celld, test, directory, after) {
  const project = join(directory, test.name);
  writeProject(test, project);
  const watch = !test.config.starts;
  const server = { ...(await dev(celld, project, { watch })) };
  server.stop = () => server.handle.stop();
  server.boundary = async () => {
    if (after === "evict") return evictAll(server.url);
    await server.handle.stop("SIGKILL");
    Object.assign(server, await dev(celld, project));
  };
  return server;
}

/** workerd with the Workers of several cases, each at a URL of its own. */
export async function workerdGroup(cases, directory) {
  mkdirSync(directory, { recursive: true });
  const workers = [];
  for (const test of cases) workers.push(await workerdWorker(test, directory));
  const { handle, urls } = await startWorkerd(directory, workers);
  return { urls, workers, handle, stop: () => handle.stop() };
}

/**
 * workerd with the Worker of one case. It evicts an object only when that has rested for ten
 * seconds, so the phases follow each other where celld evicts.
 */
export async function workerdServer(test, directory, after) {
  const own = join(directory, test.name);
  const group = await workerdGroup([test], own);
  const server = { handle: group.handle, url: group.urls.get(test.name) };
  server.stop = () => server.handle.stop();
  server.boundary = async () => {
    if (after === "evict") return;
    await server.handle.stop("SIGKILL");
    const { handle, urls } = await startWorkerd(own, group.workers);
    Object.assign(server, { handle, url: urls.get(test.name) });
  };
  return server;
}
