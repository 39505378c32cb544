//! Which cells to checkpoint, so that log files can go.
//!
//! The log names the cells that keep its oldest file; while it is over its budget, these are saved
//! in that order. Cells whose data a dead session left in its log only are saved one at a time
//! whenever nothing uses them.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::{CellId, MonoMs};

/// The node's unsaved cells.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    /// Cells that keep the oldest log file, as last told, while the log is over its budget.
    pressing: Vec<CellId>,
    recovered: BTreeSet<CellId>,
    in_flight: BTreeSet<CellId>,
    /// The recovered cell that failed last: the next try begins behind it.
    failed_last: Option<CellId>,
    /// No further try before this.
    pause_until: MonoMs,
}

impl Checkpoints {
    pub(crate) fn recovered(&mut self, cell: CellId) {
        self.recovered.insert(cell);
    }

    /// Takes the state of the log.
    pub(crate) fn log_size(&mut self, bytes: u64, oldest: Vec<CellId>, budget_bytes: u64) {
        self.pressing = if bytes > budget_bytes {
            oldest
        } else {
            Vec::new()
        };
    }

    /// A save of the cell is under way.
    pub(crate) fn started(&mut self, cell: &CellId) {
        self.in_flight.insert(cell.clone());
    }

    /// The cell's record holds all that there was when its snapshot was taken.
    pub(crate) fn saved(&mut self, cell: &CellId) {
        self.in_flight.remove(cell);
        self.recovered.remove(cell);
        self.pressing.retain(|other| other != cell);
    }

    pub(crate) fn failed(&mut self, cell: &CellId, pause_until: MonoMs) {
        self.in_flight.remove(cell);
        self.pause_until = pause_until;
        if self.recovered.contains(cell) {
            self.failed_last = Some(cell.clone());
        }
    }

    /// Saves under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Cells whose data a dead session left in its log only.
    pub(crate) fn recovered_len(&self) -> usize {
        self.recovered.len()
    }

    /// When to look again after a failure.
    pub(crate) fn paused_until(&self, now: MonoMs) -> Option<MonoMs> {
        let waiting = !self.recovered.is_empty() || !self.pressing.is_empty();
        (waiting && self.pause_until > now).then_some(self.pause_until)
    }

    /// Cells that pressure asks to save next, oldest first.
    pub(crate) fn pressing(&self, now: MonoMs) -> impl Iterator<Item = &CellId> {
        let may = self.pause_until <= now;
        self.pressing
            .iter()
            .filter(move |cell| may && !self.in_flight.contains(cell))
    }

    /// Recovered cells in no hurry. One that cannot be saved does not hold up those behind it.
    pub(crate) fn leftover(&self, now: MonoMs) -> impl Iterator<Item = &CellId> {
        let may = self.pause_until <= now && self.in_flight.is_empty();
        let behind = match &self.failed_last {
            Some(last) => Bound::Excluded(last),
            None => Bound::Unbounded,
        };
        let before = self.failed_last.iter();
        let wrapped = before.flat_map(|last| self.recovered.range(..=last));
        self.recovered
            .range((behind, Bound::Unbounded))
            .chain(wrapped)
            .take_while(move |_| may)
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

    fn pressing(checkpoints: &Checkpoints, now: u64) -> Vec<CellId> {
        checkpoints.pressing(MonoMs::new(now)).cloned().collect()
    }

    #[test]
    fn cells_that_keep_the_oldest_file_are_saved_while_the_log_is_too_large() {
        let mut all = Checkpoints::default();
        all.log_size(100, vec![cell(2), cell(1)], 100);
        assert_eq!(pressing(&all, 0), [], "no pressure");
        all.log_size(101, vec![cell(2), cell(1)], 100);
        assert_eq!(pressing(&all, 0), [cell(2), cell(1)]);
        all.started(&cell(2));
        assert_eq!(pressing(&all, 0), [cell(1)]);
        all.saved(&cell(2));
        assert_eq!(pressing(&all, 0), [cell(1)]);
        all.log_size(90, vec![cell(1)], 100);
        assert_eq!(pressing(&all, 0), []);
    }

    #[test]
    fn a_recovered_cell_that_cannot_be_saved_does_not_hold_up_the_others() {
        let mut all = Checkpoints::default();
        (1..=3).for_each(|n| all.recovered(cell(n)));
        let order =
            |all: &Checkpoints| -> Vec<CellId> { all.leftover(MonoMs::new(9)).cloned().collect() };
        assert_eq!(order(&all), [cell(1), cell(2), cell(3)]);
        all.started(&cell(1));
        all.failed(&cell(1), MonoMs::new(9));
        assert_eq!(order(&all), [cell(2), cell(3), cell(1)]);
        all.started(&cell(2));
        all.saved(&cell(2));
        assert_eq!(order(&all), [cell(3), cell(1)]);
        all.started(&cell(3));
        all.failed(&cell(3), MonoMs::new(9));
        assert_eq!(order(&all), [cell(1), cell(3)], "it begins again");
    }

    #[test]
    fn a_failure_pauses_all_saving() {
        let mut all = Checkpoints::default();
        all.recovered(cell(2));
        all.log_size(1_000, vec![cell(1)], 100);
        all.started(&cell(1));
        all.failed(&cell(1), MonoMs::new(50));
        assert_eq!(pressing(&all, 49), []);
        assert_eq!(all.leftover(MonoMs::new(49)).count(), 0);
        assert_eq!(all.paused_until(MonoMs::new(49)), Some(MonoMs::new(50)));
        assert_eq!(pressing(&all, 50), [cell(1)]);
        assert_eq!(all.leftover(MonoMs::new(50)).count(), 1);
    }
}
