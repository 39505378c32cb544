//! The node's two clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use celld_core::{MonoMs, Now, WallMs};

/// Reads time for the core and for the shell around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// The moment of which [`Clock::mono`] says 0.
    pub(crate) fn origin(&self) -> Instant {
        self.start
    }

    pub(crate) fn mono(&self) -> MonoMs {
        MonoMs::new(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            mono: self.mono(),
            wall: wall(),
        }
    }
}

/// Milliseconds since the epoch.
pub(crate) fn wall() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    WallMs::new(since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }))
}
