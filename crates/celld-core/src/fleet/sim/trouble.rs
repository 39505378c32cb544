//! What goes wrong, what clients do, and the calm afterwards in which everything must work.

use super::node::Request;
use super::world::{Checked, Happening, What, World};
use crate::SessionId;
use crate::fleet::ids::NodeId;
use crate::fleet::message::Event;
use crate::fleet::session::Phase;

/// How long trouble goes on, in ms.
const TROUBLE_MS: u64 = 7_000;
/// After the last trouble, everything that was under way has ended after so long: the longest
/// delay of a request, a takeover with its lease, and the restart of processes.
const SETTLE_MS: u64 = 12_000;
/// Every cell must be writable through every node within so long.
const ANSWER_MS: u64 = 5_000;

/// Something that goes wrong, or that an operator does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    Crash,
    Pause,
    Cut,
    Outage,
    LoseDisk,
    Move,
    Save,
    Drain,
    Client,
    /// Draws the next of the above.
    Next,
}

impl World {
    /// The whole of a run.
    pub(super) fn run(&mut self) -> Checked {
        for n in 0..self.nodes.len() {
            let after = self.dice.below(400);
            self.schedule(after, Happening::Start(n));
        }
        self.schedule(300, Happening::Trouble(Trouble::Client));
        self.schedule(1_000, Happening::Trouble(Trouble::Next));
        self.run_until(TROUBLE_MS)?;
        self.come_to_rest()?;
        self.check_progress()
    }

    pub(super) fn make(&mut self, trouble: Trouble) -> Checked {
        if self.calm {
            return Ok(());
        }
        match trouble {
            Trouble::Next => {
                let next = match self.dice.below(16) {
                    0..=3 => Trouble::Crash,
                    4..=5 => Trouble::Pause,
                    6..=8 => Trouble::Cut,
                    9..=10 => Trouble::Outage,
                    11 => Trouble::LoseDisk,
                    12..=13 => Trouble::Move,
                    14 => Trouble::Save,
                    _ => Trouble::Drain,
                };
                self.make(next)?;
                let after = 20 + self.dice.below(900);
                self.schedule(after, Happening::Trouble(Trouble::Next));
            }
            Trouble::Client => {
                self.client();
                let after = 5 + self.dice.below(90);
                self.schedule(after, Happening::Trouble(Trouble::Client));
            }
            other => {
                let n = self.some_node();
                self.note(|| format!("trouble: {other:?} at node {n}"));
                return self.strike(other, n);
            }
        }
        Ok(())
    }

    fn some_node(&mut self) -> usize {
        self.dice.below(self.nodes.len() as u64) as usize
    }

    fn strike(&mut self, trouble: Trouble, n: usize) -> Checked {
        match trouble {
            Trouble::Crash => {
                let silent = self.dice.one_in(3);
                self.end_process(n, silent);
                let after = 20 + self.dice.below(3_000);
                self.schedule(after, Happening::Start(n));
            }
            Trouble::LoseDisk if !self.disk_lost => self.lose_disk(n),
            Trouble::Pause => {
                self.nodes[n].paused = self.nodes[n].life.is_some();
                let after = 50 + self.dice.below(3_500);
                self.schedule(after, Happening::Resume(n));
            }
            Trouble::Cut => {
                let m = self.some_node();
                if n != m {
                    self.cut(n.min(m), n.max(m));
                }
            }
            Trouble::Outage => {
                let until = self.now + 100 + self.dice.below(4_000);
                if self.dice.one_in(2) {
                    self.outages.fill(until);
                } else {
                    self.outages[n] = until;
                }
            }
            Trouble::Move => {
                let m = self.some_node();
                let to = (m != n).then_some(self.nodes[m].id);
                let cell = self.dice.below(self.cells.len() as u64) as usize;
                self.on(n, |world| world.yield_cell(n, cell, to))?;
            }
            Trouble::Save => {
                let cell = self.dice.below(self.cells.len() as u64) as usize;
                let resident = self.nodes[n]
                    .life
                    .as_ref()
                    .is_some_and(|life| life.resident.contains_key(&cell));
                let cell = self.cells[cell].clone();
                if resident {
                    self.on(n, |world| world.tell(n, Event::Save { cell }))?;
                }
            }
            Trouble::Drain => self.on(n, |world| world.tell(n, Event::Drain))?,
            _ => {}
        }
        Ok(())
    }

    /// Does something in a process that runs.
    fn on(&mut self, n: usize, what: impl FnOnce(&mut Self)) -> Checked {
        if self.nodes[n].paused || self.nodes[n].life.is_none() {
            return Ok(());
        }
        what(self);
        self.pump(n)
    }

    /// Kills a process; its peers see their links reset, unless the whole machine is gone.
    pub(super) fn end_process(&mut self, n: usize, silent: bool) {
        let id = self.nodes[n].id;
        self.frozen.remove(&n);
        self.nodes[n].paused = false;
        let Some(life) = self.nodes[n].life.take().filter(|_| !silent) else {
            return;
        };
        for other in 0..self.nodes.len() {
            self.tell_lost(other, (id, life.session));
        }
    }

    fn tell_lost(&mut self, n: usize, peer: (NodeId, SessionId)) {
        if let Some(session) = self.nodes[n].life.as_ref().map(|life| life.session) {
            // Before any new link could be up.
            let after = 1 + self.dice.below(15);
            self.schedule(
                after,
                Happening::To(n, session, What::LinkLost(peer.0, peer.1)),
            );
        }
    }

    /// The machine is replaced by one with an empty disk. Once in a run: the promise is that one
    /// member of an ensemble survives.
    fn lose_disk(&mut self, n: usize) {
        self.disk_lost = true;
        self.end_process(n, true);
        self.nodes[n].disk = super::node::Disk::default();
        self.nodes[n].id = NodeId::from_random(100 + n as u128);
        let after = 100 + self.dice.below(2_000);
        self.schedule(after, Happening::Start(n));
    }

    fn cut(&mut self, a: usize, b: usize) {
        self.cuts.insert((a, b));
        if self.dice.one_in(2) {
            for (n, other) in [(a, b), (b, a)] {
                if let Some(life) = &self.nodes[other].life {
                    self.tell_lost(n, (self.nodes[other].id, life.session));
                }
            }
        }
        let after = 100 + self.dice.below(3_000);
        self.schedule(after, Happening::Heal(a, b));
    }

    pub(super) fn resume(&mut self, n: usize) -> Checked {
        if !std::mem::take(&mut self.nodes[n].paused) {
            return Ok(());
        }
        let waiting = self.frozen.remove(&n).unwrap_or_default();
        for (session, what) in waiting {
            self.to(n, session, what)?;
        }
        Ok(())
    }

    fn client(&mut self) {
        let n = self.some_node();
        let cell = self.dice.below(self.cells.len() as u64) as usize;
        let writes = self.dice.one_in(2);
        self.ask(n, cell, writes, 4_000);
    }

    fn ask(&mut self, n: usize, cell: usize, writes: bool, patience_ms: u64) {
        let request = Request {
            cell,
            writes,
            before: self.ledger.acknowledged(cell),
            until: self.now + patience_ms,
        };
        if let Some(session) = self.nodes[n].life.as_ref().map(|life| life.session) {
            let after = 1 + self.dice.below(3);
            self.schedule(
                after,
                Happening::To(n, session, What::Request(request, false)),
            );
        }
    }

    fn come_to_rest(&mut self) -> Checked {
        self.calm = true;
        self.noise = 0;
        self.outages.fill(0);
        self.note(|| "calm".into());
        for n in 0..self.nodes.len() {
            self.resume(n)?;
            self.schedule(500, Happening::Start(n));
        }
        let end = self.now + 30;
        self.run_until(end)?;
        for pair in std::mem::take(&mut self.cuts) {
            self.link(pair.0, pair.1);
        }
        let end = self.now + SETTLE_MS;
        self.run_until(end)?;
        for n in 0..self.nodes.len() {
            self.start(n)?;
        }
        Ok(())
    }

    /// Every cell can be written and read through every node.
    fn check_progress(&mut self) -> Checked {
        for cell in 0..self.cells.len() {
            for n in 0..self.nodes.len() {
                if !self.gets_answers(n, cell, true)? || !self.gets_answers(n, cell, false)? {
                    if self.is_lost_for_good() {
                        return Ok(());
                    }
                    return Err(format!(
                        "stuck: cell {cell} gets no answer through node {n}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn gets_answers(&mut self, n: usize, cell: usize, writes: bool) -> Result<bool, String> {
        let end = self.now + ANSWER_MS;
        while self.now < end {
            let before = self.answered;
            self.ask(n, cell, writes, 1_000);
            let until = self.now + 250;
            self.run_until(until)?;
            if self.answered > before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A disk was lost that held the only copy of an open log: the cells stay away, by design.
    fn is_lost_for_good(&self) -> bool {
        self.bucket.objects.values().any(|object| {
            let super::bucket::Object::Session(record) = object else {
                return false;
            };
            let gone = |id: &NodeId| self.index_of(*id).is_none();
            !matches!(record.phase, Phase::Sealed { .. })
                && !record.witnesses.is_empty()
                && record.witnesses.iter().all(gone)
        })
    }
}
