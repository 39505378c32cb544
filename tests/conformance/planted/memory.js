// config: {"objects": {"PROBE": "Probe"}, "caughtAfter": ["evict", "kill"]}
import { equal, probe, suite } from "../support/check.js";

const object = {
  "what only memory holds is there in the next phase": [
    ({ self }) => {
      self.kept = "in memory";
    },
    ({ self }) => equal(self.kept, "in memory"),
  ],
};

export class Probe extends probe(object) {}
export default suite({ object });
