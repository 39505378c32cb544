//! Alarms of all cells: which is due when, which runs, which is tried again.
//!
//! A cell's alarm is in one of four phases. *Hinted*: a marker in the bucket says that the record
//! may hold one, but not exactly when. *Reading*: the record is being read for it. *Set*: known.
//! *Firing*: the handler runs; what the cell sets meanwhile is remembered and decides, at the
//! end, what comes next. A cell has one entry, so it never has two handlers at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::effect::{Effect, Effects};
use crate::event::{AlarmEnd, AlarmFound};
use crate::sabotage::{Fault, Sabotage};
use crate::{CellId, WallMs};

/// A handler that fails runs again at most this often.
pub const ALARM_RETRIES_MAX: u32 = 6;
/// Delay before the first retry; it doubles with each further one.
const RETRY_FIRST_MS: u64 = 2_000;
/// Most doublings of that delay, for failures without a limit: about 17 minutes.
const RETRY_DOUBLINGS_MAX: u32 = 9;
/// Pause before a record is read again for its alarm.
const REREAD_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Hinted,
    Reading,
    Set(Attempt),
    Firing {
        attempt: Attempt,
        /// The last thing that the cell's commits said about its alarm since the handler started.
        update: Option<Option<WallMs>>,
    },
}

/// One alarm and the failures it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempt {
    scheduled: WallMs,
    /// Failures of the handler; limited.
    counted: u32,
    /// Failures in a row that decide the delay. It starts anew when the handler itself fails after
    /// failures that were not its own.
    backoff: u32,
    /// The last failure was one of the node.
    uncounted: bool,
}

impl Attempt {
    fn first(scheduled: WallMs) -> Self {
        Self {
            scheduled,
            counted: 0,
            backoff: 0,
            uncounted: false,
        }
    }
}

#[derive(Debug)]
struct Alarm {
    phase: Phase,
    /// Key in `due` while the phase waits for the clock.
    wakes: Option<WallMs>,
}

/// The alarms of a node.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    cells: BTreeMap<CellId, Alarm>,
    due: BTreeSet<(WallMs, CellId)>,
    /// Records being read and handlers running.
    busy: usize,
    pub(crate) sabotage: Sabotage,
}

impl Alarms {
    /// Alarms that are known or hinted at.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// When the next one is due; `None` while as many run as may.
    pub(crate) fn next_due(&self, busy_max: usize) -> Option<WallMs> {
        let (at, _) = self.due.first()?;
        (self.busy < busy_max).then_some(*at)
    }

    /// Takes what a commit says about its cell's alarm.
    pub(crate) fn set(&mut self, cell: CellId, at: Option<WallMs>) {
        match (self.cells.get_mut(&cell).map(|alarm| &mut alarm.phase), at) {
            (Some(Phase::Firing { update, .. }), _) => *update = Some(at),
            // The same alarm again: its retries go on as they are.
            (Some(Phase::Set(attempt)), Some(at)) if attempt.scheduled == at => {}
            (_, Some(at)) => self.schedule(cell, Phase::Set(Attempt::first(at)), at),
            (_, None) => self.forget(&cell),
        }
    }

    /// Takes a marker found in the bucket. What is known better stays.
    pub(crate) fn hint(&mut self, cell: CellId, not_before: WallMs) {
        match self.cells.get(&cell) {
            None => self.schedule(cell, Phase::Hinted, not_before),
            Some(Alarm {
                phase: Phase::Hinted,
                wakes: Some(at),
            }) if not_before < *at => {
                self.schedule(cell, Phase::Hinted, not_before);
            }
            Some(_) => {}
        }
    }

    /// Takes the alarm that a record holds. A commit that came meanwhile knows better.
    pub(crate) fn read(&mut self, cell: CellId, found: AlarmFound, now: WallMs) {
        if !matches!(
            self.cells.get(&cell),
            Some(Alarm {
                phase: Phase::Reading,
                ..
            })
        ) {
            return;
        }
        match found {
            AlarmFound::At(at) => self.schedule(cell, Phase::Set(Attempt::first(at)), at),
            AlarmFound::Nothing => self.forget(&cell),
            AlarmFound::Unreadable => self.schedule(cell, Phase::Hinted, now.plus(REREAD_MS)),
        }
    }

    /// Takes the end of a handler.
    pub(crate) fn done(&mut self, cell: CellId, end: AlarmEnd, now: WallMs, out: &mut Effects) {
        let Some(Alarm {
            phase: Phase::Firing { attempt, update },
            ..
        }) = self.cells.get(&cell)
        else {
            return;
        };
        let (attempt, update) = (*attempt, *update);
        match end {
            // Every change reaches the core before the end of the handler that saw it, and
            // changes by other events may reach it later than that: the update is never older.
            AlarmEnd::Done { next } => match update.unwrap_or(next) {
                Some(at) => self.schedule(cell, Phase::Set(Attempt::first(at)), at),
                None => self.forget(&cell),
            },
            AlarmEnd::Failed {
                counted,
                jitter_permille,
            } => match update {
                Some(Some(at))
                    if at != attempt.scheduled && !self.sabotage.is(Fault::LoseAlarm) =>
                {
                    self.schedule(cell, Phase::Set(Attempt::first(at)), at);
                }
                _ => self.retry(cell, attempt, counted, jitter_permille, now, out),
            },
        }
    }

    fn retry(
        &mut self,
        cell: CellId,
        attempt: Attempt,
        counted: bool,
        jitter_permille: u16,
        now: WallMs,
        out: &mut Effects,
    ) {
        if counted && attempt.counted >= ALARM_RETRIES_MAX {
            self.forget(&cell);
            out.push(Effect::DropAlarm {
                cell,
                scheduled: attempt.scheduled,
            });
            return;
        }
        let backoff = if counted && attempt.uncounted {
            0
        } else {
            attempt.backoff
        };
        let delay = RETRY_FIRST_MS << backoff.min(RETRY_DOUBLINGS_MAX);
        let jitter = delay / 4 * u64::from(jitter_permille.min(1_000)) / 1_000;
        let next = Attempt {
            counted: attempt.counted + u32::from(counted),
            backoff: backoff.saturating_add(1),
            uncounted: !counted,
            ..attempt
        };
        self.schedule(cell, Phase::Set(next), now.plus(delay + jitter));
    }

    /// Starts what is due, as long as `busy_max` allows.
    pub(crate) fn fire_due(&mut self, now: WallMs, busy_max: usize, out: &mut Effects) {
        while self.busy < busy_max {
            let Some((at, cell)) = self.due.first().cloned() else {
                return;
            };
            if at > now {
                return;
            }
            self.due.pop_first();
            let double = self.sabotage.is(Fault::DoubleAlarm);
            let Some(alarm) = self.cells.get_mut(&cell) else {
                continue;
            };
            alarm.wakes = None;
            match alarm.phase {
                Phase::Hinted => {
                    alarm.phase = Phase::Reading;
                    self.busy += 1;
                    out.push(Effect::ReadAlarm { cell, hinted: at });
                }
                Phase::Set(attempt) => {
                    alarm.phase = Phase::Firing {
                        attempt,
                        update: None,
                    };
                    self.busy += 1;
                    out.push(Effect::FireAlarm {
                        cell: cell.clone(),
                        scheduled: attempt.scheduled,
                        retry_count: attempt.counted,
                    });
                    if double {
                        self.schedule(cell, Phase::Set(attempt), now);
                        self.busy += 1;
                    }
                }
                Phase::Reading | Phase::Firing { .. } => {}
            }
        }
    }

    /// Puts a cell into a waiting phase, whatever phase it was in.
    fn schedule(&mut self, cell: CellId, phase: Phase, at: WallMs) {
        self.forget(&cell);
        self.due.insert((at, cell.clone()));
        self.cells.insert(
            cell,
            Alarm {
                phase,
                wakes: Some(at),
            },
        );
    }

    fn forget(&mut self, cell: &CellId) {
        let Some(old) = self.cells.remove(cell) else {
            return;
        };
        if let Some(at) = old.wakes {
            self.due.remove(&(at, cell.clone()));
        }
        if matches!(old.phase, Phase::Reading | Phase::Firing { .. }) {
            self.busy -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NamespaceKey, ObjectId};

    fn cell(n: u8) -> CellId {
        CellId {
            namespace: NamespaceKey::new("n").expect("a namespace key"),
            object: ObjectId::from_bytes([n; 32]),
        }
    }

    fn at(ms: i64) -> WallMs {
        WallMs::new(ms)
    }

    struct Bench {
        alarms: Alarms,
        out: Effects,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                alarms: Alarms::default(),
                out: Effects::default(),
            }
        }

        fn fired(&mut self, now: i64) -> Vec<(i64, u32)> {
            self.alarms.fire_due(at(now), 10, &mut self.out);
            std::iter::from_fn(|| self.out.pop())
                .filter_map(|effect| match effect {
                    Effect::FireAlarm {
                        scheduled,
                        retry_count,
                        ..
                    } => Some((scheduled.get(), retry_count)),
                    _ => None,
                })
                .collect()
        }

        fn end(&mut self, end: AlarmEnd, now: i64) {
            self.alarms.done(cell(1), end, at(now), &mut self.out);
        }
    }

    const FAILED: AlarmEnd = AlarmEnd::Failed {
        counted: true,
        jitter_permille: 0,
    };

    #[test]
    fn a_failing_handler_runs_seven_times_with_doubling_delays_and_is_dropped() {
        let mut bench = Bench::new();
        bench.alarms.set(cell(1), Some(at(100)));
        let mut now = 100;
        for retry in 0..=6 {
            assert_eq!(bench.fired(now), [(100, retry)]);
            bench.end(FAILED, now);
            if retry < 6 {
                let delay = 2_000 << retry;
                assert_eq!(bench.fired(now + delay - 1), []);
                now += delay;
            }
        }
        let dropped = Effect::DropAlarm {
            cell: cell(1),
            scheduled: at(100),
        };
        assert_eq!(bench.out.pop(), Some(dropped));
        assert_eq!(bench.alarms.len(), 0);
        assert_eq!(bench.alarms.next_due(10), None);
    }

    #[test]
    fn failures_of_the_infrastructure_do_not_use_up_the_retries() {
        let mut bench = Bench::new();
        bench.alarms.set(cell(1), Some(at(0)));
        let mut now = 0;
        for _ in 0..50 {
            assert_eq!(bench.fired(now), [(0, 0)]);
            bench.end(
                AlarmEnd::Failed {
                    counted: false,
                    jitter_permille: 1_000,
                },
                now,
            );
            // 2^9 times two seconds, and a quarter of that.
            now += 1_280_000;
        }
    }

    #[test]
    fn failures_of_the_infrastructure_double_the_delay_up_to_a_cap_and_counted_ones_start_anew() {
        let mut bench = Bench::new();
        bench.alarms.set(cell(1), Some(at(0)));
        let mut now = 0;
        let uncounted = |jitter_permille| AlarmEnd::Failed {
            counted: false,
            jitter_permille,
        };
        let mut fails = |bench: &mut Bench, end, delay: i64, retries| {
            assert_eq!(bench.fired(now), [(0, retries)]);
            bench.end(end, now);
            assert_eq!(bench.fired(now + delay - 1), [], "delay {delay}");
            now += delay;
        };
        for doublings in 0..12 {
            fails(&mut bench, uncounted(0), 2_000 << doublings.min(9), 0);
        }
        fails(&mut bench, uncounted(500), 1_024_000 + 128_000, 0);
        fails(&mut bench, FAILED, 2_000, 0);
        fails(&mut bench, FAILED, 4_000, 1);
        fails(&mut bench, uncounted(0), 8_000, 2);
        fails(&mut bench, FAILED, 2_000, 2);
        assert_eq!(bench.fired(now), [(0, 3)]);
    }

    #[test]
    fn an_alarm_set_while_the_handler_runs_comes_next_even_when_it_fails() {
        let mut bench = Bench::new();
        bench.alarms.set(cell(1), Some(at(10)));
        assert_eq!(bench.fired(10), [(10, 0)]);
        bench.alarms.set(cell(1), None);
        bench.alarms.set(cell(1), Some(at(50)));
        assert_eq!(bench.fired(60), [], "one handler at a time");
        bench.end(FAILED, 60);
        assert_eq!(bench.fired(60), [(50, 0)]);
        bench.end(AlarmEnd::Done { next: None }, 61);
        assert_eq!(bench.alarms.len(), 0);
    }

    #[test]
    fn a_deletion_that_comes_with_a_failure_does_not_stop_the_retry() {
        let mut bench = Bench::new();
        bench.alarms.set(cell(1), Some(at(10)));
        bench.fired(10);
        bench.alarms.set(cell(1), None);
        bench.end(FAILED, 10);
        assert_eq!(bench.fired(2_010), [(10, 1)]);
    }

    #[test]
    fn the_same_alarm_set_again_keeps_its_retries() {
        let mut bench = Bench::new();
        bench.alarms.set(cell(1), Some(at(10)));
        bench.fired(10);
        bench.end(FAILED, 10);
        bench.alarms.set(cell(1), Some(at(10)));
        assert_eq!(bench.fired(10), []);
        assert_eq!(bench.fired(2_010), [(10, 1)]);
    }

    #[test]
    fn a_hint_leads_to_a_read_and_a_commit_meanwhile_knows_better() {
        let mut bench = Bench::new();
        bench.alarms.hint(cell(1), at(60_000));
        bench.alarms.hint(cell(1), at(120_000));
        bench.alarms.fire_due(at(60_000), 10, &mut bench.out);
        assert_eq!(
            bench.out.pop(),
            Some(Effect::ReadAlarm {
                cell: cell(1),
                hinted: at(60_000)
            })
        );
        bench.alarms.set(cell(1), Some(at(70_000)));
        bench
            .alarms
            .read(cell(1), AlarmFound::At(at(60_500)), at(60_001));
        assert_eq!(bench.fired(69_999), []);
        assert_eq!(bench.fired(70_000), [(70_000, 0)]);
    }

    #[test]
    fn an_unreadable_record_is_read_again() {
        let mut bench = Bench::new();
        bench.alarms.hint(cell(1), at(0));
        bench.fired(0);
        bench.alarms.read(cell(1), AlarmFound::Unreadable, at(0));
        bench
            .alarms
            .fire_due(at(REREAD_MS as i64), 10, &mut bench.out);
        assert_eq!(
            bench.out.pop(),
            Some(Effect::ReadAlarm {
                cell: cell(1),
                hinted: at(5_000)
            })
        );
    }

    #[test]
    fn only_so_many_run_at_once() {
        let mut bench = Bench::new();
        for n in 0..5 {
            bench.alarms.set(cell(n), Some(at(0)));
        }
        bench.alarms.fire_due(at(0), 2, &mut bench.out);
        assert_eq!(std::iter::from_fn(|| bench.out.pop()).count(), 2);
        assert_eq!(bench.alarms.next_due(2), None);
        assert_eq!(bench.alarms.next_due(3), Some(at(0)));
    }
}
