// Child processes that never outlive the test script.
import { spawn } from "node:child_process";

const running = new Set();

process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => process.exit(130));
}

/**
 * Starts a program and gathers what it prints (the last 256 KiB).
 *
 * @param {string} program
 * @param {string[]} args
 * @param {{ cwd?: string, env?: Record<string, string>, extraPipes?: number }} [options]
 */
export function start(program, args, options = {}) {
  const pipes = Array(options.extraPipes ?? 0).fill("pipe");
  const child = spawn(program, args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "pipe", ...pipes],
  });
  running.add(child);
  const handle = { child, output: "", exited: null };
  const keep = (text) => {
    handle.output = (handle.output + text).slice(-262_144);
  };
  child.stdout.setEncoding("utf8").on("data", keep);
  child.stderr.setEncoding("utf8").on("data", keep);
  handle.exited = new Promise((resolve) => {
    child.on("error", (error) => {
      running.delete(child);
      keep(`cannot start ${program}: ${error.message}\n`);
      resolve({ code: null, signal: null });
    });
    child.on("close", (code, signal) => {
      running.delete(child);
      resolve({ code, signal });
    });
  });
  handle.stop = async (signal = "SIGKILL") => {
    child.kill(signal);
    return handle.exited;
  };
  return handle;
}

/** Waits `ms` milliseconds. */
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Rejects with `text` when `promise` takes longer than `ms` milliseconds. */
export function within(promise, ms, text) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`${text} took longer than ${ms} ms`)),
      ms,
    );
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Calls `probe` until it returns something true; its last error is the failure's cause. */
export async function until(probe, ms, text) {
  const end = Date.now() + ms;
  let last;
  while (Date.now() < end) {
    try {
      const value = await probe();
      if (value) return value;
    } catch (error) {
      last = error;
    }
    await sleep(20);
  }
  throw new Error(`${text} did not happen within ${ms} ms`, { cause: last });
}
