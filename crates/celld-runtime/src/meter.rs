//! Whose time it is that passes in JavaScript.
//!
//! Two things are measured. What a cell takes of its isolate, by the wall clock: it costs little
//! and decides where the cell lives. And the CPU time of one event over all its stretches of
//! JavaScript, which is limited: short stretches are not worth a system call each, so only those
//! that take a while are counted. Each event of a cell gives it a fresh budget.

use std::time::{Duration, Instant};

use crate::exchange::{EventError, Limit};
use crate::state::HostState;

/// A stretch of JavaScript that is shorter is not counted as CPU time.
const STRETCH_MIN: Duration = Duration::from_millis(5);

/// On whose behalf JavaScript runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Instance of a cell; 0 for none.
    pub slot: u32,
    /// Event of a stateless Worker; 0 for none.
    pub event: u32,
}

/// The stretch of JavaScript that runs.
#[derive(Debug, Default)]
pub struct Meter {
    account: Account,
    /// When it began; `None` outside of JavaScript.
    begun: Option<Instant>,
    /// CPU time of the thread when it was last looked at.
    cpu_seen: Duration,
}

impl Meter {
    /// On whose behalf JavaScript runs, or ran last.
    pub fn account(&self) -> Account {
        self.account
    }
}

impl HostState {
    /// What follows is done for `account`. Inside JavaScript this ends a stretch and begins another.
    pub fn run_for(&mut self, account: Account) {
        if self.meter.begun.is_some() {
            self.stretch_ends();
            self.stretch_begins();
        }
        self.meter.account = account;
        let used = self.spent(account).map_or(Duration::ZERO, |spent| *spent);
        if let Some(watched) = &self.watched {
            watched.set_used_before(used);
        }
    }

    /// JavaScript is about to run.
    pub fn stretch_begins(&mut self) {
        self.meter.begun = Some(Instant::now());
    }

    /// JavaScript has run. An event that has used up its budget ends.
    pub fn stretch_ends(&mut self) {
        let (Some(begun), account) = (self.meter.begun.take(), self.meter.account) else {
            return;
        };
        let wall = begun.elapsed();
        if account.slot != 0
            && let Some(cell) = self.cell_of(account.slot)
        {
            cell.image.pulse.spend(wall);
        }
        if wall < STRETCH_MIN || account == Account::default() {
            return;
        }
        let Some(watched) = self.watched.clone() else {
            return;
        };
        let now = watched.cpu_time().unwrap_or_default();
        // What the thread has used since it was last measured bounds this stretch, as the wall
        // clock does.
        let cpu = now.saturating_sub(self.meter.cpu_seen).min(wall);
        self.meter.cpu_seen = now;
        let Some(spent) = self.spent(account) else {
            return;
        };
        *spent += cpu;
        if *spent < watched.limit() || watched.was_ended() {
            return;
        }
        if account.slot != 0 {
            self.resets.push((account.slot, cell_over_limit()));
        } else {
            self.end_event(account.event, event_over_limit());
        }
    }

    /// CPU time that an account has used.
    fn spent(&mut self, account: Account) -> Option<&mut Duration> {
        if account.slot != 0 {
            return self.cell_of(account.slot).map(|cell| &mut cell.spent);
        }
        let event = self.events.get_mut(&account.event)?;
        Some(&mut event.spent)
    }

    /// Ends an event with an error.
    pub fn end_event(&mut self, id: u32, error: EventError) {
        let waiter = self
            .events
            .get_mut(&id)
            .and_then(|event| event.waiter.take());
        if let Some(waiter) = waiter {
            waiter.fail(error);
        }
        self.finish_event(id);
    }
}

/// The error of a cell that used too much CPU time.
pub fn cell_over_limit() -> EventError {
    EventError {
        limit: Some(Limit::Cpu),
        ..EventError::reset("Durable Object exceeded its CPU time limit and was reset.")
    }
}

/// The error of a stateless event that used too much CPU time.
pub fn event_over_limit() -> EventError {
    EventError {
        limit: Some(Limit::Cpu),
        ..EventError::new("Worker exceeded CPU time limit.")
    }
}
