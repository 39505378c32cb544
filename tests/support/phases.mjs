// Runs checks phase by phase, with a boundary between phases that memory does not cross: every
// object is evicted there, or the process is killed and starts again.
import { Client } from "./client.mjs";
import { within } from "./process.mjs";

const phaseMs = 10_000;

/** @typedef {{ name: string, phases: Function[], touch?: Function }} Check */

/** Checks from an object of functions, or lists of functions, by name. */
export const checksOf = (named) =>
  Object.entries(named).map(([name, check]) => {
    return { name, phases: Array.isArray(check) ? check : [check] };
  });

/** One check on its way through its phases. */
class Run {
  constructor(check, server, about, ms, more) {
    this.check = check;
    this.server = server;
    this.client = new Client(server.url, about.runtime, about.after);
    Object.assign(this.client, more);
    this.result = { ...about, check: check.name, verdict: "pass" };
    this.ms = ms;
    this.spent = 0;
  }

  async step(body, label) {
    if (this.result.verdict !== "pass") return;
    const began = performance.now();
    this.client.url = this.server.url;
    try {
      const work = Promise.resolve(body(this.client, this.state));
      this.state = await within(work, this.ms, "the check");
    } catch (error) {
      const cause = error.cause?.message ?? error.cause;
      const text = cause ? `${error.message} (${cause})` : error.message;
      this.result.verdict = "fail";
      this.result.detail = label ? `${label}: ${text}` : text;
    }
    this.spent += performance.now() - began;
  }

  end() {
    this.client.dispose();
    this.result.ms = Math.round(this.spent);
    return this.result;
  }
}

/** The steps of a check: in a run with boundaries it crosses one at least. */
function stepsOf({ phases, touch = () => null }, after) {
  const many = phases.length > 1;
  const steps = phases.map((body, i) => [body, many ? `phase ${i + 1}` : ""]);
  return after && !many ? [[touch, "touch"], ...steps] : steps;
}

/**
 * Runs checks on a server and returns their results. `about` is part of each result: `case`,
 * `runtime`, and `after`, what `server.boundary()` does between phases; without it they follow each
 * other. `more` is handed to the checks with the client, `ms` limits each phase.
 */
export async function runChecks(checks, server, about, ms = phaseMs, more) {
  const make = (check) => new Run(check, server, about, ms, more);
  const results = [];
  if (!about.after) {
    for (const check of checks) {
      const run = make(check);
      for (const step of stepsOf(check)) await run.step(...step);
      results.push(run.end());
    }
    return results;
  }
  const runs = checks.map(make);
  const steps = checks.map((check) => stepsOf(check, about.after));
  const rounds = Math.max(...steps.map((list) => list.length));
  for (let round = 0; round < rounds; round++) {
    if (round > 0) await server.boundary();
    for (const [i, run] of runs.entries()) {
      const step = steps[i][round];
      if (!step) continue;
      await run.step(...step);
      // What it leaves open, such as sockets, ends before the next check begins.
      if (round === steps[i].length - 1) results[i] = run.end();
    }
  }
  return results;
}
