// The packages that the programs import, and the projects made from templates, outside the checkout.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const pinned = ["package.json", "package-lock.json", ".npmrc"];

function cacheDirectory() {
  const base = process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache");
  return join(base, "celld", "programs");
}

/** Installs the pinned packages once per lock file and returns the folder that holds them. */
export function installPackages() {
  const hash = createHash("sha256");
  for (const name of pinned) hash.update(readFileSync(join(here, name)));
  const store = join(cacheDirectory(), hash.digest("hex").slice(0, 16));
  if (existsSync(store)) return store;
  const fresh = `${store}.new-${process.pid}`;
  mkdirSync(fresh, { recursive: true });
  for (const name of pinned) cpSync(join(here, name), join(fresh, name));
  console.error("Installing the packages of the test programs…");
  const { status, stderr, error } = spawnSync(
    "npm",
    ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
    { cwd: fresh, encoding: "utf8" },
  );
  if (status !== 0) {
    rmSync(fresh, { recursive: true, force: true });
    throw new Error(`npm ci failed: ${error?.message ?? stderr}`);
  }
  try {
    renameSync(fresh, store);
  } catch (error) {
    // Another run was faster; its copy is as good.
    if (!existsSync(store)) throw error;
    rmSync(fresh, { recursive: true, force: true });
  }
  return store;
}

/** Copies a program of this folder to `target`. */
export function copyProgram(name, target) {
  cpSync(join(here, name), target, { recursive: true });
}

/** Copies an example of the checkout to `target`, without the data of earlier runs. */
export function copyExample(name, target) {
  const source = join(here, "../../examples", name);
  const filter = (path) => !path.endsWith("/.celld");
  cpSync(source, target, { recursive: true, filter });
}

/** Makes a project of a template of create-cloudflare: copies it and fills in its placeholders. */
export function fillTemplate(store, template, name, target) {
  const templates = join(store, "node_modules/create-cloudflare/templates");
  cpSync(join(templates, template), target, { recursive: true });
  const values = {
    "<WORKER_NAME>": name,
    "<PACKAGE_NAME>": name,
    "<COMPATIBILITY_DATE>": "2026-11-17",
  };
  for (const file of ["wrangler.jsonc", "package.json"]) {
    const path = join(target, file);
    if (!existsSync(path)) continue;
    let text = readFileSync(path, "utf8");
    for (const [from, to] of Object.entries(values)) {
      text = text.replaceAll(from, to);
    }
    writeFileSync(path, text);
  }
  for (const file of readdirSync(target)) {
    if (!file.startsWith("__dot__")) continue;
    renameSync(join(target, file), join(target, file.replace("__dot__", ".")));
  }
  linkOlder(store, target);
}

/** Gives a project the older major version of itty-router that its package.json asks for. */
function linkOlder(store, target) {
  const path = join(target, "package.json");
  if (!existsSync(path)) return;
  const { devDependencies = {} } = JSON.parse(readFileSync(path, "utf8"));
  if (!devDependencies["itty-router"]?.startsWith("^3")) return;
  const older = join(store, "node_modules/itty-router-3");
  cpSync(older, join(target, "node_modules/itty-router"), { recursive: true });
}
