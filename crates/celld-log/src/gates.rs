//! Gates that wait for a position of the log.

use std::collections::VecDeque;

use celld_core::Lsn;

/// Opens gates as proofs arrive. Pure: what a gate is, and what opening means, is the caller's.
///
/// Gates wait in LSN order, so a proof opens a prefix of the queue and costs nothing for the
/// gates behind it. Gates of one LSN open in the order in which they came.
#[derive(Debug)]
pub struct GateQueue<G> {
    waiting: VecDeque<(Lsn, G)>,
    durable: Lsn,
}

impl<G> Default for GateQueue<G> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            durable: Lsn::default(),
        }
    }
}

impl<G> GateQueue<G> {
    /// Lets a gate wait, or gives it back when it is open already.
    pub fn wait_for(&mut self, lsn: Lsn, gate: G) -> Option<G> {
        if lsn <= self.durable {
            return Some(gate);
        }
        // Almost always at the end: gates are asked for soon after their commit.
        let at = match self.waiting.back() {
            Some((last, _)) if *last > lsn => {
                self.waiting.partition_point(|(other, _)| *other <= lsn)
            }
            _ => self.waiting.len(),
        };
        self.waiting.insert(at, (lsn, gate));
        None
    }

    /// Records that everything up to `lsn` is durable, and takes out the gates that this opens.
    ///
    /// Proofs may arrive late or twice; the durable position never moves back.
    pub fn prove(&mut self, lsn: Lsn) -> impl Iterator<Item = G> + '_ {
        self.durable = self.durable.max(lsn);
        let opened = self
            .waiting
            .partition_point(|(other, _)| *other <= self.durable);
        self.waiting.drain(..opened).map(|(_, gate)| gate)
    }

    /// Takes out the gates up to `lsn` without recording a proof: a gate that is asked for while
    /// these are being opened still waits, and so does not overtake them.
    pub fn take_due(&mut self, lsn: Lsn) -> impl Iterator<Item = G> + '_ {
        let due = self.waiting.partition_point(|(other, _)| *other <= lsn);
        self.waiting.drain(..due).map(|(_, gate)| gate)
    }

    /// Takes out every gate that still waits, because no further proof can come.
    pub fn give_up(&mut self) -> impl Iterator<Item = G> + '_ {
        self.waiting.drain(..).map(|(_, gate)| gate)
    }

    /// Everything up to here is durable.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// How many gates wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True when no gate waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lsn(raw: u64) -> Lsn {
        Lsn::new(raw)
    }

    #[test]
    fn a_proven_position_needs_no_gate() {
        let mut gates = GateQueue::default();
        assert_eq!(gates.wait_for(lsn(0), 'a'), Some('a'));
        assert_eq!(gates.wait_for(lsn(1), 'b'), None);
        assert_eq!(gates.prove(lsn(1)).collect::<Vec<_>>(), ['b']);
        assert_eq!(gates.wait_for(lsn(1), 'c'), Some('c'));
    }

    #[test]
    fn a_gate_that_comes_while_others_open_does_not_overtake_them() {
        let mut gates = GateQueue::default();
        gates.wait_for(lsn(1), 'a');
        assert_eq!(gates.take_due(lsn(1)).collect::<Vec<_>>(), ['a']);
        assert_eq!(gates.wait_for(lsn(1), 'b'), None);
        assert_eq!(gates.prove(lsn(1)).collect::<Vec<_>>(), ['b']);
    }

    #[test]
    fn late_and_repeated_proofs_change_nothing() {
        let mut gates = GateQueue::default();
        gates.wait_for(lsn(6), 'a');
        assert_eq!(gates.prove(lsn(5)).count(), 0);
        assert_eq!(gates.prove(lsn(3)).count(), 0);
        assert_eq!(gates.durable(), lsn(5));
        assert_eq!(gates.give_up().collect::<Vec<_>>(), ['a']);
        assert!(gates.is_empty());
    }

    proptest! {
        #[test]
        fn gates_open_in_order_and_never_early(asks in proptest::collection::vec(1u64..50, 0..60), steps in proptest::collection::vec(0u64..60, 0..10)) {
            let mut gates = GateQueue::default();
            for (n, ask) in asks.iter().enumerate() {
                gates.wait_for(lsn(*ask), (*ask, n));
            }
            let mut proven = 0;
            let mut opened = Vec::new();
            for step in steps {
                proven = proven.max(step);
                let now: Vec<_> = gates.prove(lsn(step)).collect();
                prop_assert!(now.iter().all(|(ask, _)| *ask <= proven));
                opened.extend(now);
            }
            let mut expected: Vec<_> = asks.iter().enumerate().map(|(n, ask)| (*ask, n)).filter(|(ask, _)| *ask <= proven).collect();
            expected.sort();
            prop_assert_eq!(opened, expected);
            prop_assert_eq!(gates.len(), asks.iter().filter(|ask| **ask > proven).count());
        }
    }
}
