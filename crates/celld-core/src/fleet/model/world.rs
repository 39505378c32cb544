//! The state that is explored: nodes with the shipped core in them, the bucket, what is under way,
//! and how much trouble is left.
//!
//! Links keep their order, as TCP does, and stores answer at once; everything else may happen in
//! any order. Time is one count of ticks that all clocks follow: clocks that differ are the
//! simulation's business.

use std::collections::{BTreeMap, VecDeque};

use crate::fleet::ids::{CertHash, NodeId};
use crate::fleet::message::{Event, Message};
use crate::fleet::sim::bucket::{Bucket, Commits, Key, Request as BucketRequest};
use crate::fleet::sim::ledger::Ledger;
use crate::fleet::sim::node::{Disk, Life, Request};
use crate::fleet::{Fleet, Start, config::Config};
use crate::{CellId, MonoMs, NamespaceKey, ObjectId, SessionId};

/// How much of what may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Ticks of the clock.
    pub(super) ticks: u8,
    /// Requests without an answer, applied or not, now or later; messages that are lost.
    pub(super) losses: u8,
    /// Processes that die; they may start again.
    pub(super) crashes: u8,
    /// Processes that freeze; they may go on.
    pub(super) pauses: u8,
    /// Writes of clients.
    pub(super) writes: u8,
    /// Reads of clients.
    pub(super) reads: u8,
    /// Cells that are handed over.
    pub(super) moves: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A request is applied and answered.
    Answer(usize),
    /// A request is applied, and its answer is lost.
    LoseAnswer(usize),
    /// A request is given up; it may be applied later.
    GiveUp(usize),
    /// A request that was given up is applied.
    ApplyLate(usize),
    /// The first message between two nodes arrives.
    Deliver(usize, usize),
    /// It is lost.
    Lose(usize, usize),
    Tick,
    Pause(usize),
    Resume(usize),
    Crash(usize),
    Start(usize),
    Write(usize, usize),
    Read(usize, usize),
    Move(usize, usize),
}

/// A request on its way to the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct UnderWay {
    pub(super) node: usize,
    pub(super) session: SessionId,
    pub(super) key: Key,
    pub(super) request: BucketRequest,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Machine {
    pub(super) id: NodeId,
    pub(super) disk: Disk,
    pub(super) life: Option<Life>,
    pub(super) paused: bool,
    /// A tick passed while it was frozen.
    pub(super) late: bool,
}

type Queue = VecDeque<(SessionId, SessionId, Message, Commits)>;

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) config: Config,
    pub(super) now: u64,
    pub(super) nodes: Vec<Machine>,
    pub(super) bucket: Bucket,
    pub(super) ledger: Ledger,
    pub(super) requests: Vec<UnderWay>,
    pub(super) late: Vec<(Key, BucketRequest)>,
    pub(super) links: BTreeMap<(usize, usize), Queue>,
    pub(super) cells: Vec<CellId>,
    pub(super) left: Budget,
    /// The node that crashes, freezes and is read through, and the one that is written through;
    /// `None` for any. Keeps an exploration to the point.
    pub(super) only: Option<(usize, usize)>,
    sessions: u128,
    /// A session was fenced off and its cell claimed; for the check that this is reached.
    pub(super) taken_over: bool,
    pub(super) stopped: bool,
    pub(super) broken: Option<String>,
}

impl World {
    pub(super) fn new(config: Config, nodes: usize, cells: usize) -> Self {
        let name = NamespaceKey::new("model").expect("a key");
        let cell = |n: usize| CellId {
            namespace: name.clone(),
            object: ObjectId::from_bytes([n as u8; 32]),
        };
        let machine = |n: usize| Machine {
            id: NodeId::from_random(n as u128 + 1),
            disk: Disk::default(),
            life: None,
            paused: false,
            late: false,
        };
        Self {
            config,
            now: 0,
            nodes: (0..nodes).map(machine).collect(),
            bucket: Bucket::default(),
            ledger: Ledger::new(cells),
            requests: Vec::new(),
            late: Vec::new(),
            links: BTreeMap::new(),
            cells: (0..cells).map(cell).collect(),
            left: Budget::default(),
            only: None,
            sessions: 0,
            taken_over: false,
            stopped: false,
            broken: None,
        }
    }

    /// A fleet at rest: every node runs, the first owns the first cell, which holds a write.
    pub(super) fn at_rest(config: Config, nodes: usize, cells: usize, left: Budget) -> Self {
        let mut world = Self::new(config, nodes, cells);
        (0..nodes).for_each(|n| world.start(n));
        for round in 0..24 {
            if round == 12 {
                world.ask(0, 0, true);
            }
            world.settle();
            world.tick();
        }
        world.settle();
        assert_eq!(world.broken, None);
        assert_ne!(world.ledger.acknowledged(0), 0, "the fleet is at work");
        world.left = left;
        world
    }

    /// Answers and delivers everything that is under way.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            if !self.requests.is_empty() {
                self.answer(0, true);
            } else if let Some((from, to)) = self.links.keys().next().copied() {
                self.deliver(from, to);
            } else {
                return;
            }
        }
    }

    /// Everything that can happen next. The search tries the last first: what brings trouble,
    /// then what brings things to an end, and the passing of time only then; so that takeovers are
    /// met early however small the part is that is explored.
    pub(super) fn actions(&self, actions: &mut Vec<Action>) {
        if self.broken.is_some() {
            return;
        }
        for (n, node) in self.nodes.iter().enumerate() {
            actions.extend(node.life.is_none().then_some(Action::Start(n)));
            actions.extend(node.paused.then_some(Action::Resume(n)));
        }
        actions.extend((self.left.ticks > 0).then_some(Action::Tick));
        if self.left.losses > 0 {
            self.losses(actions);
        }
        actions.extend((0..self.late.len()).map(Action::ApplyLate));
        let links = self.links.keys().filter(|(_, to)| !self.nodes[*to].paused);
        actions.extend(links.map(|(from, to)| Action::Deliver(*from, *to)));
        let heard = |under_way: &UnderWay| !self.nodes[under_way.node].paused;
        let requests = self
            .requests
            .iter()
            .enumerate()
            .filter(|(_, under_way)| heard(under_way));
        actions.extend(requests.map(|(n, _)| Action::Answer(n)));
        for n in 0..self.nodes.len() {
            if self.nodes[n].life.is_some() && !self.nodes[n].paused {
                self.actions_of(n, actions);
            }
        }
    }

    fn losses(&self, actions: &mut Vec<Action>) {
        for (n, under_way) in self.requests.iter().enumerate() {
            if !self.nodes[under_way.node].paused {
                let put = matches!(under_way.request, BucketRequest::Put(..));
                actions.push(Action::GiveUp(n));
                actions.extend(put.then_some(Action::LoseAnswer(n)));
            }
        }
        let links = self.links.keys().filter(|(_, to)| !self.nodes[*to].paused);
        actions.extend(links.map(|(from, to)| Action::Lose(*from, *to)));
    }

    /// What clients and trouble do to a node that runs.
    fn actions_of(&self, n: usize, actions: &mut Vec<Action>) {
        let suffers = self.only.is_none_or(|(victim, _)| victim == n);
        let writes = self.only.is_none_or(|(_, writer)| writer == n) && self.left.writes > 0;
        for cell in 0..self.cells.len() {
            let resident = |life: &Life| life.resident.contains_key(&cell);
            let here = self.nodes[n].life.as_ref().is_some_and(resident);
            actions.extend((self.left.reads > 0 && suffers).then_some(Action::Read(n, cell)));
            actions.extend(writes.then_some(Action::Write(n, cell)));
            actions.extend((self.left.moves > 0 && here).then_some(Action::Move(n, cell)));
        }
        actions.extend((self.left.pauses > 0 && suffers).then_some(Action::Pause(n)));
        actions.extend((self.left.crashes > 0 && suffers).then_some(Action::Crash(n)));
    }

    /// Makes a step.
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Answer(n) => self.answer(n, true),
            Action::LoseAnswer(n) => {
                self.left.losses -= 1;
                self.answer(n, false);
            }
            Action::GiveUp(n) => {
                self.left.losses -= 1;
                self.give_up(n);
            }
            Action::ApplyLate(n) => {
                let (key, request) = self.late.remove(n);
                self.bucket.apply(key, &request);
            }
            Action::Deliver(from, to) => self.deliver(from, to),
            Action::Lose(from, to) => {
                self.left.losses -= 1;
                self.take_message(from, to);
            }
            Action::Tick => {
                self.left.ticks -= 1;
                self.tick();
            }
            Action::Pause(n) => {
                self.left.pauses -= 1;
                self.nodes[n].paused = true;
            }
            Action::Resume(n) => {
                self.nodes[n].paused = false;
                // Messages first, or the clock first: both are explored, as the clock is read
                // with the first thing that happens.
                self.nodes[n].late = false;
            }
            Action::Crash(n) => {
                self.left.crashes -= 1;
                self.crash(n);
            }
            Action::Start(n) => self.start(n),
            Action::Write(n, cell) => {
                self.left.writes -= 1;
                self.ask(n, cell, true);
            }
            Action::Read(n, cell) => {
                self.left.reads -= 1;
                self.ask(n, cell, false);
            }
            Action::Move(n, cell) => {
                self.left.moves -= 1;
                self.yield_cell(n, cell, None);
                self.pump(n);
            }
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        for n in 0..self.nodes.len() {
            if self.nodes[n].paused {
                self.nodes[n].late = true;
                continue;
            }
            let now = self.clock();
            if let Some(life) = &mut self.nodes[n].life {
                life.fleet.handle_time(now);
            }
            self.try_again(n);
            self.pump(n);
        }
    }

    pub(super) fn clock(&self) -> MonoMs {
        MonoMs::new(100 + self.now)
    }

    fn start(&mut self, n: usize) {
        self.sessions += 1;
        let session = SessionId::from_random(self.sessions);
        let now = self.clock();
        let node = &mut self.nodes[n];
        let start = Start {
            node: node.id,
            session,
            cert: CertHash::default(),
            cells_max: 100,
            predecessor: node.disk.last_session.map(|last| (last, true)),
            followed: node.disk.found(),
        };
        node.disk.last_session = Some(session);
        node.life = Some(Life::new(session, Fleet::new(self.config, start, now)));
        for other in 0..self.nodes.len() {
            if other != n {
                self.link(n, other);
                self.link(other, n);
            }
        }
        self.pump(n);
    }

    /// One end of a link comes up.
    fn link(&mut self, n: usize, other: usize) {
        let (id, session) = match &self.nodes[other] {
            Machine {
                id,
                life: Some(life),
                ..
            } => (*id, life.session),
            _ => return,
        };
        let Some(life) = &mut self.nodes[n].life else {
            return;
        };
        life.links.insert(id, session);
        self.tell(n, Event::Linked { node: id, session });
        self.pump(n);
    }

    fn crash(&mut self, n: usize) {
        let id = self.nodes[n].id;
        let Some(session) = self.nodes[n].life.take().map(|life| life.session) else {
            return;
        };
        self.nodes[n].paused = false;
        self.links.retain(|(from, to), _| *from != n && *to != n);
        // What was on its way to the bucket may still arrive there.
        let sent = self
            .requests
            .extract_if(.., |under_way| under_way.node == n);
        let puts = sent.filter(|under_way| matches!(under_way.request, BucketRequest::Put(..)));
        self.late
            .extend(puts.map(|under_way| (under_way.key, under_way.request)));
        for other in 0..self.nodes.len() {
            if other != n && !self.nodes[other].paused {
                self.tell(other, Event::LinkLost { node: id, session });
                self.pump(other);
            }
        }
    }

    pub(super) fn take_message(
        &mut self,
        from: usize,
        to: usize,
    ) -> Option<(SessionId, SessionId, Message, Commits)> {
        let queue = self.links.get_mut(&(from, to))?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.links.remove(&(from, to));
        }
        first
    }

    pub(super) fn tell(&mut self, n: usize, event: Event) {
        let now = self.clock();
        if let Some(life) = &mut self.nodes[n].life {
            life.fleet.handle_event(event, now);
        }
    }

    pub(super) fn ask(&mut self, n: usize, cell: usize, writes: bool) {
        let request = Request {
            cell,
            writes,
            before: self.ledger.acknowledged(cell),
            until: u64::MAX,
        };
        self.serve(n, request, false);
        self.pump(n);
    }

    pub(super) fn check(&mut self, verdict: Result<(), String>) {
        if let Err(broken) = verdict {
            self.broken.get_or_insert(broken);
        }
    }
}
