// Packages of tests/node, reachable from every test script.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export const nodeDirectory = fileURLToPath(
  new URL("../node/", import.meta.url),
);

if (!existsSync(`${nodeDirectory}node_modules/workerd`)) {
  console.error(
    "tests/node/node_modules is missing: run `cargo xtask test` once (or `npm ci` in tests/node)",
  );
  process.exit(2);
}

const require = createRequire(`${nodeDirectory}package.json`);

/** Loads a package that tests/node/package.json lists. */
export const load = (name) => require(name);

/** Path of the reference runtime's executable. */
export const workerdPath = `${nodeDirectory}node_modules/workerd/bin/workerd`;
