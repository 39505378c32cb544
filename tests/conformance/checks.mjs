// The checks of a case: those that its Worker holds, and those of its client script.
import { pathToFileURL } from "node:url";
import { Client } from "../support/client.mjs";
import { checksOf, runChecks } from "../support/phases.mjs";

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
  return checksOf(checks);
}

/** Runs every check of a case on a server (see `runChecks`). */
export async function runCase(test, server, about) {
  const checks = [
    ...(await innerChecks(new Client(server.url, about.runtime))),
    ...(await scriptChecks(test.script)),
  ];
  if (checks.length === 0) throw new Error("the case holds no check");
  return runChecks(checks, server, about, test.config.checkMs);
}
