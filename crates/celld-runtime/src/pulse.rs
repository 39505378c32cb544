//! Whether a cell is at work, for the node to look at without asking.
//!
//! The node counts what it sends, the host what it takes and what it has in progress. Nobody is
//! told anything: whoever looks for idle cells reads these numbers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use celld_core::MonoMs;

/// One residence of one cell. Numbers may be read a moment late, so a decision that rests on them
/// is checked again by the host.
#[derive(Debug)]
pub struct Pulse {
    /// Zero of the node's monotonic clock.
    origin: Instant,
    sent: AtomicU32,
    taken: AtomicU32,
    running: AtomicU32,
    used_ms: AtomicU64,
    spent_us: AtomicU64,
}

impl Pulse {
    /// A cell that was just used. `origin` is the zero of the node's monotonic clock.
    pub fn new(origin: Instant) -> Self {
        let pulse = Self {
            origin,
            sent: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            running: AtomicU32::new(0),
            used_ms: AtomicU64::new(0),
            spent_us: AtomicU64::new(0),
        };
        pulse.touch();
        pulse
    }

    /// An event is about to be put into the host's mailbox.
    pub fn send(&self, now: MonoMs) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.used_ms.store(now.get(), Ordering::Relaxed);
    }

    /// An event could not be put there.
    pub fn send_failed(&self) {
        self.sent.fetch_sub(1, Ordering::Relaxed);
    }

    /// The host has taken an event out of its mailbox.
    pub fn take(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Events that the host has in progress.
    pub(crate) fn set_running(&self, running: usize) {
        let running = u32::try_from(running).unwrap_or(u32::MAX);
        let before = self.running.swap(running, Ordering::Relaxed);
        if running == 0 && before > 0 {
            self.touch();
        }
    }

    fn touch(&self) {
        let now = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(now, Ordering::Relaxed);
    }

    /// Events that were sent so far; the count comes round.
    pub(crate) fn sent_count(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    /// True when the event that was taken last was sent before the count was `sent`.
    pub(crate) fn was_sent_before(&self, sent: u32) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        sent.wrapping_sub(taken) as i32 >= 0
    }

    /// True when events are on their way.
    pub(crate) fn is_expecting(&self) -> bool {
        self.sent.load(Ordering::Relaxed) != self.taken.load(Ordering::Relaxed)
    }

    /// True while an event is in progress or on its way.
    pub fn is_busy(&self) -> bool {
        self.is_expecting() || self.running.load(Ordering::Relaxed) > 0
    }

    /// Its events have taken some more of the isolate's time.
    pub(crate) fn spend(&self, time: Duration) {
        // The host alone writes this.
        let spent = self.spent_us.load(Ordering::Relaxed);
        let more = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.spent_us
            .store(spent.saturating_add(more), Ordering::Relaxed);
    }

    /// Time that its events have taken in the isolate, in µs.
    pub fn spent_us(&self) -> u64 {
        self.spent_us.load(Ordering::Relaxed)
    }

    /// When the cell was last sent an event, or had ended all of them.
    pub fn used_at(&self) -> MonoMs {
        MonoMs::new(self.used_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_busy_from_the_sending_of_an_event_to_its_end() {
        let pulse = Pulse::new(Instant::now());
        assert!(!pulse.is_busy());
        pulse.send(MonoMs::new(7));
        assert!(pulse.is_busy() && pulse.is_expecting());
        pulse.set_running(1);
        pulse.take();
        assert!(pulse.is_busy() && !pulse.is_expecting());
        assert_eq!(pulse.used_at(), MonoMs::new(7));
        pulse.set_running(0);
        assert!(!pulse.is_busy());
        assert!(pulse.used_at() < MonoMs::new(7), "its end counts as use");
        pulse.send(MonoMs::new(9));
        pulse.send_failed();
        assert!(!pulse.is_busy());
    }
}
