// The reference runtime: one workerd process that serves many Workers, each on a port of its own.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { workerdPath } from "./deps.mjs";
import { start, within } from "./process.mjs";

const text = (value) => JSON.stringify(value);

const moduleField = {
  esm: "esModule",
  cjs: "commonJsModule",
  wasm: "wasm",
  text: "text",
  data: "data",
  json: "json",
};

function workerEntry(worker) {
  const modules = worker.modules.map(
    ({ name, kind, path }) =>
      `(name = ${text(name)}, ${moduleField[kind]} = embed ${text(path)})`,
  );
  const bindings = [
    ...Object.entries(worker.objects ?? {}).map(
      ([name, className]) =>
        `(name = ${text(name)}, durableObjectNamespace = (className = ${text(className)}))`,
    ),
    ...Object.entries(worker.vars ?? {}).map(([name, value]) =>
      typeof value === "string"
        ? `(name = ${text(name)}, text = ${text(value)})`
        : `(name = ${text(name)}, json = ${text(JSON.stringify(value))})`,
    ),
    ...(worker.services ?? []).map(({ binding, entrypoint, props }) => {
      const parts = [`name = ${text(worker.name)}`];
      if (entrypoint) parts.push(`entrypoint = ${text(entrypoint)}`);
      if (props) parts.push(`props = (json = ${text(JSON.stringify(props))})`);
      return `(name = ${text(binding)}, service = (${parts.join(", ")}))`;
    }),
  ];
  const namespaces = (worker.classes ?? []).map(
    ({ name, sqlite }) =>
      `(className = ${text(name)}, uniqueKey = ${text(`${worker.name}-${name}`)}, enableSql = ${sqlite})`,
  );
  return `    (name = ${text(worker.name)}, worker = (
      modules = [${modules.join(", ")}],
      bindings = [${bindings.join(", ")}],
      compatibilityDate = ${text(worker.date)},
      compatibilityFlags = [${worker.flags.map(text).join(", ")}],
      durableObjectNamespaces = [${namespaces.join(", ")}],
      durableObjectStorage = (localDisk = "disk"),
      globalOutbound = "network"
    ))`;
}

/**
 * Writes a workerd configuration into `directory`, starts it, and returns the base URL of each
 * Worker. `workers[].modules[].path` is relative to `directory`.
 */
export async function startWorkerd(directory, workers) {
  mkdirSync(join(directory, "disk"), { recursive: true });
  const sockets = workers.map(
    ({ name }) =>
      `    (name = ${text(name)}, address = "127.0.0.1:0", http = (), service = ${text(name)})`,
  );
  writeFileSync(
    join(directory, "config.capnp"),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "disk", disk = (path = ${text(join(directory, "disk"))}, writable = true)),
    (name = "network", network = (allow = ["public", "private"], tlsOptions = (trustBrowserCas = true))),
${workers.map(workerEntry).join(",\n")}
  ],
  sockets = [
${sockets.join(",\n")}
  ],
);
`,
  );
  const handle = start(
    workerdPath,
    ["serve", "--control-fd", "3", "config.capnp"],
    { cwd: directory, extraPipes: 1 },
  );
  const urls = new Map();
  const ready = new Promise((resolve, reject) => {
    let rest = "";
    handle.child.stdio[3].setEncoding("utf8").on("data", (chunk) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop();
      for (const line of lines.filter(Boolean)) {
        const message = JSON.parse(line);
        if (message.event !== "listen") continue;
        urls.set(message.socket, `http://127.0.0.1:${message.port}`);
        if (urls.size === workers.length) resolve();
      }
    });
    handle.exited.then(() =>
      reject(new Error(`workerd did not start:\n${handle.output}`)),
    );
  });
  await within(ready, 20_000, "the start of workerd").catch(async (error) => {
    await handle.stop();
    throw error;
  });
  return { handle, urls };
}
