// Leaves the exports of importable modules where the host's module registry finds them.
// @ts-check

import { internals } from "ext:core/mod.js";
import * as modules from "./modules.js";
import * as workers from "./workers.js";

internals.celldWorkers = { ...workers };
internals.celldModules = { ...modules };
