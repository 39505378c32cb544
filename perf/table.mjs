// The table that the benchmark prints: medians over the rounds, with their ranges.

const rows = [
  ["start", "start to first answer, ms", 0],
  ["start dev", "start to first answer (celld dev, warm), ms", 0],
  ["rss 1", "memory after the first answer, MiB", 1],
  ["rss first cell", "memory with one cell, MiB", 1],
  ["rss cells", "memory with 1,000 cells, MiB", 1],
  ["rss per cell", "memory per further cell, KiB", 1],
  ["read p50", "read p50, µs", 0],
  ["read p99", "read p99, µs", 0],
  ["read cpu", "read CPU per request, µs", 1],
  ["read rate", "reads per second", 0],
  ["write p50", "write p50, µs", 0],
  ["write p99", "write p99, µs", 0],
  ["write cpu", "write CPU per request, µs", 1],
  ["write rate", "writes per second", 0],
];

const median = (sorted) => {
  const middle = sorted.length >> 1;
  return sorted.length % 2
    ? sorted[middle]
    : (sorted[middle - 1] + sorted[middle]) / 2;
};

function summary(rounds, key) {
  const values = rounds
    .map((round) => round[key])
    .filter((value) => value !== undefined);
  if (values.length === 0) return null;
  values.sort((a, b) => a - b);
  return { middle: median(values), low: values[0], high: values.at(-1) };
}

function cell(found, digits) {
  if (!found) return "–";
  const [middle, low, high] = [found.middle, found.low, found.high].map(
    (value) => value.toFixed(digits),
  );
  return `${middle} (${low}–${high})`;
}

/** Prints `results`: for each runtime a list of rounds. */
export function printTable(host, results) {
  const names = Object.keys(results);
  console.log(
    `${host.cores} cores, ${host.cpu}, Linux ${host.kernel}; median (range)\n`,
  );
  console.log(`| | ${names.join(" | ")} | ratio |`);
  console.log(`|---|${names.map(() => "---:").join("|")}|---:|`);
  for (const [key, label, digits] of rows) {
    const found = names.map((name) => summary(results[name], key));
    const [ours, other] = found;
    const ratio = ours && other ? (ours.middle / other.middle).toFixed(2) : "–";
    console.log(
      `| ${label} | ${found.map((one) => cell(one, digits)).join(" | ")} | ${ratio} |`,
    );
  }
  console.log("");
}
