// Makes a program that shows a difference smaller, as long as it shows one.

/** Copies of `steps` with one step left out, or with one made smaller from within. */
function* smallerSteps(steps) {
  for (let i = 0; i < steps.length; i++) {
    yield steps.toSpliced(i, 1);
  }
  for (let i = 0; i < steps.length; i++) {
    if (!steps[i].steps) continue;
    for (const inner of smallerSteps(steps[i].steps)) {
      yield steps.with(i, { ...steps[i], steps: inner });
    }
  }
}

function* smaller({ events }) {
  for (let i = 0; i < events.length; i++) {
    if (events.length > 1) yield { events: events.toSpliced(i, 1) };
  }
  for (let i = 0; i < events.length; i++) {
    for (const steps of smallerSteps(events[i])) {
      yield { events: events.with(i, steps) };
    }
  }
}

/**
 * Tries smaller programs as long as one of them `differs`, at most `tries` times.
 *
 * @param {(program: object) => Promise<boolean>} differs
 */
export async function shrink(program, differs, tries = 200) {
  let best = program;
  for (let progress = true; progress;) {
    progress = false;
    for (const { events } of smaller(best)) {
      if (--tries < 0) return best;
      const candidate = { name: `${program.name}, ${tries} left`, events };
      if (!(await differs(candidate))) continue;
      best = candidate;
      progress = true;
      break;
    }
  }
  return best;
}
