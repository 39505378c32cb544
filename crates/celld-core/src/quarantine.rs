//! Cells that break a limit of CPU time or memory again and again.
//!
//! One that does so once or twice is reset and may go on: the event was to blame, or the load.
//! From the third time on it is kept out, each time for twice as long, so that it cannot take one
//! isolate after the other down. A cell that behaves for a while starts afresh.

use std::collections::BTreeMap;

use crate::{CellId, Config, MonoMs};

/// Offenders that are remembered. Beyond that the one whose last offence is oldest is forgotten.
const OFFENDERS_MAX: usize = 10_000;

/// A limit that a cell broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellLimit {
    /// CPU time of one event.
    Cpu,
    /// Memory of its isolate.
    Memory,
}

#[derive(Debug)]
struct Offender {
    strikes: u32,
    /// When it broke a limit last, or is let in again, whichever is later.
    since: MonoMs,
    /// No event before this.
    until: MonoMs,
}

/// The offenders of a node.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    offenders: BTreeMap<CellId, Offender>,
}

impl Quarantine {
    /// A cell broke a limit. When it is to be kept out: how often it did so, and for how long.
    pub(crate) fn strike(
        &mut self,
        cell: &CellId,
        now: MonoMs,
        config: &Config,
    ) -> Option<(u32, u64)> {
        let offender = self.offenders.entry(cell.clone()).or_insert(Offender {
            strikes: 0,
            since: now,
            until: MonoMs::default(),
        });
        if now >= offender.since.plus(config.quarantine_forget_ms) {
            offender.strikes = 0;
        }
        offender.strikes = offender.strikes.saturating_add(1);
        offender.since = now;
        let strikes = offender.strikes;
        let beyond = strikes.checked_sub(config.quarantine_strikes);
        let keep_out = beyond.map(|beyond| {
            let doubled = config
                .quarantine_first_ms
                .saturating_mul(1u64.checked_shl(beyond).unwrap_or(u64::MAX));
            doubled.min(config.quarantine_max_ms)
        });
        if let Some(keep_out_ms) = keep_out {
            offender.until = now.plus(keep_out_ms);
            offender.since = offender.until;
        }
        self.forget_oldest();
        keep_out.map(|keep_out_ms| (strikes, keep_out_ms))
    }

    fn forget_oldest(&mut self) {
        while self.offenders.len() > OFFENDERS_MAX {
            let oldest = self
                .offenders
                .iter()
                .min_by_key(|(_, offender)| offender.since)
                .map(|(cell, _)| cell.clone());
            if let Some(cell) = oldest {
                self.offenders.remove(&cell);
            }
        }
    }

    /// How much longer the cell is kept out, in ms.
    pub(crate) fn remaining_ms(&self, cell: &CellId, now: MonoMs) -> Option<u64> {
        let until = self.offenders.get(cell)?.until;
        let left = until.get().saturating_sub(now.get());
        (left > 0).then_some(left)
    }

    /// Cells that are kept out.
    pub(crate) fn count(&self, now: MonoMs) -> usize {
        let kept_out = |offender: &&Offender| offender.until > now;
        self.offenders.values().filter(kept_out).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NamespaceKey, ObjectId};

    fn cell(n: u64) -> CellId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        CellId {
            namespace: NamespaceKey::new("n").expect("a namespace key"),
            object: ObjectId::from_bytes(bytes),
        }
    }

    fn config() -> Config {
        Config {
            quarantine_strikes: 3,
            quarantine_first_ms: 10,
            quarantine_max_ms: 35,
            quarantine_forget_ms: 100,
            ..Config::default()
        }
    }

    #[test]
    fn each_further_offence_doubles_the_time_up_to_a_limit() {
        let (mut all, config) = (Quarantine::default(), config());
        let mut now = MonoMs::new(1);
        let mut kept_out = Vec::new();
        for _ in 0..6 {
            let verdict = all.strike(&cell(1), now, &config);
            kept_out.push(verdict.map(|(_, ms)| ms));
            let left = all.remaining_ms(&cell(1), now).unwrap_or(0);
            now = now.plus(left);
            assert_eq!(all.remaining_ms(&cell(1), now), None, "it is over in time");
        }
        let expected = [None, None, Some(10), Some(20), Some(35), Some(35)];
        assert_eq!(kept_out, expected);
        assert_eq!(
            all.remaining_ms(&cell(2), now),
            None,
            "others are not concerned"
        );
    }

    #[test]
    fn a_cell_that_behaves_starts_afresh() {
        let (mut all, config) = (Quarantine::default(), config());
        for _ in 0..3 {
            all.strike(&cell(1), MonoMs::new(1), &config);
        }
        assert_eq!(all.count(MonoMs::new(10)), 1);
        assert_eq!(all.count(MonoMs::new(11)), 0);
        let verdict = all.strike(&cell(1), MonoMs::new(110), &config);
        assert_eq!(verdict, Some((4, 20)), "it has behaved for 99 ms only");
        assert_eq!(all.strike(&cell(1), MonoMs::new(230), &config), None);
    }

    #[test]
    fn offenders_are_bounded() {
        let (mut all, config) = (Quarantine::default(), config());
        for n in 0..OFFENDERS_MAX as u64 + 5 {
            all.strike(&cell(n), MonoMs::new(n), &config);
        }
        assert_eq!(all.offenders.len(), OFFENDERS_MAX);
        assert!(!all.offenders.contains_key(&cell(0)));
    }
}
