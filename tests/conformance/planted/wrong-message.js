// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, throws } from "../support/check.js";

const object = {
  "an error with another text": ({ sql }) =>
    throws(() => sql.exec("SELEC"), { message: "another text" }),
};

export class Probe extends probe(object) {}
export default suite({ object });
