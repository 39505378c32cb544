// config: {"objects": {"PROBE": "Probe"}, "date": "2026-02-23", "flags": ["delete_all_deletes_alarm"]}
import { probe, suite } from "../support/check.js";

const object = {
  async "the flag deletes the alarm before its date"({ storage }) {
    await storage.setAlarm(Date.now() + 1e7);
    await storage.deleteAll();
    return storage.getAlarm();
  },
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
