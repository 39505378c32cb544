// Runs the checks of a case phase by phase, with a boundary between phases that memory does not
// cross: every object is evicted there, or the process is killed and starts again.
import { pathToFileURL } from "node:url";
import { Client } from "../support/client.mjs";
import { within } from "../support/process.mjs";

const checkMs = 10_000;

/** Asks the Worker to run one phase of a check that it holds. */
async function innerPhase(client, path, parameters) {
  const answer = await client.fetch(
    `${path}?${new URLSearchParams(parameters)}`,
  );
  const text = await answer.text();
  if (answer.status !== 200) {
    throw new Error(`status ${answer.status}: ${text.slice(0, 500)}`);
  }
  const { ok, detail, state } = JSON.parse(text);
  if (!ok) throw new Error(detail);
  return state;
}

/** The checks that the Worker holds itself: each a name, its phases, and what prepares it. */
async function innerChecks(client) {
  const response = await client.fetch("/__checks");
  const body = await response.text();
  if (response.headers.get("x-checks") !== "1") return [];
  return JSON.parse(body).map(({ name, kind, phases }) => ({
    name,
    phases: Array.from(
      { length: phases },
      (_, phase) => (own, before) =>
        innerPhase(own, `/__${kind}`, {
          name,
          phase,
          before: JSON.stringify(before ?? null),
        }),
    ),
    touch: (own) =>
      kind === "object" ? innerPhase(own, "/__touch", { name }) : null,
  }));
}

async function scriptChecks(script) {
  if (!script) return [];
  const { default: checks } = await import(pathToFileURL(script));
  return Object.entries(checks).map(([name, check]) => ({
    name,
    phases: Array.isArray(check) ? check : [check],
    touch: () => null,
  }));
}

/** One check on its way through its phases. */
class Run {
  constructor(check, server, about, ms) {
    this.check = check;
    this.server = server;
    this.client = new Client(server.url, about.runtime, about.after);
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
function stepsOf({ phases, touch }, after) {
  const many = phases.length > 1;
  const steps = phases.map((body, i) => [body, many ? `phase ${i + 1}` : ""]);
  return after && !many ? [[touch, "touch"], ...steps] : steps;
}

/**
 * Runs every check of a case on a server and returns the results. `about` holds `case`, `runtime`
 * and `after`: what `server.boundary()` does between phases; without it they follow each other.
 */
export async function runCase(test, server, about) {
  const ms = test.config.checkMs ?? checkMs;
  const checks = [
    ...(await innerChecks(new Client(server.url, about.runtime))),
    ...(await scriptChecks(test.script)),
  ];
  if (checks.length === 0) throw new Error("the case holds no check");
  if (!about.after) {
    const results = [];
    for (const check of checks) {
      const run = new Run(check, server, about, ms);
      for (const [body, label] of stepsOf(check)) await run.step(body, label);
      results.push(run.end());
    }
    return results;
  }
  const runs = checks.map((check) => new Run(check, server, about, ms));
  const steps = checks.map((check) => stepsOf(check, about.after));
  const rounds = Math.max(...steps.map((list) => list.length));
  const results = [];
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
