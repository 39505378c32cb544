// config: {"objects": {"PROBE": "Probe"}, "date": "2026-02-23"}
import { probe, suite } from "../support/check.js";

const object = {
  async "the alarm stays"({ storage }) {
    const when = Date.now() + 1e7;
    await storage.setAlarm(when);
    await storage.put("k", 1);
    await storage.deleteAll();
    return [(await storage.getAlarm()) === when, (await storage.list()).size];
  },
  async "an alarm set right before stays"({ storage }) {
    const when = Date.now() + 1e7;
    storage.setAlarm(when);
    await storage.deleteAll();
    return (await storage.getAlarm()) === when;
  },
  async "an alarm that was deleted right before is gone"({ storage }) {
    await storage.setAlarm(Date.now() + 1e7);
    storage.deleteAlarm();
    await storage.deleteAll();
    return storage.getAlarm();
  },
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
