//! Times as the core sees them. It never reads a clock: every call brings its own `Now`.

use std::fmt;

/// Milliseconds on the process's monotonic clock, from an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoMs(u64);

impl MonoMs {
    /// Wraps a reading of the monotonic clock.
    pub const fn new(ms: u64) -> Self {
        Self(ms)
    }

    /// The raw number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This time, `ms` later.
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// Milliseconds since the Unix epoch, as alarms are set. The clock may jump either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMs(i64);

impl WallMs {
    /// Wraps a reading of the wall clock.
    pub const fn new(ms: i64) -> Self {
        Self(ms)
    }

    /// The raw number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// This time, `ms` later.
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add_unsigned(ms))
    }

    /// Milliseconds from `self` until `later`; 0 when that has passed.
    pub fn until(self, later: WallMs) -> u64 {
        u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0)
    }
}

impl fmt::Display for WallMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Both clocks, read together by the shell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Orders everything inside the process.
    pub mono: MonoMs,
    /// Only alarms look at it.
    pub wall: WallMs,
}
