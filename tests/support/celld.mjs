// Starts the product: `celld dev` on a project, or any other subcommand.
import { createServer } from "node:net";
import { start, until } from "./process.mjs";

/** A loopback port that was free a moment ago. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** True once something answers HTTP at `url`. */
export async function answers(url) {
  const response = await fetch(url, {
    redirect: "manual",
    signal: AbortSignal.timeout(5_000),
  });
  await response.body?.cancel();
  return true;
}

async function serve(celld, args, url, options) {
  const handle = start(celld, args, {
    ...options,
    env: { NO_COLOR: "1", ...options.env },
  });
  let gone = false;
  handle.exited.then(() => {
    gone = true;
  });
  const listening = async () => {
    if (gone) return true;
    return answers(`${url}${options.readyPath ?? "/.well-known/celld/ready"}`);
  };
  try {
    await until(
      listening,
      options.startMs ?? 30_000,
      `the start of ${args[0]}`,
    );
  } catch (error) {
    await handle.stop();
    throw new Error(`${error.message}; it printed:\n${handle.output}`);
  }
  if (gone) throw new Error(`celld ${args[0]} ended:\n${handle.output}`);
  return { handle, url };
}

/**
 * Runs `celld dev PROJECT` and waits until it answers. With `watch: false` a project that cannot be
 * served is an error.
 */
export async function dev(celld, project, options = {}) {
  const port = options.port ?? (await freePort());
  const args = ["dev", project, "--port", String(port)];
  if (options.watch === false) args.push("--no-watch");
  if (options.persistTo) args.push("--persist-to", options.persistTo);
  return serve(celld, args, `http://127.0.0.1:${port}`, options);
}

/** Runs `celld run` on a bucket and waits until it answers. */
export async function run(celld, bucket, options = {}) {
  const port = options.port ?? (await freePort());
  const args = ["run", "--bucket", bucket, "--listen", `127.0.0.1:${port}`];
  return serve(celld, args, `http://127.0.0.1:${port}`, options);
}

/** Runs `celld` to its end and returns `{ code, signal, output }`. */
export async function finish(celld, args, options = {}) {
  const handle = start(celld, args, {
    ...options,
    env: { NO_COLOR: "1", ...options.env },
  });
  const end = await handle.exited;
  return { ...end, output: handle.output };
}
