// Runs checks one by one, gathers their verdicts, and prints what failed.
import { within } from "./process.mjs";

const defaultMs = 10_000;

/**
 * A function that runs one check within `ms` and appends its verdict to `results`; `about` says
 * which case and runtime it belongs to.
 */
export function checker(results, about, ms = defaultMs) {
  return async (check, body) => {
    const began = performance.now();
    const result = { ...about, check, verdict: "pass" };
    try {
      await within(Promise.resolve(body()), ms, "the check");
    } catch (error) {
      result.verdict = "fail";
      const cause = error.cause?.message ?? error.cause;
      result.detail = cause ? `${error.message} (${cause})` : error.message;
    }
    result.ms = Math.round(performance.now() - began);
    results.push(result);
  };
}

/** Runs `run` on every item, `jobs` at a time; `run` returns a list of results. */
export async function pool(items, jobs, run) {
  const queue = [...items];
  const results = [];
  const worker = async () => {
    while (queue.length > 0) results.push(...(await run(queue.shift())));
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return results;
}

/**
 * Prints what did not pass, or every result as a line of JSON, and returns whether nothing failed.
 * A known gap is no failure.
 */
export function print({ cases, results }, json = false) {
  const short = results.filter(({ verdict }) => verdict !== "pass");
  const gaps = short.filter(({ verdict }) => verdict === "gap").length;
  const failed = short.length - gaps;
  if (json) {
    for (const result of results) console.log(JSON.stringify(result));
  } else {
    for (const { runtime, case: name, check, verdict, ...rest } of short) {
      console.log(`${verdict}  ${runtime}  ${name}  ${check ?? ""}`);
      console.log(`      ${String(rest.detail).replaceAll("\n", "\n      ")}`);
      if (rest.log) console.log(rest.log.replace(/^/gm, "      | "));
    }
  }
  const passed = results.length - short.length;
  const known = gaps ? `, ${gaps} known gaps` : "";
  console.log(
    `${cases.length} cases: ${passed} passed, ${failed} failed${known}`,
  );
  return failed === 0;
}
