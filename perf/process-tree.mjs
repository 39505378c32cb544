// CPU time and memory of a process and its descendants, from /proc.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";

const ticksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"]));

function children(pid) {
  const lists = readdirSync(`/proc/${pid}/task`).map((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8"),
  );
  return lists.join(" ").split(" ").filter(Boolean).map(Number);
}

function tree(pid) {
  return [pid, ...children(pid).flatMap(tree)];
}

/** User and system time that the tree has used, in seconds. */
export function cpuSeconds(pid) {
  const ticks = tree(pid).map((one) => {
    const stat = readFileSync(`/proc/${one}/stat`, "utf8");
    // The name in parentheses may hold spaces; fields 14 and 15 are counted from its end.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, one) => sum + one, 0) / ticksPerSecond;
}

/** Resident memory of the tree, in bytes. */
export function rssBytes(pid) {
  const sizes = tree(pid).map((one) => {
    const status = readFileSync(`/proc/${one}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) * 1024;
  });
  return sizes.reduce((sum, one) => sum + one, 0);
}
