//! The machine: its state, its verbs, its clockwork.

use std::collections::{BTreeMap, BTreeSet};

use crate::alarms::Alarms;
use crate::checkpoints::Checkpoints;
use crate::effect::{Effect, Effects, Refusal};
use crate::event::Event;
use crate::hosts::Host;
use crate::quarantine::Quarantine;
use crate::residency::{Cell, State};
use crate::sabotage::Sabotage;
use crate::scripts::Script;
use crate::{CellId, Config, HostId, MonoMs, NamespaceKey, Now, ScriptName};

/// The wall clock may be set while an alarm waits, so it is looked at this often at least.
const ALARM_LOOK_MS: u64 = 60_000;

/// Why the machine wants to be woken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Is the cell idle?
    Cell(CellId),
    /// Is the host idle?
    Host(HostId),
    /// How many events wait in the host?
    Load(HostId),
    /// The cell has waited for a place long enough.
    Admission(CellId),
    /// The node is full: look for idle cells again.
    Room,
    /// A script without a working host tries again.
    Pool(ScriptName),
}

impl Timer {
    fn reason(&self) -> &'static str {
        match self {
            Self::Cell(_) => "a cell may be idle",
            Self::Host(_) => "a host may be idle",
            Self::Load(_) => "a host has much to do",
            Self::Admission(_) => "a cell has waited for a place",
            Self::Room => "the node is full",
            Self::Pool(_) => "a host is to be started again",
        }
    }
}

/// The decision core of one node.
#[derive(Debug)]
pub struct Core {
    pub(crate) config: Config,
    pub(crate) scripts: BTreeMap<ScriptName, Script>,
    /// Which script's class a namespace belongs to.
    pub(crate) owners: BTreeMap<NamespaceKey, ScriptName>,
    pub(crate) hosts: BTreeMap<HostId, Host>,
    pub(crate) next_host: HostId,
    /// Every cell that is not cold.
    pub(crate) cells: BTreeMap<CellId, Cell>,
    /// Cells that wait for a place, in order of arrival.
    pub(crate) queued: BTreeMap<u64, CellId>,
    pub(crate) next_ticket: u64,
    /// Resident cells by the time of their last known use.
    pub(crate) by_use: BTreeSet<(MonoMs, CellId)>,
    /// Resident cells that must leave and were not asked to yet.
    pub(crate) leaving: BTreeSet<CellId>,
    /// Resident cells that leave once they have nothing to do.
    pub(crate) hurried: BTreeSet<CellId>,
    /// Cells that keep an isolate busy, with what they take of it in thousandths: they want an
    /// emptier one.
    pub(crate) hot: BTreeMap<CellId, u64>,
    pub(crate) quarantine: Quarantine,
    pub(crate) evicting: usize,
    /// Cells without a host whose record is being written.
    pub(crate) saving_out: usize,
    pub(crate) compacting: usize,
    pub(crate) alarms: Alarms,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) timers: BTreeSet<(MonoMs, Timer)>,
    pub(crate) draining: Option<u64>,
    drained: bool,
    last: Now,
    pub(crate) out: Effects,
    pub(crate) sabotage: Sabotage,
}

/// Numbers for metrics and for `/debug/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cells with an object in an isolate, or on their way in or out.
    pub cells: usize,
    /// Cells that wait for a place.
    pub cells_waiting: usize,
    /// Hosts that run stateless events.
    pub stateless_hosts: usize,
    /// Hosts that run cells.
    pub cell_hosts: usize,
    /// Alarms that are set, as far as known.
    pub alarms: usize,
    /// Cells whose latest data a dead session left in its log only.
    pub recovered_cells: usize,
    /// Cells that are kept out because they broke limits again and again.
    pub quarantined: usize,
}

impl Core {
    /// A node with nothing on it.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            scripts: BTreeMap::new(),
            owners: BTreeMap::new(),
            hosts: BTreeMap::new(),
            next_host: HostId::new(1),
            cells: BTreeMap::new(),
            queued: BTreeMap::new(),
            next_ticket: 0,
            by_use: BTreeSet::new(),
            leaving: BTreeSet::new(),
            hurried: BTreeSet::new(),
            hot: BTreeMap::new(),
            quarantine: Quarantine::default(),
            evicting: 0,
            saving_out: 0,
            compacting: 0,
            alarms: Alarms::default(),
            checkpoints: Checkpoints::default(),
            timers: BTreeSet::new(),
            draining: None,
            drained: false,
            last: Now::default(),
            out: Effects::default(),
            sabotage: Sabotage::default(),
        }
    }

    /// Takes one event in. Events that do not fit the state (late, repeated) change nothing.
    pub fn handle_event(&mut self, event: Event, now: Now) {
        self.last = now;
        match event {
            Event::Deployed {
                script,
                generation,
                namespaces,
            } => {
                self.deployed(script, generation, namespaces);
            }
            Event::HostReady { host } => self.host_ready(host, now.mono),
            Event::HostFailed { host } => self.host_failed(host, now.mono),
            Event::HostLost { host } => self.host_lost(host, now.mono),
            Event::HostLoad { host, waiting } => self.host_load(host, waiting, now.mono),
            Event::HostActivity {
                host,
                last_used,
                busy,
                waiting,
            } => {
                self.host_load(host, waiting, now.mono);
                self.host_activity(host, last_used, busy, now.mono);
            }
            Event::Wanted { cell } => self.wanted(cell, now.mono),
            Event::ImageLoaded { cell } => self.image_loaded(cell, now.mono),
            Event::ImageFailed { cell } => self.image_failed(cell, now.mono),
            Event::CellActivity { cell, activity } => self.cell_activity(cell, activity, now.mono),
            Event::CellLost { host, cell } => self.cell_lost(host, cell, now.mono),
            Event::LimitBroken { cell, limit } => self.limit_broken(cell, limit, now),
            Event::Evicted { cell, unsaved } => self.evicted(cell, unsaved, now.mono),
            Event::Saved { cell } => {
                self.checkpoints.saved(&cell);
                self.save_ended(cell, now.mono);
            }
            Event::SaveFailed { cell } => {
                let pause_until = now.mono.plus(self.config.checkpoint_pause_ms);
                self.checkpoints.failed(&cell, pause_until);
                self.save_ended(cell, now.mono);
            }
            Event::LogSize { bytes, oldest } => {
                let budget = self.config.log_budget_bytes;
                self.checkpoints.log_size(bytes, oldest, budget);
            }
            Event::Recovered { cell } => self.checkpoints.recovered(cell),
            Event::AlarmSet { cell, at } => self.alarms.set(cell, at),
            Event::AlarmHint { cell, not_before } => self.alarms.hint(cell, not_before),
            Event::AlarmRead { cell, found } => self.alarms.read(cell, found, now.wall),
            Event::AlarmDone { cell, outcome } => {
                self.alarms.done(cell, outcome, now.wall, &mut self.out);
            }
            Event::EvictIdle => self.evict_idle(),
            Event::Drain { grace_ms } => self.drain(grace_ms),
        }
        self.settle(now);
    }

    /// Does what is due.
    pub fn handle_time(&mut self, now: Now) {
        self.last = now;
        while let Some((at, _)) = self.timers.first()
            && *at <= now.mono
        {
            let Some((_, timer)) = self.timers.pop_first() else {
                break;
            };
            match timer {
                Timer::Cell(cell) => self.cell_timer(cell),
                Timer::Host(host) => self.host_timer(host, now.mono),
                Timer::Load(host) => self.load_timer(host),
                Timer::Admission(cell) => self.admission_timer(cell),
                Timer::Room => self.make_room(now.mono),
                Timer::Pool(script) => self.fill_pool(&script, now.mono),
            }
        }
        self.settle(now);
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.out.pop()
    }

    /// When [`Core::handle_time`] is due, and why.
    pub fn poll_deadline(&self) -> Option<(MonoMs, &'static str)> {
        let timer = self.timers.first().map(|(at, timer)| (*at, timer.reason()));
        let alarm = self.alarms.next_due(self.alarms_max()).map(|at| {
            let wait = self.last.wall.until(at).min(ALARM_LOOK_MS);
            (self.last.mono.plus(wait), "an alarm is due")
        });
        let pause = self
            .checkpoints
            .paused_until(self.last.mono)
            .map(|at| (at, "a checkpoint is to be tried again"));
        [timer, alarm, pause].into_iter().flatten().min()
    }

    /// Numbers for metrics.
    pub fn counts(&self) -> Counts {
        let stateless = self
            .hosts
            .values()
            .filter(|host| host.is_stateless())
            .count();
        Counts {
            cells: self.resident_count(),
            cells_waiting: self.queued.len(),
            stateless_hosts: stateless,
            cell_hosts: self.hosts.len() - stateless,
            alarms: self.alarms.len(),
            recovered_cells: self.checkpoints.recovered_len(),
            quarantined: self.quarantine.count(self.last.mono),
        }
    }

    /// No alarm starts before there is code to run it, nor while the node drains.
    fn alarms_max(&self) -> usize {
        let has_code = self.scripts.values().any(|script| script.current.is_some());
        if has_code && self.draining.is_none() {
            self.config.alarms_max
        } else {
            0
        }
    }

    /// What follows from any change, in one place.
    fn settle(&mut self, now: Now) {
        self.admit(now.mono);
        self.pump_evictions(now.mono);
        self.pump_checkpoints(now.mono);
        let alarms_max = self.alarms_max();
        self.alarms.fire_due(now.wall, alarms_max, &mut self.out);
        self.finish_drain();
    }

    fn pump_checkpoints(&mut self, now: MonoMs) {
        if self.draining.is_some() {
            return;
        }
        while self.checkpoints.in_flight() < self.config.checkpoints_max {
            let next = self
                .checkpoints
                .pressing(now)
                .find(|cell| self.can_save(cell))
                .or_else(|| {
                    self.checkpoints
                        .leftover(now)
                        .find(|cell| !self.cells.contains_key(cell))
                })
                .cloned();
            let Some(cell) = next else { return };
            self.checkpoints.started(&cell);
            self.start_save(cell);
        }
    }

    fn evict_idle(&mut self) {
        for (cell, held) in &self.cells {
            if matches!(held.state, State::Resident { .. }) {
                self.hurried.insert(cell.clone());
                self.out.push(Effect::CheckCell { cell: cell.clone() });
            }
        }
    }

    fn drain(&mut self, grace_ms: u64) {
        self.draining = Some(grace_ms);
        self.refuse_candidates();
        for cell in std::mem::take(&mut self.queued).into_values() {
            self.cells.remove(&cell);
            self.out.push(Effect::Refuse {
                cell,
                why: Refusal::ShuttingDown,
            });
        }
        let resident = |(cell, held): (&CellId, &Cell)| {
            matches!(held.state, State::Resident { .. }).then(|| cell.clone())
        };
        self.leaving = self.cells.iter().filter_map(resident).collect();
    }

    fn finish_drain(&mut self) {
        let Some(grace_ms) = self.draining else {
            return;
        };
        if self.drained || !self.cells.is_empty() {
            return;
        }
        self.drained = true;
        self.timers.clear();
        for host in std::mem::take(&mut self.hosts).into_keys() {
            self.out.push(Effect::StopHost { host, grace_ms });
        }
        self.out.push(Effect::Drained);
    }
}
