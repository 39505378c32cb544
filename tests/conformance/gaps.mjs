// What celld is known to lack: `gaps.json` maps the name of a case to the names of its checks, each
// with the reason in one sentence. The list can only shrink: a check on it that passes is a failure.
import { readFileSync } from "node:fs";

export const readGaps = (file) => JSON.parse(readFileSync(file, "utf8"));

const fails = (name, check, detail) => {
  return { case: name, check, runtime: "celld", verdict: "fail", detail };
};

/** A result seen through the gaps of its case. Crashes and cases that do not start are no gaps. */
function judge(result, reasons) {
  const reason = reasons[result.check];
  if (reason === undefined || result.runtime !== "celld") return result;
  if (result.verdict === "fail") {
    return { ...result, verdict: "gap", detail: reason, seen: result.detail };
  }
  if (result.verdict !== "pass") return result;
  const detail = "no longer a gap: remove it from gaps.json";
  return { ...result, verdict: "fail", detail };
}

/** Names in `reasons` that none of the case's results has. */
function unknownChecks(name, own, reasons) {
  // A case that broke off has not said which checks it holds, and is a failure already.
  if (own.some(({ verdict }) => verdict === "error")) return [];
  return Object.keys(reasons)
    .filter((check) => !own.some((result) => result.check === check))
    .map((check) => fails(name, check, "gaps.json names a check that is none"));
}

/**
 * The results of a run, with what `gaps` lists as `gap`. `names` are all cases that exist, `ran`
 * those that ran on celld.
 */
export function withGaps(results, gaps, names, ran) {
  const judged = results.map((it) => judge(it, gaps[it.case] ?? {}));
  for (const [name, reasons] of Object.entries(gaps)) {
    if (!names.includes(name)) {
      judged.push(fails(name, "", "gaps.json names a case that is none"));
    } else if (ran.includes(name)) {
      const own = results.filter(
        (it) => it.case === name && it.runtime === "celld",
      );
      judged.push(...unknownChecks(name, own, reasons));
    }
    for (const [check, reason] of Object.entries(reasons)) {
      if (typeof reason === "string" && reason.trim()) continue;
      judged.push(fails(name, check, "gaps.json gives no reason"));
    }
  }
  return judged;
}

/** Plants faults in a list of gaps, and returns those that went unnoticed. */
export function missedGapFaults() {
  const result = (check, verdict, runtime = "celld") => {
    return { case: "a", check, runtime, verdict, detail: "seen" };
  };
  const reason = "r";
  // What is planted, the verdicts that must come of it, the results and the gaps.
  const plants = [
    ["a gap", "gap", [result("x", "fail")], { a: { x: reason } }],
    ["a closed gap", "fail", [result("x", "pass")], { a: { x: reason } }],
    ["a failure that is not listed", "fail", [result("x", "fail")], {}],
    [
      "a failure beside a gap",
      "gap fail",
      [result("x", "fail"), result("y", "fail")],
      { a: { x: reason } },
    ],
    [
      "a failure on workerd",
      "fail gap",
      [result("x", "fail", "workerd"), result("x", "fail")],
      { a: { x: reason } },
    ],
    [
      "a check that is none",
      "pass fail",
      [result("x", "pass")],
      { a: { y: reason } },
    ],
    ["a case that is none", "fail", [], { b: { x: reason } }],
    ["no reason", "gap fail", [result("x", "fail")], { a: { x: " " } }],
    [
      "a case that broke off",
      "error",
      [result(undefined, "error")],
      { a: { x: reason } },
    ],
  ];
  return plants
    .filter(([, expected, results, gaps]) => {
      const seen = withGaps(results, gaps, ["a"], ["a"]);
      return seen.map(({ verdict }) => verdict).join(" ") !== expected;
    })
    .map(([planted]) => planted);
}
