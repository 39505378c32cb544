//! The output gate of a cell: what may reveal a write waits here until the write is proven.

use std::collections::VecDeque;
use std::sync::Arc;

use celld_core::Lsn;
use parking_lot::Mutex;

use crate::api::World;
use crate::exchange::EventError;

/// Something that leaves a cell. It runs once: with `Ok` when the gate opens, with the error
/// when it is known that the writes before it were lost.
pub type Output = Box<dyn FnOnce(Result<(), EventError>) + Send>;

/// Outputs of one cell that wait for proofs, in the order in which the cell made them.
///
/// All of a cell's outputs pass through one queue whenever any of them waits, so that a later
/// output never overtakes an earlier one.
#[derive(Default)]
pub struct Outbox {
    waiting: Mutex<VecDeque<(Lsn, Output)>>,
}

impl Outbox {
    /// True when something waits.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// Lets `output` go as soon as everything up to `lsn` is durable.
    pub fn send(self: &Arc<Self>, lsn: Lsn, output: Output, world: &dyn World) {
        if lsn <= world.durable() && !self.is_waiting() {
            output(Ok(()));
            return;
        }
        self.waiting.lock().push_back((lsn, output));
        let outbox = self.clone();
        world.when_durable(lsn, Box::new(move |outcome| outbox.open(lsn, outcome)));
    }

    /// Runs every output up to `lsn`. The lock is held meanwhile: outputs only hand messages on,
    /// and two openings of one queue must not interleave.
    fn open(&self, lsn: Lsn, outcome: Result<(), EventError>) {
        let mut waiting = self.waiting.lock();
        while waiting.front().is_some_and(|(at, _)| *at <= lsn) {
            if let Some((_, output)) = waiting.pop_front() {
                output(outcome.clone());
            }
        }
    }
}
