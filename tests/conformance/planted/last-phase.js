// config: {"objects": {"PROBE": "Probe"}}
import { equal, probe, suite } from "../support/check.js";

const object = {
  "a wrong value in the last phase": [
    ({ storage }) => storage.put("k", 1),
    async ({ storage }) => equal(await storage.get("k"), 1),
    async ({ storage }) => equal(await storage.get("k"), 2),
  ],
  "a state that another phase did not leave": [
    () => ({ seen: 1 }),
    ({ before }) => equal(before, { seen: 2 }),
  ],
};

export class Probe extends probe(object) {}
export default suite({ object });
