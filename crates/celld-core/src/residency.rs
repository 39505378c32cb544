//! Which cells live in an isolate, and the way in and out.
//!
//! ```text
//!            ┌────────► Queued ───┐ (node full)
//! cold ──────┤                    ▼
//!   ▲  Wanted└───────────────► Loading ──► Resident ──► Evicting ──► Saving ──► cold
//!   │                             image + host           remains      record
//!   └── Compacting (a cold cell's data moves from log to record)
//! ```
//! A cell has one entry, so it is loaded, resident, saved or compacted once at a time. A request
//! in any phase after `Resident` is remembered (`wanted`) and starts the way in when the way out
//! has ended.

use crate::effect::{Effect, Leave, Refusal};
use crate::event::Activity;
use crate::machine::{Core, Timer};
use crate::sabotage::Fault;
use crate::{CellId, CellLimit, HostId, MonoMs, Now};

/// While the node is full, idle cells are looked for this often.
const ROOM_LOOK_MS: u64 = 250;
/// A cell that is to leave once it has nothing to do is looked at this often.
const HURRY_LOOK_MS: u64 = 20;
/// Cells that are remembered as keeping an isolate busy.
const HOT_MAX: usize = 1_024;
/// Cells that are looked at each time.
const ROOM_PROBES_MAX: usize = 32;

/// A cell that is not cold.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) state: State,
    /// Somebody waits for it.
    pub(crate) wanted: bool,
}

/// Where a cell is on its way.
#[derive(Debug)]
pub(crate) enum State {
    /// Waits for a place on the node.
    Queued { ticket: u64, until: MonoMs },
    /// Its image is being read (`image`: is here), a host is reserved or not.
    Loading { host: Option<HostId>, image: bool },
    /// Serves.
    Resident {
        host: HostId,
        used: MonoMs,
        /// Time of its idleness check.
        check_at: Option<MonoMs>,
        /// It was told to rest, and has not been used since.
        resting: bool,
        /// A checkpoint is under way.
        saving: bool,
        /// The last measurement of its work: when it was taken, and what it showed.
        measured: Measured,
    },
    /// The host is letting it go.
    Evicting { host: HostId },
    /// Its record is being written.
    Saving,
    /// Its record is being rebuilt from the log.
    Compacting,
}

/// What a cell takes of its isolate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    at: MonoMs,
    spent_us: u64,
    /// In thousandths of the time between the last two measurements.
    pub(crate) permille: u64,
}

impl State {
    pub(crate) fn host(&self) -> Option<HostId> {
        match self {
            Self::Loading { host, .. } => *host,
            Self::Resident { host, .. } | Self::Evicting { host } => Some(*host),
            Self::Queued { .. } | Self::Saving | Self::Compacting => None,
        }
    }
}

impl Core {
    /// Cells that take up a place.
    pub(crate) fn resident_count(&self) -> usize {
        self.cells.len() - self.queued.len() - self.compacting
    }

    pub(crate) fn wanted(&mut self, cell: CellId, now: MonoMs) {
        let twice = self.sabotage.is(Fault::ActivateTwice);
        let hasty = self.sabotage.is(Fault::LoadWhileSaving);
        match self.cells.get_mut(&cell) {
            None => self.begin(cell, now),
            Some(Cell {
                state: State::Loading { .. },
                ..
            }) if twice => self.begin(cell, now),
            Some(Cell {
                state: State::Saving,
                ..
            }) if hasty => self.begin(cell, now),
            Some(held) => held.wanted = true,
        }
    }

    /// Starts a cold cell's way in.
    fn begin(&mut self, cell: CellId, now: MonoMs) {
        if self.draining.is_some() {
            self.out.push(Effect::Refuse {
                cell,
                why: Refusal::ShuttingDown,
            });
        } else if self.target(&cell).is_none() {
            self.out.push(Effect::Refuse {
                cell,
                why: Refusal::NoClass,
            });
        } else if let Some(remaining_ms) = self.kept_out(&cell, now) {
            let why = Refusal::Quarantined { remaining_ms };
            self.out.push(Effect::Refuse { cell, why });
        } else if !self.queued.is_empty() || self.resident_count() >= self.config.resident_max {
            self.queue(cell, now);
        } else {
            self.load(cell);
        }
    }

    fn queue(&mut self, cell: CellId, now: MonoMs) {
        let (ticket, until) = (self.next_ticket, now.plus(self.config.admission_wait_ms));
        self.next_ticket += 1;
        self.queued.insert(ticket, cell.clone());
        self.timers.insert((until, Timer::Admission(cell.clone())));
        self.cells.insert(
            cell,
            Cell {
                state: State::Queued { ticket, until },
                wanted: true,
            },
        );
        if self.queued.len() == 1 {
            self.make_room(now);
        }
    }

    fn load(&mut self, cell: CellId) {
        let state = State::Loading {
            host: None,
            image: false,
        };
        self.cells.insert(
            cell.clone(),
            Cell {
                state,
                wanted: true,
            },
        );
        self.out.push(Effect::LoadImage { cell: cell.clone() });
        self.place_again(cell);
    }

    /// Lets queued cells in while there is room.
    pub(crate) fn admit(&mut self, _now: MonoMs) {
        while self.resident_count() < self.config.resident_max
            && let Some((_, cell)) = self.queued.pop_first()
        {
            if let Some(Cell {
                state: State::Queued { until, .. },
                ..
            }) = self.cells.remove(&cell)
            {
                self.timers.remove(&(until, Timer::Admission(cell.clone())));
            }
            match self.target(&cell) {
                Some(_) => self.load(cell),
                None => self.out.push(Effect::Refuse {
                    cell,
                    why: Refusal::NoClass,
                }),
            }
        }
    }

    pub(crate) fn admission_timer(&mut self, cell: CellId) {
        if let Some(Cell {
            state: State::Queued { ticket, .. },
            ..
        }) = self.cells.get(&cell)
        {
            self.queued.remove(ticket);
            self.cells.remove(&cell);
            self.out.push(Effect::Refuse {
                cell,
                why: Refusal::Full,
            });
        }
    }

    /// Looks at the cells that were not used for longest, while others wait for a place.
    pub(crate) fn make_room(&mut self, now: MonoMs) {
        if self.queued.is_empty() {
            return;
        }
        let oldest = self
            .by_use
            .iter()
            .take(self.queued.len().min(ROOM_PROBES_MAX));
        for (_, cell) in oldest {
            self.out.push(Effect::CheckCell { cell: cell.clone() });
        }
        self.timers.insert((now.plus(ROOM_LOOK_MS), Timer::Room));
    }

    pub(crate) fn image_loaded(&mut self, cell: CellId, now: MonoMs) {
        let draining = self.draining.is_some();
        let Some(held) = self.cells.get_mut(&cell) else {
            return;
        };
        let State::Loading { host, image } = &mut held.state else {
            return;
        };
        *image = true;
        let (host, wanted) = (*host, held.wanted);
        if draining {
            self.cells.remove(&cell);
            if let Some(host) = host {
                self.vacate(&cell, host, now);
            }
            self.out.push(Effect::Refuse {
                cell,
                why: Refusal::ShuttingDown,
            });
        } else if host.is_some() {
            self.activate_if_complete(cell, now);
        } else if wanted {
            self.place_again(cell.clone());
            self.activate_if_complete(cell, now);
        } else {
            self.cells.remove(&cell);
            self.out.push(Effect::Release { cell });
        }
    }

    pub(crate) fn image_failed(&mut self, cell: CellId, now: MonoMs) {
        let Some(Cell {
            state: State::Loading { host, .. },
            ..
        }) = self.cells.get(&cell)
        else {
            return;
        };
        let host = *host;
        self.cells.remove(&cell);
        if let Some(host) = host {
            self.vacate(&cell, host, now);
        }
        self.out.push(Effect::Refuse {
            cell,
            why: Refusal::Unreadable,
        });
    }

    /// Hands a cell over once its image is here and its host is ready.
    pub(crate) fn activate_if_complete(&mut self, cell: CellId, now: MonoMs) {
        let Some(held) = self.cells.get_mut(&cell) else {
            return;
        };
        let State::Loading {
            host: Some(host),
            image: true,
        } = held.state
        else {
            return;
        };
        if !self.hosts.get(&host).is_some_and(|known| known.ready) {
            return;
        }
        held.wanted = false;
        let permille = self.hot.get(&cell).copied().unwrap_or(0);
        self.add_load(host, permille);
        let Some(held) = self.cells.get_mut(&cell) else {
            return;
        };
        held.state = State::Resident {
            host,
            used: now,
            check_at: None,
            resting: false,
            saving: false,
            measured: Measured {
                at: now,
                spent_us: 0,
                permille,
            },
        };
        self.by_use.insert((now, cell.clone()));
        let first_look = now.plus(self.first_look_ms());
        self.look_later(&cell, first_look);
        // Its host became ready during the drain: it answers what waits for it, and leaves.
        if self.draining.is_some() {
            self.leaving.insert(cell.clone());
        }
        self.out.push(Effect::Activate { cell, host });
    }

    fn look_later(&mut self, cell: &CellId, at: MonoMs) {
        if let Some(Cell {
            state: State::Resident { check_at, .. },
            ..
        }) = self.cells.get_mut(cell)
        {
            if let Some(old) = check_at.replace(at) {
                self.timers.remove(&(old, Timer::Cell(cell.clone())));
            }
            self.timers.insert((at, Timer::Cell(cell.clone())));
        }
    }

    pub(crate) fn cell_timer(&mut self, cell: CellId) {
        if let Some(Cell {
            state: State::Resident { check_at, .. },
            ..
        }) = self.cells.get_mut(&cell)
        {
            *check_at = None;
            self.out.push(Effect::CheckCell { cell });
        }
    }

    fn kept_out(&self, cell: &CellId, now: MonoMs) -> Option<u64> {
        if self.sabotage.is(Fault::IgnoreQuarantine) {
            return None;
        }
        self.quarantine.remaining_ms(cell, now)
    }

    /// A cell broke a limit. One that does so again and again leaves at once, and is kept out.
    pub(crate) fn limit_broken(&mut self, cell: CellId, limit: CellLimit, now: Now) {
        let Some((strikes, keep_out_ms)) = self.quarantine.strike(&cell, now.mono, &self.config)
        else {
            return;
        };
        if matches!(
            self.cells.get(&cell).map(|held| &held.state),
            Some(State::Resident { .. })
        ) {
            self.leaving.insert(cell.clone());
        }
        self.out.push(Effect::Quarantined {
            cell,
            limit,
            strikes,
            until: now.wall.plus(keep_out_ms),
        });
    }

    /// Judges what a cell takes of its isolate. One that keeps others waiting is to move.
    fn measure(&mut self, cell: &CellId, spent_us: u64, now: MonoMs) {
        let (least_ms, hot) = (self.config.hot_window_ms, self.config.hot_permille);
        let Some(Cell {
            state: State::Resident { host, measured, .. },
            ..
        }) = self.cells.get_mut(cell)
        else {
            return;
        };
        let passed_ms = now.get().saturating_sub(measured.at.get());
        if passed_ms < least_ms.max(1) {
            return;
        }
        // 1,000 µs in a ms, and 1,000 thousandths.
        let permille = spent_us.saturating_sub(measured.spent_us) / passed_ms;
        let (host, before) = (*host, measured.permille);
        *measured = Measured {
            at: now,
            spent_us,
            permille,
        };
        if permille < hot {
            self.hot.remove(cell);
        } else if self.hot.len() < HOT_MAX || self.hot.contains_key(cell) {
            self.hot.insert(cell.clone(), permille);
        }
        self.take_load(host, before);
        self.add_load(host, permille);
    }

    fn add_load(&mut self, host: HostId, permille: u64) {
        if let Some(host) = self.hosts.get_mut(&host) {
            host.permille += permille;
        }
    }

    fn take_load(&mut self, host: HostId, permille: u64) {
        if let Some(host) = self.hosts.get_mut(&host) {
            host.permille = host.permille.saturating_sub(permille);
        }
    }

    /// True when a cell keeps others waiting in its isolate, and could have one of its own.
    fn should_move(&self, cell: &CellId, host: HostId) -> bool {
        self.hot.contains_key(cell)
            && self.hosts.get(&host).is_some_and(|home| {
                home.cells.len() > 1 && self.own_place(&home.script, home.generation).is_some()
            })
    }

    /// Takes what a look at a cell has shown. An idle cell first rests, and leaves when it has been
    /// idle for longer; at once when its place is needed.
    pub(crate) fn cell_activity(&mut self, cell: CellId, activity: Activity, now: MonoMs) {
        self.measure(&cell, activity.spent_us, now);
        let needed = self.queued.len() > self.evicting;
        let rest_after = self.first_look_ms();
        let Some(Cell {
            state:
                State::Resident {
                    host,
                    used,
                    resting,
                    ..
                },
            ..
        }) = self.cells.get_mut(&cell)
        else {
            return;
        };
        let unused_since_look = activity.last_used <= *used;
        *resting &= unused_since_look && !activity.busy;
        let known = match activity.busy {
            true => now,
            false => activity.last_used.max(*used),
        };
        self.by_use.remove(&(*used, cell.clone()));
        *used = known;
        self.by_use.insert((known, cell.clone()));
        let (host, resting) = (*host, *resting);
        let moves = self.should_move(&cell, host);
        let hurried = moves || self.hurried.contains(&cell);
        let haste = self.sabotage.is(Fault::RestTooSoon);
        let rest_at = activity.last_used.plus(rest_after);
        let leave_at = activity.last_used.plus(self.config.idle_after_ms);
        if activity.busy {
            let pause = match hurried {
                true => HURRY_LOOK_MS,
                false => rest_after.max(1),
            };
            return self.look_later(&cell, now.plus(pause));
        }
        if leave_at <= now || hurried || (needed && unused_since_look) {
            self.leaving.insert(cell);
            return;
        }
        let rests = resting || rest_at <= now || haste;
        if rests && !resting {
            self.note_rest(&cell);
            let cell = cell.clone();
            self.out.push(Effect::Rest { cell, host });
        }
        let next = match rests {
            true => leave_at,
            false => rest_at,
        };
        self.look_later(&cell, next.max(now.plus(1)));
    }

    fn note_rest(&mut self, cell: &CellId) {
        if let Some(Cell {
            state: State::Resident { resting, .. },
            ..
        }) = self.cells.get_mut(cell)
        {
            *resting = true;
        }
    }

    /// How long a cell has to be idle before it is told to rest.
    fn first_look_ms(&self) -> u64 {
        self.config
            .hibernate_after_ms
            .min(self.config.idle_after_ms)
    }

    /// Asks cells that must leave to do so, not too many at once: until its record is written,
    /// each that has left keeps a snapshot in memory.
    pub(crate) fn pump_evictions(&mut self, now: MonoMs) {
        let mut held_back = Vec::new();
        while self.evicting + self.saving_out < self.config.evictions_max
            && let Some(cell) = self.leaving.pop_first()
        {
            match self.cells.get(&cell).map(|held| &held.state) {
                Some(State::Resident { saving: true, .. }) => held_back.push(cell),
                Some(State::Resident { host, .. }) => self.evict(cell, *host, now),
                _ => {}
            }
        }
        self.leaving.extend(held_back);
    }

    fn evict(&mut self, cell: CellId, host: HostId, now: MonoMs) {
        let (why, grace_ms) = if let Some(grace_ms) = self.draining {
            (Leave::ShuttingDown, grace_ms)
        } else if !self.owners.contains_key(&cell.namespace) {
            (Leave::ClassRemoved, self.config.adopt_grace_ms)
        } else if !self.is_current(&cell, host) {
            (Leave::NewCode, self.config.adopt_grace_ms)
        } else if self.kept_out(&cell, now).is_some() {
            (Leave::Quarantined, 0)
        } else if self.should_move(&cell, host) {
            (Leave::Busy, self.config.idle_grace_ms)
        } else {
            self.hot.remove(&cell);
            (Leave::Idle, self.config.idle_grace_ms)
        };
        self.unsettle(&cell);
        if let Some(held) = self.cells.get_mut(&cell) {
            held.state = State::Evicting { host };
            held.wanted = false;
        }
        self.evicting += 1;
        self.out.push(Effect::Evict {
            cell,
            host,
            grace_ms,
            why,
        });
    }

    /// Removes what only resident cells have: timers and their place in the order of use.
    fn unsettle(&mut self, cell: &CellId) {
        self.leaving.remove(cell);
        self.hurried.remove(cell);
        let Some(Cell {
            state:
                State::Resident {
                    host,
                    used,
                    check_at,
                    measured,
                    ..
                },
            ..
        }) = self.cells.get(cell)
        else {
            return;
        };
        let (host, permille) = (*host, measured.permille);
        self.by_use.remove(&(*used, cell.clone()));
        if let Some(at) = check_at {
            self.timers.remove(&(*at, Timer::Cell(cell.clone())));
        }
        self.take_load(host, permille);
    }

    pub(crate) fn evicted(&mut self, cell: CellId, unsaved: bool, now: MonoMs) {
        let Some(held) = self.cells.get_mut(&cell) else {
            return;
        };
        let State::Evicting { host } = held.state else {
            return;
        };
        self.evicting -= 1;
        if unsaved {
            held.state = State::Saving;
            self.saving_out += 1;
            self.checkpoints.started(&cell);
            self.out.push(Effect::SaveRecord { cell: cell.clone() });
            self.vacate(&cell, host, now);
        } else {
            // First out, then perhaps in again: it may come back to the same host.
            self.vacate(&cell, host, now);
            self.leave(cell, now);
        }
    }

    /// A write of the cell's record has ended, well or not.
    pub(crate) fn save_ended(&mut self, cell: CellId, now: MonoMs) {
        match self.cells.get_mut(&cell).map(|held| &mut held.state) {
            Some(State::Resident { saving, .. }) => *saving = false,
            Some(State::Saving) => {
                self.saving_out -= 1;
                self.leave(cell, now);
            }
            Some(State::Compacting) => {
                self.compacting -= 1;
                self.leave(cell, now);
            }
            _ => {}
        }
    }

    /// The way out has ended: the cell is cold, or starts its way in.
    fn leave(&mut self, cell: CellId, now: MonoMs) {
        match self.cells.remove(&cell) {
            Some(held) if held.wanted => self.begin(cell, now),
            Some(_) => self.out.push(Effect::Release { cell }),
            None => {}
        }
    }

    pub(crate) fn cell_lost(&mut self, host: HostId, cell: CellId, now: MonoMs) {
        let state = self.cells.get(&cell).map(|held| &held.state);
        if matches!(state, Some(State::Resident { host: home, .. }) if *home == host) {
            self.vacate(&cell, host, now);
            self.lose(cell, now);
        }
    }

    /// A cell's object is gone. Its data is in its record and the log.
    pub(crate) fn lose(&mut self, cell: CellId, now: MonoMs) {
        self.unsettle(&cell);
        let Some(held) = self.cells.get_mut(&cell) else {
            return;
        };
        match held.state {
            State::Resident { saving: true, .. } => {
                held.state = State::Saving;
                self.saving_out += 1;
            }
            State::Resident { .. } => {
                if self.sabotage.is(Fault::ForgetHostLoss) {
                    self.cells.remove(&cell);
                } else {
                    self.leave(cell, now);
                }
            }
            State::Loading { .. } => {
                self.place_again(cell.clone());
                self.activate_if_complete(cell, now);
            }
            // The shell answers `Evicted` for it: nothing came back.
            State::Evicting { .. } => {}
            State::Queued { .. } | State::Saving | State::Compacting => {}
        }
    }

    /// True when nothing stands in the way of writing the cell's record.
    pub(crate) fn can_save(&self, cell: &CellId) -> bool {
        match self.cells.get(cell).map(|held| &held.state) {
            None => true,
            Some(State::Resident { saving, .. }) => !saving && !self.leaving.contains(cell),
            Some(_) => false,
        }
    }

    pub(crate) fn start_save(&mut self, cell: CellId) {
        match self.cells.get_mut(&cell).map(|held| &mut held.state) {
            Some(State::Resident { host, saving, .. }) => {
                *saving = true;
                let host = *host;
                self.out.push(Effect::Checkpoint { cell, host });
            }
            _ => {
                self.compacting += 1;
                let state = State::Compacting;
                self.cells.insert(
                    cell.clone(),
                    Cell {
                        state,
                        wanted: false,
                    },
                );
                self.out.push(Effect::Compact { cell });
            }
        }
    }
}
