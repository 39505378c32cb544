// The checks of a case: those that its Worker holds, and those of its client script.
import { pathToFileURL } from "node:url";
import { Client } from "../support/client.mjs";
import { checksOf, runChecks } from "../support/phases.mjs";
import { Observations } from "./seen.mjs";

/**
 * Asks the Worker to run one phase of a check that it holds. `judge` gets what the last phase
 * observed.
 */
async function innerPhase(client, path, parameters, judge) {
  const answer = await client.fetch(
    `${path}?${new URLSearchParams(parameters)}`,
  );
  const text = await answer.text();
  if (answer.status !== 200) {
    throw new Error(`status ${answer.status}: ${text.slice(0, 500)}`);
  }
  const { ok, detail, state, seen } = JSON.parse(text);
  if (!ok) throw new Error(detail);
  if (seen !== undefined) judge?.(parameters.name, seen);
  return state;
}

/** The checks that the Worker holds itself: each a name, its phases, and what prepares it. */
async function innerChecks(client, judge) {
  const response = await client.fetch("/__checks");
  const body = await response.text();
  if (response.headers.get("x-checks") !== "1") return [];
  return JSON.parse(body).map(({ name, kind, phases }) => ({
    name,
    phases: Array.from(
      { length: phases },
      (_, phase) => (own, before) =>
        innerPhase(
          own,
          `/__${kind}`,
          { name, phase, before: JSON.stringify(before ?? null) },
          judge,
        ),
    ),
    touch: (own) =>
      kind === "object" ? innerPhase(own, "/__touch", { name }) : null,
  }));
}

async function scriptChecks(script) {
  if (!script) return [];
  const { default: checks } = await import(pathToFileURL(script));
  return checksOf(checks);
}

/** Runs every check of a case on a server (see `runChecks`). */
export async function runCase(test, server, about) {
  const observations = new Observations(test, about.runtime);
  const judge = (name, seen) => observations.judge(name, seen);
  const client = new Client(server.url, about.runtime);
  const checks = [
    ...(await innerChecks(client, judge)),
    ...(await scriptChecks(test.script)),
  ];
  if (checks.length === 0) throw new Error("the case holds no check");
  const { checkMs } = test.config;
  const results = await runChecks(checks, server, about, checkMs);
  observations.save();
  const detail = "an observation is recorded, but the check makes none";
  for (const check of test.record ? [] : observations.unseen(results)) {
    results.push({ ...about, check, verdict: "fail", detail });
  }
  return results;
}
