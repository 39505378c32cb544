//! Isolate hosts: where a new cell goes, how the stateless pool grows and shrinks.

use std::collections::BTreeSet;

use crate::effect::{Effect, HostRole, Refusal};
use crate::machine::{Core, Timer};
use crate::residency::State;
use crate::sabotage::Fault;
use crate::{CellId, Generation, HostId, MonoMs, ScriptName};

/// Pause before a script without a working host tries again.
const RESTART_PAUSE_MS: u64 = 1_000;
/// Pause between two looks at the load of a host that has much to do.
const LOAD_LOOK_MS: u64 = 250;

/// What is known of a host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) script: ScriptName,
    pub(crate) generation: Generation,
    pub(crate) role: HostRole,
    pub(crate) ready: bool,
    /// Cells that live here or are on their way.
    pub(crate) cells: BTreeSet<CellId>,
    /// Waiting events, as last reported.
    pub(crate) waiting: u32,
    check_at: Option<MonoMs>,
    /// When its load is looked at again, while it has much to do.
    load_at: Option<MonoMs>,
    /// What its cells take of it together, in thousandths of its time.
    pub(crate) permille: u64,
}

/// Where a cell could be alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this host.
    Empty(HostId),
    /// In another host.
    New,
}

impl Host {
    pub(crate) fn is_stateless(&self) -> bool {
        self.role == HostRole::Stateless
    }
}

impl Core {
    /// Starts a host; it may be given cells at once.
    pub(crate) fn start_host(
        &mut self,
        script: &ScriptName,
        generation: Generation,
        role: HostRole,
    ) -> HostId {
        let id = self.next_host;
        self.next_host = id.next();
        let host = Host {
            script: script.clone(),
            generation,
            role,
            ready: false,
            cells: BTreeSet::new(),
            waiting: 0,
            check_at: None,
            load_at: None,
            permille: 0,
        };
        self.hosts.insert(id, host);
        self.out.push(Effect::StartHost {
            host: id,
            script: script.clone(),
            generation,
            role,
        });
        id
    }

    /// Chooses a host for a cell of the script's adopted code.
    ///
    /// Cells are packed: the fullest host that has room and is not busy takes the next one. When
    /// every host with room is busy, a new one is started, unless the script is spread over as
    /// many hosts as stateless pools may have; then the least busy one takes it. A cell that
    /// kept an isolate busy gets one of its own, if there may be another.
    pub(crate) fn place(
        &mut self,
        cell: &CellId,
        script: &ScriptName,
        generation: Generation,
    ) -> HostId {
        if self.hot.contains_key(cell) {
            match self.own_place(script, generation) {
                Some(Place::Empty(id)) => return id,
                Some(Place::New) => return self.start_host(script, generation, HostRole::Cells),
                None => {}
            }
        }
        let room = match self.sabotage.is(Fault::Overpack) {
            true => usize::MAX,
            false => self.config.cells_per_host_max,
        };
        let with_room = || {
            self.cell_hosts(script, generation)
                .filter(|(_, host)| host.cells.len() < room)
        };
        let is_calm = |host: &Host| {
            host.waiting < self.config.host_busy_waiting && host.permille < self.config.hot_permille
        };
        let calm = with_room()
            .filter(|(_, host)| is_calm(host))
            .max_by_key(|(id, host)| (host.cells.len(), std::cmp::Reverse(*id)))
            .map(|(id, _)| id);
        if let Some(id) = calm {
            return id;
        }
        let spread = self.cell_hosts(script, generation).count();
        let least_busy = with_room()
            .min_by_key(|(id, host)| (host.waiting, host.permille, host.cells.len(), *id))
            .map(|(id, _)| id);
        match least_busy {
            Some(id) if spread >= self.config.stateless_hosts_max => id,
            _ => self.start_host(script, generation, HostRole::Cells),
        }
    }

    fn hosts_of<'a>(
        &'a self,
        script: &'a ScriptName,
        generation: Generation,
        role: HostRole,
    ) -> impl Iterator<Item = (HostId, &'a Host)> {
        self.hosts
            .iter()
            .filter(move |(_, host)| {
                host.role == role && host.script == *script && host.generation == generation
            })
            .map(|(id, host)| (*id, host))
    }

    /// Hosts that run cells of one deployment.
    fn cell_hosts<'a>(
        &'a self,
        script: &'a ScriptName,
        generation: Generation,
    ) -> impl Iterator<Item = (HostId, &'a Host)> {
        self.hosts_of(script, generation, HostRole::Cells)
    }

    /// Where a cell that keeps an isolate busy could be alone. There are at most as many isolates
    /// of that kind as stateless pools may have.
    pub(crate) fn own_place(&self, script: &ScriptName, generation: Generation) -> Option<Place> {
        let mut hosts = self.cell_hosts(script, generation);
        let empty = hosts.find(|(_, host)| host.cells.is_empty());
        if let Some((id, _)) = empty {
            return Some(Place::Empty(id));
        }
        let is_busy = |host: &Host| host.permille >= self.config.hot_permille;
        let busy = self
            .cell_hosts(script, generation)
            .filter(|(_, host)| is_busy(host));
        (busy.count() < self.config.stateless_hosts_max).then_some(Place::New)
    }

    pub(crate) fn host_ready(&mut self, id: HostId, now: MonoMs) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        host.ready = true;
        let (script, generation, role) = (host.script.clone(), host.generation, host.role);
        let waiting: Vec<CellId> = host.cells.iter().cloned().collect();
        match role {
            HostRole::Stateless if self.is_candidate(&script, generation) => {
                self.promote(&script, now);
            }
            HostRole::Stateless => {
                self.publish_workers(&script);
                self.watch_pool(&script, now);
            }
            HostRole::Cells => {
                for cell in waiting {
                    self.activate_if_complete(cell, now);
                }
                self.watch_empty(id, now);
            }
        }
    }

    pub(crate) fn host_failed(&mut self, id: HostId, now: MonoMs) {
        let Some(host) = self.hosts.remove(&id) else {
            return;
        };
        self.forget_timers(id, &host);
        if host.is_stateless() && self.is_candidate(&host.script, host.generation) {
            self.refuse_candidate(&host.script);
        } else if host.is_stateless() {
            self.refuse_if_empty(&host.script, host.generation);
            self.timers
                .insert((now.plus(RESTART_PAUSE_MS), Timer::Pool(host.script)));
        }
        for cell in host.cells {
            self.unplace(cell, Refusal::HostFailed);
        }
    }

    /// Events wait for a host that is starting; when none is, they are told so.
    fn refuse_if_empty(&mut self, script: &ScriptName, generation: Generation) {
        let adopted = self.scripts.get(script).and_then(|known| known.current);
        if adopted == Some(generation) && self.pool(script, generation).next().is_none() {
            self.out.push(Effect::RefuseWorkers {
                script: script.clone(),
                generation,
            });
        }
    }

    pub(crate) fn host_lost(&mut self, id: HostId, now: MonoMs) {
        let Some(host) = self.hosts.remove(&id) else {
            return;
        };
        self.forget_timers(id, &host);
        if host.is_stateless() && self.is_candidate(&host.script, host.generation) {
            self.refuse_candidate(&host.script);
        } else if host.is_stateless() {
            self.publish_workers(&host.script);
            self.fill_pool(&host.script, now);
        }
        for cell in host.cells {
            self.lose(cell, now);
        }
    }

    /// Keeps at least one stateless host of the adopted code.
    pub(crate) fn fill_pool(&mut self, script: &ScriptName, _now: MonoMs) {
        let Some(generation) = self.scripts.get(script).and_then(|known| known.current) else {
            return;
        };
        if self.draining.is_none() && self.pool(script, generation).next().is_none() {
            self.start_host(script, generation, HostRole::Stateless);
        }
    }

    /// Stateless hosts of one deployment, ready or not.
    pub(crate) fn pool<'a>(
        &'a self,
        script: &'a ScriptName,
        generation: Generation,
    ) -> impl Iterator<Item = (HostId, &'a Host)> {
        self.hosts_of(script, generation, HostRole::Stateless)
    }

    /// Tells the shell which hosts take the script's stateless events.
    pub(crate) fn publish_workers(&mut self, script: &ScriptName) {
        let Some(generation) = self.scripts.get(script).and_then(|known| known.current) else {
            return;
        };
        let hosts = self
            .pool(script, generation)
            .filter(|(_, host)| host.ready)
            .map(|(id, _)| id)
            .collect();
        self.out.push(Effect::PublishWorkers {
            script: script.clone(),
            generation,
            hosts,
        });
    }

    pub(crate) fn host_load(&mut self, id: HostId, waiting: u32, now: MonoMs) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        host.waiting = waiting;
        let threshold = self.config.stateless_grow_waiting;
        if waiting >= threshold && host.load_at.is_none() {
            let at = now.plus(LOAD_LOOK_MS);
            host.load_at = Some(at);
            self.timers.insert((at, Timer::Load(id)));
        }
        let (script, generation) = (host.script.clone(), host.generation);
        let adopted = self.scripts.get(&script).and_then(|known| known.current);
        if !self.hosts[&id].is_stateless() || adopted != Some(generation) || self.draining.is_some()
        {
            return;
        }
        let all_behind = self
            .pool(&script, generation)
            .all(|(_, host)| host.ready && host.waiting >= threshold);
        let count = self.pool(&script, generation).count();
        if all_behind && count < self.config.stateless_hosts_max {
            self.start_host(&script, generation, HostRole::Stateless);
            self.watch_pool(&script, now);
        }
    }

    pub(crate) fn load_timer(&mut self, id: HostId) {
        if let Some(host) = self.hosts.get_mut(&id) {
            host.load_at = None;
            self.out.push(Effect::CheckHost { host: id });
        }
    }

    /// Looks after the idleness of a pool that has more hosts than it must.
    fn watch_pool(&mut self, script: &ScriptName, now: MonoMs) {
        let Some(generation) = self.scripts.get(script).and_then(|known| known.current) else {
            return;
        };
        let members: Vec<HostId> = self.pool(script, generation).map(|(id, _)| id).collect();
        if members.len() > 1 {
            let at = now.plus(self.config.host_idle_ms);
            members.into_iter().for_each(|id| self.watch_host(id, at));
        }
    }

    fn watch_host(&mut self, id: HostId, at: MonoMs) {
        if let Some(host) = self.hosts.get_mut(&id)
            && host.check_at.is_none()
        {
            host.check_at = Some(at);
            self.timers.insert((at, Timer::Host(id)));
        }
    }

    /// Stops a cell host that has become empty: at once when its code is replaced, else after a
    /// while, unless it is the script's last.
    pub(crate) fn watch_empty(&mut self, id: HostId, now: MonoMs) {
        let Some(host) = self.hosts.get(&id) else {
            return;
        };
        if host.is_stateless() || !host.cells.is_empty() {
            return;
        }
        let adopted = self
            .scripts
            .get(&host.script)
            .and_then(|known| known.current);
        if adopted == Some(host.generation) && self.draining.is_none() {
            let at = now.plus(self.config.host_idle_ms);
            self.watch_host(id, at);
        } else {
            self.stop_host(id, self.config.adopt_grace_ms);
        }
    }

    pub(crate) fn stop_host(&mut self, id: HostId, grace_ms: u64) {
        if let Some(host) = self.hosts.remove(&id) {
            self.forget_timers(id, &host);
            self.out.push(Effect::StopHost { host: id, grace_ms });
        }
    }

    /// Removes the timers of a host that is taken off the list.
    fn forget_timers(&mut self, id: HostId, host: &Host) {
        if let Some(at) = host.check_at {
            self.timers.remove(&(at, Timer::Host(id)));
        }
        if let Some(at) = host.load_at {
            self.timers.remove(&(at, Timer::Load(id)));
        }
    }

    pub(crate) fn host_timer(&mut self, id: HostId, _now: MonoMs) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        host.check_at = None;
        if host.is_stateless() {
            self.out.push(Effect::CheckHost { host: id });
            return;
        }
        let (script, generation) = (host.script.clone(), host.generation);
        let others = self.hosts.iter().any(|(other, host)| {
            *other != id
                && host.role == HostRole::Cells
                && host.script == script
                && host.generation == generation
        });
        if others && self.hosts[&id].cells.is_empty() {
            self.stop_host(id, self.config.adopt_grace_ms);
        }
    }

    pub(crate) fn host_activity(&mut self, id: HostId, last_used: MonoMs, busy: bool, now: MonoMs) {
        let Some(host) = self.hosts.get(&id).filter(|host| host.is_stateless()) else {
            return;
        };
        let (script, generation) = (host.script.clone(), host.generation);
        let idle_at = last_used.plus(self.config.host_idle_ms);
        if self
            .pool(&script, generation)
            .filter(|(_, host)| host.ready)
            .count()
            < 2
        {
            return;
        }
        if !busy && idle_at <= now {
            self.retire_from_pool(id, &script);
        } else {
            let next = if busy {
                now.plus(self.config.host_idle_ms)
            } else {
                idle_at
            };
            self.watch_host(id, next);
        }
    }

    fn retire_from_pool(&mut self, id: HostId, script: &ScriptName) {
        let Some(host) = self.hosts.remove(&id) else {
            return;
        };
        self.forget_timers(id, &host);
        self.publish_workers(script);
        let grace_ms = self.config.adopt_grace_ms;
        self.out.push(Effect::StopHost { host: id, grace_ms });
    }

    /// True when the host runs the code that the cell is to run.
    pub(crate) fn is_current(&self, cell: &CellId, host: HostId) -> bool {
        let Some(host) = self.hosts.get(&host) else {
            return false;
        };
        let owner = self.owners.get(&cell.namespace);
        owner == Some(&host.script)
            && self
                .scripts
                .get(&host.script)
                .and_then(|known| known.current)
                == Some(host.generation)
    }

    /// Takes a cell out of its host's list.
    pub(crate) fn vacate(&mut self, cell: &CellId, host: HostId, now: MonoMs) {
        if let Some(held) = self.hosts.get_mut(&host) {
            held.cells.remove(cell);
            self.watch_empty(host, now);
        }
    }

    /// A cell's host could not start: whoever waits for the cell is told.
    fn unplace(&mut self, cell: CellId, why: Refusal) {
        let Some(held) = self.cells.get_mut(&cell) else {
            return;
        };
        if let State::Loading { host, image, .. } = &mut held.state {
            *host = None;
            if *image {
                self.cells.remove(&cell);
            } else {
                held.wanted = false;
            }
            self.out.push(Effect::Refuse { cell, why });
        }
    }
}
