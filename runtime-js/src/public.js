// Leaves the exports of importable modules where the host's module registry finds them.
// @ts-check

import { internals } from "ext:core/mod.js";
import * as email from "./email.js";
import * as modules from "./modules.js";
import * as asyncHooks from "./node/async_hooks.js";
import * as diagnosticsChannel from "./node/diagnostics_channel.js";
import * as events from "./node/events.js";
import * as os from "./node/os.js";
import { posix } from "./node/path.js";
import * as workers from "./workers.js";

// The names are those that `PUBLIC_MODULES` in the host maps to what scripts import.
internals.celldPublic = {
  "celld:modules": { ...modules },
  "cloudflare:email": { ...email },
  "cloudflare:workers": { ...workers },
  "node:async_hooks": { ...asyncHooks },
  "node:diagnostics_channel": { ...diagnosticsChannel },
  "node:events": { ...events },
  "node:os": { ...os },
  "node:path": posix,
  "node:path/posix": posix,
};
