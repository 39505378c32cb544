// Writes what the pages of `docs/` say of the comparison with workerd, from the results of a run:
// the marked part of compatibility.md, and conformance.md.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const docs = fileURLToPath(new URL("../../docs/", import.meta.url));
const command = "node tests/conformance/run.mjs --runtime workerd --page write";
const begin = `<!-- From the results of the conformance suite: ${command} -->`;
const end = "<!-- To here. -->";

const escaped = (text) => text.replace(/[\\`*_<>[\]|]/g, "\\$&");
const linkTo = ({ name }) => `[${name}](../tests/conformance/cases/${name}.js)`;

/** Whether a pattern, in which `*` stands for anything, is `name`. */
const matches = (pattern, name) =>
  new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(name);

/** Cases by feature, in the order of `features`; what no feature names comes last. */
function grouped(cases, features) {
  const rest = new Set(cases);
  const groups = Object.entries(features).map(([feature, patterns]) => {
    const of = ({ name }) => patterns.some((pattern) => matches(pattern, name));
    const own = [...rest].filter(of);
    for (const test of own) rest.delete(test);
    return { feature, cases: own };
  });
  groups.push({ feature: "Others", cases: [...rest] });
  return groups.filter((group) => group.cases.length > 0);
}

/**
 * The names of a case's checks, with the reason of each that celld is known to fail, or in which it
 * differs on purpose.
 */
function checksOf({ name, differs = {} }, results, gaps) {
  const names = new Set();
  for (const result of results) {
    if (result.case === name && result.check) names.add(result.check);
  }
  return [...names].map((check) => {
    const difference = differs[check]?.reason;
    return { check, gap: gaps[name]?.[check], difference };
  });
}

/** How a case runs besides plainly. */
function boundaries({ config }) {
  if (!config.objects || config.starts) return "";
  const words = { evict: "eviction", kill: "kill -9" };
  const runs = Object.keys(words).filter((after) => !config.skip?.[after]);
  const skips = Object.entries(config.skip ?? {}).map(
    ([after, why]) => `; not after ${words[after]}: ${why}`,
  );
  const again = runs.map((after) => words[after]).join(" and after ");
  return `, again after ${again}${skips.join("")}`;
}

function symbol(checks) {
  const gaps = checks.filter(({ gap }) => gap).length;
  if (gaps === 0) return "●";
  return gaps === checks.length ? "○" : "◐";
}

function summary(groups) {
  const lines = ["| what | | cases |", "|---|---|---|"];
  for (const { feature, cases } of groups) {
    const mark = symbol(cases.flatMap(({ checks }) => checks));
    const anchor = feature.toLowerCase().replace(/[^a-z0-9 -]/g, "");
    const link = `conformance.md#${anchor.replaceAll(" ", "-")}`;
    lines.push(`| ${feature} | ${mark} | [by name](${link}) |`);
  }
  const gaps = groups.flatMap(({ cases }) =>
    cases.flatMap((test) =>
      test.checks
        .filter(({ gap }) => gap)
        .map(
          ({ check, gap }) => `- ${linkTo(test)}, ${escaped(check)}: ${gap}`,
        ),
    ),
  );
  const known = gaps.length > 0 ? gaps : ["- none"];
  return [
    ...lines,
    "",
    "Checks that are known to fail:",
    "",
    ...known,
    ...differences(groups),
  ];
}

/** The reasons of differences on purpose, each once, with the cases that show it. */
function differences(groups) {
  const reasons = new Map();
  for (const test of groups.flatMap(({ cases }) => cases)) {
    for (const { difference } of test.checks) {
      if (!difference) continue;
      if (!reasons.has(difference)) reasons.set(difference, new Set());
      reasons.get(difference).add(linkTo(test));
    }
  }
  if (reasons.size === 0) return [];
  const lines = [...reasons].map(
    ([reason, links]) => `- ${reason} (${[...links].join(", ")})`,
  );
  return ["", "What differs on purpose:", "", ...lines];
}

function listing(groups) {
  const lines = [
    "# Conformance",
    "",
    "Every check that runs on workerd and on celld alike, by case. ○ marks what celld is known to",
    "fail, ◐ what differs on purpose. The page is made from the results of the suite:",
    `\`${command}\`.`,
  ];
  for (const { feature, cases } of groups) {
    lines.push("", `## ${feature}`);
    for (const test of cases) {
      lines.push("", `${linkTo(test)}${boundaries(test)}`, "");
      for (const { check, gap, difference } of test.checks) {
        const mark = gap ? "○ " : difference ? "◐ " : "";
        const reason = gap ?? difference;
        const why = reason ? `: ${reason}` : "";
        lines.push(`- ${mark}${escaped(check)}${why}`);
      }
    }
  }
  return `${lines.join("\n")}\n`;
}

/** The pages as they are to be, by file name. */
export function pages({ cases, results, gaps, features, compatibility }) {
  const listed = cases.map((test) => {
    return { ...test, checks: checksOf(test, results, gaps) };
  });
  const groups = grouped(listed, features);
  const from = compatibility.indexOf(begin);
  const to = compatibility.indexOf(end);
  if (from < 0 || to < from) {
    throw new Error(`docs/compatibility.md lacks the lines\n${begin}\n${end}`);
  }
  const made = [begin, "", ...summary(groups), "", ""].join("\n");
  return {
    "compatibility.md":
      compatibility.slice(0, from) + made + compatibility.slice(to),
    "conformance.md": listing(groups),
  };
}

/** Writes the pages, or (`mode` is `check`) returns the names of those that are out of date. */
export function updatePages(mode, run) {
  const compatibility = readFileSync(join(docs, "compatibility.md"), "utf8");
  const stale = [];
  for (const [name, text] of Object.entries(pages({ ...run, compatibility }))) {
    const file = join(docs, name);
    if (existsSync(file) && readFileSync(file, "utf8") === text) continue;
    if (mode === "write") writeFileSync(file, text);
    else stale.push(`docs/${name}`);
  }
  return stale;
}

/** Plants faults in what the pages are made of, and returns those that the text does not show. */
export function missedPageFaults() {
  const test = (name, config = {}) => ({ name, config });
  const result = (name, check) => ({ case: name, check });
  const run = {
    cases: [test("a-one", { objects: { O: "O" } }), test("b")],
    results: [
      result("a-one", "first"),
      result("a-one", "2 | 3"),
      result("b", "x"),
    ],
    gaps: {},
    features: { "The feature": ["a-*"] },
    compatibility: `# C\n${begin}\nold\n${end}\nprose\n`,
  };
  const plain = JSON.stringify(pages(run));
  const plants = {
    "a new check": { results: [...run.results, result("b", "y")] },
    "a check that is gone": { results: run.results.slice(1) },
    "a new case": { cases: [...run.cases, test("c")] },
    "a gap": { gaps: { b: { x: "why" } } },
    "a case that skips a boundary": {
      cases: [test("a-one", { objects: {}, skip: { kill: "k" } }), test("b")],
    },
    "a difference": {
      cases: [
        test("a-one"),
        { ...test("b"), differs: { x: { reason: "why" } } },
      ],
    },
    "another feature": { features: { "The feature": ["b"] } },
  };
  const missed = Object.keys(plants).filter(
    (name) => JSON.stringify(pages({ ...run, ...plants[name] })) === plain,
  );
  const kept = pages(run)["compatibility.md"];
  const again = pages({ ...run, compatibility: kept })["compatibility.md"];
  if (kept !== again || !kept.endsWith(`${end}\nprose\n`)) {
    missed.push("prose that is lost");
  }
  return missed;
}
