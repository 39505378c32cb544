//! The simulated shell: carries effects out in its own time, and makes trouble.

use super::model::{Debt, Model, SimCell, SimHost};
use crate::dice::Dice;
use crate::sabotage::Fault;
use crate::{
    Activity, AlarmEnd, CellId, CellLimit, Config, Core, Effect, Event, Generation, HostId,
    HostRole, MonoMs, NamespaceKey, Now, ObjectId, ScriptName, WallMs,
};

const CELLS: u64 = 12;
const CELLS_PER_HOST: usize = 3;
const RESIDENT: usize = 8;
const REST_AFTER_MS: u64 = 30;
const STRIKES: u32 = 2;
const FORGET_MS: u64 = 500;
const REST_STEPS: usize = 4_000;

pub(super) struct World {
    core: Core,
    dice: Dice,
    model: Model,
    now: u64,
    generation: u64,
    drained: bool,
    /// No more trouble: everything succeeds.
    calm: bool,
    pub(super) trace: Vec<String>,
}

type Checked = Result<(), String>;

fn check(holds: bool, broken: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(broken()) }
}

fn cell(n: u64) -> CellId {
    CellId {
        namespace: NamespaceKey::new(if n.is_multiple_of(4) { "b" } else { "a" }).expect("a key"),
        object: ObjectId::from_bytes([u8::try_from(n).expect("few cells"); 32]),
    }
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut core = Core::new(Config {
            cells_per_host_max: CELLS_PER_HOST,
            resident_max: RESIDENT,
            admission_wait_ms: 400,
            idle_after_ms: 60,
            hibernate_after_ms: REST_AFTER_MS,
            hot_window_ms: 20,
            quarantine_strikes: STRIKES,
            quarantine_first_ms: 60,
            quarantine_max_ms: 200,
            quarantine_forget_ms: FORGET_MS,
            stateless_hosts_max: 3,
            host_idle_ms: 200,
            host_busy_waiting: 4,
            evictions_max: 3,
            log_budget_bytes: 100,
            checkpoints_max: 2,
            checkpoint_pause_ms: 50,
            alarms_max: 3,
            ..Config::default()
        });
        core.sabotage.planted = fault;
        core.alarms.sabotage.planted = fault;
        let mut model = Model::default();
        for n in 0..CELLS {
            model.cells.insert(cell(n), SimCell::default());
        }
        let dice = Dice::new(seed);
        let trace = Vec::new();
        Self {
            core,
            dice,
            model,
            now: 1,
            generation: 0,
            drained: false,
            calm: false,
            trace,
        }
    }

    /// One random thing happens.
    pub(super) fn step(&mut self) -> Checked {
        if self.generation == 0 {
            return self.deploy();
        }
        match self.dice.below(100) {
            0..=34 => self.request(),
            35..=69 => self.pay_one(),
            70..=84 => self.pass(20),
            85..=86 => self.deploy(),
            87 => self.kill(),
            88..=89 => self.reset_cell(),
            90..=94 => self.move_alarm(),
            95..=96 => self.load(),
            97 => self.pressure(),
            98 => self.break_limit(),
            _ => self.recovered(),
        }
    }

    /// Trouble ends; everything that is owed is paid, and time passes until nothing is left to do.
    pub(super) fn come_to_rest(&mut self) -> Checked {
        self.calm = true;
        for _ in 0..REST_STEPS {
            if !self.model.debts.is_empty() {
                self.pay_one()?;
                continue;
            }
            let waits = self.model.cells.values().any(|held| held.waiting > 0);
            let alarms = self.model.cells.values().any(|held| held.alarm.is_some());
            if !waits && !alarms {
                return Ok(());
            }
            match self.core.poll_deadline() {
                Some((at, _)) => self.now = self.now.max(at.get()),
                None => break,
            }
            self.tick()?;
        }
        let waiting: Vec<_> = self
            .model
            .cells
            .iter()
            .filter(|(_, held)| held.waiting > 0)
            .collect();
        check(waiting.is_empty(), || {
            format!("events wait for ever for {}", waiting[0].0)
        })?;
        Err("an alarm never fires, or the world does not come to rest".into())
    }

    /// Everything leaves.
    pub(super) fn drain(&mut self) -> Checked {
        self.tell(Event::Drain { grace_ms: 10 })?;
        for _ in 0..REST_STEPS {
            if self.drained {
                let left = self
                    .model
                    .hosts
                    .values()
                    .map(|host| host.cells.len())
                    .sum::<usize>();
                return check(left == 0 && self.model.hosts.is_empty(), || {
                    "drained, but hosts are left".into()
                });
            }
            if self.model.debts.is_empty() {
                self.pass(100)?;
            } else {
                self.pay_one()?;
            }
        }
        Err("the node does not drain".into())
    }

    fn tell(&mut self, event: Event) -> Checked {
        self.trace.push(format!("{} {event:?}", self.now));
        let now = self.clock();
        self.core.handle_event(event, now);
        self.carry_out()
    }

    fn clock(&self) -> Now {
        let wall = i64::try_from(self.now).expect("little time passes");
        Now {
            mono: MonoMs::new(self.now),
            wall: WallMs::new(wall),
        }
    }

    fn wall(&self) -> WallMs {
        self.clock().wall
    }

    fn pass(&mut self, most: u64) -> Checked {
        self.now += 1 + self.dice.below(most);
        self.tick()
    }

    fn tick(&mut self) -> Checked {
        let now = self.clock();
        self.core.handle_time(now);
        self.carry_out()
    }

    fn carry_out(&mut self) -> Checked {
        while let Some(effect) = self.core.poll_effect() {
            self.trace.push(format!("{} -> {effect:?}", self.now));
            self.effect(effect)?;
        }
        let resident = self.core.counts().cells;
        check(resident <= RESIDENT, || {
            format!("{resident} cells are resident")
        })
    }

    fn held(&mut self, cell: &CellId) -> &mut SimCell {
        self.model
            .cells
            .get_mut(cell)
            .expect("only known cells are spoken of")
    }

    fn some_cell(&mut self) -> CellId {
        cell(self.dice.below(CELLS))
    }

    // What happens to the node.

    fn request(&mut self) -> Checked {
        let cell = self.some_cell();
        self.send(&cell)
    }

    /// An event for a cell: straight to its host, or into the queue.
    fn send(&mut self, cell: &CellId) -> Checked {
        let now = self.now;
        let held = self.held(cell);
        held.last_used = now;
        let route = held.route;
        match route {
            Some(host) if self.model.hosts.contains_key(&host) => {
                self.held(cell).version += 1;
                Ok(())
            }
            dead => {
                let held = self.held(cell);
                held.route = None;
                held.waiting += 1;
                if let Some(host) = dead {
                    self.tell(Event::HostLost { host })?;
                }
                self.tell(Event::Wanted { cell: cell.clone() })
            }
        }
    }

    fn deploy(&mut self) -> Checked {
        self.generation += 1;
        let both = self.generation == 1 || !self.dice.one_in(3);
        let names: &[&str] = if both { &["a", "b"] } else { &["a"] };
        let namespaces = names
            .iter()
            .map(|name| NamespaceKey::new(name).expect("a key"))
            .collect();
        let (script, generation) = (ScriptName::new("s"), Generation::new(self.generation));
        self.tell(Event::Deployed {
            script,
            generation,
            namespaces,
        })
    }

    fn some_host(&mut self, which: impl Fn(&SimHost) -> bool) -> Option<HostId> {
        let all: Vec<HostId> = self
            .model
            .hosts
            .iter()
            .filter(|(_, host)| which(host))
            .map(|(id, _)| *id)
            .collect();
        let index = usize::try_from(self.dice.below(all.len() as u64)).expect("few hosts");
        all.get(index).copied()
    }

    fn kill(&mut self) -> Checked {
        let Some(host) = self.some_host(|host| host.ready) else {
            return Ok(());
        };
        self.model.hosts.remove(&host);
        if self.dice.one_in(2) {
            return self.tell(Event::HostLost { host });
        }
        self.model.debts.push(Debt::Death(host));
        Ok(())
    }

    fn reset_cell(&mut self) -> Checked {
        let Some(host) = self.some_host(|host| !host.cells.is_empty()) else {
            return Ok(());
        };
        let known = self.model.hosts.get_mut(&host).expect("it was just chosen");
        let Some(cell) = known.cells.pop_first() else {
            return Ok(());
        };
        let held = self.held(&cell);
        if held.route == Some(host) {
            held.route = None;
        }
        self.tell(Event::CellLost { host, cell })
    }

    /// A cell uses too much CPU time; its host resets it.
    fn break_limit(&mut self) -> Checked {
        let Some(host) = self.some_host(|host| !host.cells.is_empty()) else {
            return Ok(());
        };
        let known = self.model.hosts.get(&host).expect("it was just chosen");
        let Some(cell) = known.cells.first().cloned() else {
            return Ok(());
        };
        let now = self.now;
        let held = self.held(&cell);
        if now >= held.struck.max(held.kept_out) + FORGET_MS {
            held.strikes = 0;
        }
        held.strikes += 1;
        held.struck = now;
        let (strikes, limit) = (held.strikes, CellLimit::Cpu);
        let told = cell.clone();
        self.tell(Event::LimitBroken { cell, limit })?;
        let kept_out = self.held(&told).kept_out > now;
        check(kept_out == (strikes >= STRIKES), || {
            format!("{told} broke {strikes} limits, and kept out: {kept_out}")
        })
    }

    /// A resident cell sets, moves or deletes its alarm.
    fn move_alarm(&mut self) -> Checked {
        let cell = self.some_cell();
        let now = self.wall();
        if self.model.homes(&cell) == 0 {
            return Ok(());
        }
        let at = (!self.dice.one_in(4)).then(|| now.plus(self.dice.below(200)));
        let held = self.held(&cell);
        // Deleting the alarm that is running does not stop its retries.
        if held.firing && at.is_none() {
            return Ok(());
        }
        held.moved |= held.firing && held.alarm != at;
        held.alarm = at;
        held.version += 1;
        self.tell(Event::AlarmSet { cell, at })
    }

    fn load(&mut self) -> Checked {
        let waiting = u32::try_from(self.dice.below(12)).expect("a small number");
        match self.some_host(|host| host.ready) {
            Some(host) => self.tell(Event::HostLoad { host, waiting }),
            None => Ok(()),
        }
    }

    fn pressure(&mut self) -> Checked {
        let oldest = (0..3).map(|_| self.some_cell()).collect();
        let bytes = 90 + self.dice.below(40);
        self.tell(Event::LogSize { bytes, oldest })
    }

    fn recovered(&mut self) -> Checked {
        let cell = self.some_cell();
        self.tell(Event::Recovered { cell })
    }

    // What the node asks for.

    fn effect(&mut self, effect: Effect) -> Checked {
        match effect {
            Effect::StartHost { host, role, .. } => self.start_host(host, role),
            Effect::StopHost { host, .. } => self.stop_host(host),
            Effect::LoadImage { cell } => self.load_image(cell),
            Effect::Activate { cell, host } => self.activate(&cell, host),
            Effect::Refuse { cell, .. } => {
                let held = self.held(&cell);
                held.waiting = 0;
                held.image = None;
                if held.firing && held.handler.is_none() {
                    held.firing = false;
                    self.end_handler(cell, false)?;
                }
                Ok(())
            }
            Effect::Release { cell } => {
                let held = self.held(&cell);
                held.image = None;
                held.route = None;
                match held.waiting {
                    0 => Ok(()),
                    _ => self.tell_later(Event::Wanted { cell }),
                }
            }
            Effect::CheckCell { cell } => self.check_cell(cell),
            Effect::CheckHost { host } => {
                let last_used = MonoMs::new(self.now.saturating_sub(self.dice.below(400)));
                let busy = self.dice.one_in(3);
                let most = if self.calm { 1 } else { 12 };
                let waiting = u32::try_from(self.dice.below(most)).expect("a small number");
                self.tell_later(Event::HostActivity {
                    host,
                    last_used,
                    busy,
                    waiting,
                })
            }
            Effect::Rest { cell, host } => self.rest(cell, host),
            Effect::Evict { cell, host, .. } => self.evict(cell, host),
            Effect::SaveRecord { cell } | Effect::Compact { cell } => self.write(cell),
            Effect::Checkpoint { cell, .. } => self.write(cell),
            Effect::FireAlarm {
                cell, scheduled, ..
            } => self.fire(&cell, scheduled),
            Effect::DropAlarm { cell, .. } => {
                self.held(&cell).alarm = None;
                Ok(())
            }
            Effect::Quarantined { cell, until, .. } => {
                self.held(&cell).kept_out = u64::try_from(until.get()).expect("a time to come");
                Ok(())
            }
            Effect::Drained => {
                self.drained = true;
                Ok(())
            }
            Effect::ReadAlarm { .. }
            | Effect::PublishWorkers { .. }
            | Effect::RefuseWorkers { .. }
            | Effect::Adopted { .. }
            | Effect::DeploymentRefused { .. } => Ok(()),
        }
    }

    fn start_host(&mut self, host: HostId, role: HostRole) -> Checked {
        let stateless = role == HostRole::Stateless;
        let fresh = SimHost {
            stateless,
            ..SimHost::default()
        };
        self.model.hosts.insert(host, fresh);
        self.model.debts.push(Debt::Ready(host));
        let pool = self
            .model
            .hosts
            .values()
            .filter(|host| host.stateless)
            .count();
        // The old pool, the adopted one, and a candidate.
        check(pool <= 7, || format!("{pool} stateless hosts"))
    }

    fn stop_host(&mut self, host: HostId) -> Checked {
        let Some(gone) = self.model.hosts.remove(&host) else {
            return Ok(());
        };
        check(gone.cells.is_empty(), || {
            format!("host {host} is stopped with cells in it")
        })
    }

    /// Feeds an answer back while effects are carried out.
    fn tell_later(&mut self, event: Event) -> Checked {
        self.trace.push(format!("{} {event:?}", self.now));
        let now = self.clock();
        self.core.handle_event(event, now);
        Ok(())
    }

    fn load_image(&mut self, cell: CellId) -> Checked {
        let homes = self.model.homes(&cell);
        let held = self.held(&cell);
        check(!held.reading, || {
            format!("{cell} is read while it is being read")
        })?;
        check(!held.writing, || {
            format!("{cell} is read while its record is being written")
        })?;
        check(homes == 0, || format!("{cell} is read while a host has it"))?;
        held.reading = true;
        let version = held.version;
        self.model.debts.push(Debt::Read(cell, version));
        Ok(())
    }

    fn activate(&mut self, cell: &CellId, host: HostId) -> Checked {
        let (now, kept_out) = (self.now, self.held(cell).kept_out);
        check(kept_out <= now, || {
            format!("{cell} comes to life while it is kept out")
        })?;
        let homes = self.model.homes(cell);
        check(homes == 0, || format!("{cell} comes to life twice"))?;
        let held = self.held(cell);
        let image = held
            .image
            .take()
            .ok_or_else(|| format!("{cell} comes to life without data"))?;
        check(image == held.version, || {
            format!("{cell} comes to life with old data")
        })?;
        let Some(home) = self.model.hosts.get_mut(&host) else {
            return Ok(());
        };
        check(home.ready && !home.stateless, || {
            format!("{cell} comes to life in the wrong host")
        })?;
        home.cells.insert(cell.clone());
        let cells = home.cells.len();
        check(cells <= CELLS_PER_HOST, || {
            format!("too many cells in host {host}: {cells}")
        })?;
        let held = self.held(cell);
        held.route = Some(host);
        held.version += std::mem::take(&mut held.waiting) as u64;
        if held.firing && held.handler.is_none() {
            held.handler = Some(host);
            self.model.debts.push(Debt::Handler(cell.clone()));
        }
        Ok(())
    }

    fn check_cell(&mut self, cell: CellId) -> Checked {
        let busy = !self.calm && self.dice.one_in(4);
        let held = self.held(&cell);
        let busy = busy || held.firing;
        let last_used = MonoMs::new(held.last_used);
        // Some cells take most of an isolate's time.
        let permille = if cell.object.as_bytes()[0].is_multiple_of(3) {
            700
        } else {
            20
        };
        let activity = Activity {
            last_used,
            busy,
            spent_us: self.now * permille,
        };
        self.tell_later(Event::CellActivity { cell, activity })
    }

    fn rest(&mut self, cell: CellId, host: HostId) -> Checked {
        let now = self.now;
        let held = self.held(&cell);
        let idle = now.saturating_sub(held.last_used);
        check(held.route == Some(host) || held.route.is_none(), || {
            format!("{cell} rests in another host than it lives in")
        })?;
        check(idle >= REST_AFTER_MS, || {
            format!("{cell} rests although it was used {idle} ms ago")
        })
    }

    fn evict(&mut self, cell: CellId, host: HostId) -> Checked {
        let held = self.held(&cell);
        if held.route == Some(host) {
            held.route = None;
        }
        let was_there = self
            .model
            .hosts
            .get(&host)
            .is_some_and(|home| home.cells.contains(&cell));
        let unsaved = was_there && self.dice.one_in(2);
        self.model.debts.push(Debt::Evicted(cell, unsaved));
        Ok(())
    }

    fn write(&mut self, cell: CellId) -> Checked {
        let held = self.held(&cell);
        check(!held.writing, || {
            format!("{cell} is written while its record is being written")
        })?;
        check(!held.reading, || {
            format!("{cell} is written while it is being read")
        })?;
        held.writing = true;
        let well = self.calm || !self.dice.one_in(4);
        self.model.debts.push(Debt::Saved(cell, well));
        Ok(())
    }

    fn fire(&mut self, cell: &CellId, scheduled: WallMs) -> Checked {
        let now = self.wall();
        let held = self.held(cell);
        check(!held.firing, || {
            format!("the alarm of {cell} runs twice at once")
        })?;
        check(held.alarm == Some(scheduled), || {
            format!(
                "the alarm of {cell} runs as of {scheduled}, but is set for {:?}",
                held.alarm
            )
        })?;
        check(scheduled <= now, || {
            format!("the alarm of {cell} runs too early")
        })?;
        held.firing = true;
        held.moved = false;
        held.handler = None;
        let route = held.route;
        match route {
            Some(host) if self.model.hosts.contains_key(&host) => {
                self.held(cell).handler = Some(host);
                self.model.debts.push(Debt::Handler(cell.clone()));
                Ok(())
            }
            _ => {
                self.held(cell).waiting += 1;
                self.tell_later(Event::Wanted { cell: cell.clone() })
            }
        }
    }

    // What the world owes.

    fn pay_one(&mut self) -> Checked {
        if self.model.debts.is_empty() {
            return Ok(());
        }
        let index = self.dice.below(self.model.debts.len() as u64);
        let debt = self
            .model
            .debts
            .remove(usize::try_from(index).expect("few debts"));
        self.now += self.dice.below(3);
        match debt {
            Debt::Ready(host) => self.ready(host),
            Debt::Read(cell, version) => self.read(cell, version),
            Debt::Evicted(cell, unsaved) => self.evicted(cell, unsaved),
            Debt::Saved(cell, well) => {
                self.held(&cell).writing = false;
                self.tell(if well {
                    Event::Saved { cell }
                } else {
                    Event::SaveFailed { cell }
                })
            }
            Debt::Death(host) => self.tell(Event::HostLost { host }),
            Debt::Handler(cell) => {
                let well = self.calm || !self.dice.one_in(3);
                self.held(&cell).firing = false;
                self.end_handler(cell, well)?;
                self.carry_out()
            }
        }
    }

    fn ready(&mut self, host: HostId) -> Checked {
        let fails = !self.calm && self.dice.one_in(12);
        match self.model.hosts.get_mut(&host) {
            Some(_) if fails => {
                self.model.hosts.remove(&host);
                self.tell(Event::HostFailed { host })
            }
            Some(known) => {
                known.ready = true;
                self.tell(Event::HostReady { host })
            }
            None => Ok(()),
        }
    }

    fn read(&mut self, cell: CellId, version: u64) -> Checked {
        let fails = !self.calm && self.dice.one_in(15);
        let held = self.held(&cell);
        held.reading = false;
        if fails {
            return self.tell(Event::ImageFailed { cell });
        }
        held.image = Some(version);
        self.tell(Event::ImageLoaded { cell })
    }

    fn evicted(&mut self, cell: CellId, unsaved: bool) -> Checked {
        let mut alive = false;
        for host in self.model.hosts.values_mut() {
            alive |= host.cells.remove(&cell);
        }
        self.tell(Event::Evicted {
            cell,
            unsaved: unsaved && alive,
        })
    }

    /// A handler ended; the commit that clears its alarm came before.
    fn end_handler(&mut self, cell: CellId, well: bool) -> Checked {
        let now = self.wall();
        let again = (!self.calm && self.dice.one_in(4)).then(|| now.plus(self.dice.below(100)));
        let counted = self.dice.one_in(2);
        let held = self.held(&cell);
        let moved = std::mem::take(&mut held.moved);
        let outcome = if well {
            if !moved {
                held.alarm = again;
            }
            AlarmEnd::Done { next: held.alarm }
        } else {
            AlarmEnd::Failed {
                counted,
                jitter_permille: 500,
            }
        };
        self.tell_later(Event::AlarmDone { cell, outcome })
    }
}
