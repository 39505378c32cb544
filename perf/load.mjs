// Runs the load client, which is a Rust program in perf/client.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { start } from "../tests/support/process.mjs";

let client;

/** Builds the client. */
export function prepareClient(root) {
  const run = (args) =>
    execFileSync("cargo", args, {
      cwd: root,
      encoding: "utf8",
      maxBuffer: 1 << 26,
    });
  run(["build", "--quiet", "--release", "--package", "celld-bench"]);
  const text = run(["metadata", "--no-deps", "--format-version", "1"]);
  client = join(JSON.parse(text).target_directory, "release/celld-bench");
}

/** Sends load and returns what the client measured. */
export async function load(options) {
  const args = Object.entries(options).flatMap(([name, value]) => [
    `--${name}`,
    String(value),
  ]);
  const handle = start(client, args);
  const { code } = await handle.exited;
  if (code !== 0) throw new Error(`celld-bench failed: ${handle.output}`);
  return JSON.parse(handle.output);
}
