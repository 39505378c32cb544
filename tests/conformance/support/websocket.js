// What the cases about WebSockets share.
import { inspect } from "./check.js";

/** The next event of a type. */
export const next = (socket, type = "message") =>
  new Promise((resolve) =>
    socket.addEventListener(type, resolve, { once: true }),
  );

/** Two connected ends that nobody has accepted. */
export const fresh = () => Object.values(new WebSocketPair());

/** Two connected ends, both accepted. */
export function pair() {
  const ends = fresh();
  for (const end of ends) end.accept();
  return ends;
}

/** Long enough for whatever is under way between two ends in one process. */
export const tick = (ms = 150) => scheduler.wait(ms);

/** "ok", or name and message of what `run` throws. */
export function outcome(run) {
  try {
    run();
    return "ok";
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

/** The entries of an object as a list of texts. */
export const lines = (seen) =>
  Object.entries(seen).map(
    ([key, value]) =>
      `${key}: ${typeof value === "string" ? value : inspect(value)}`,
  );
