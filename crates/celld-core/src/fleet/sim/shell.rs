//! The simulated shell of a node: carries out what its core asks for.

use std::sync::Arc;

use super::bucket::{Answer, Commits, Key, Object, Request as BucketRequest};
use super::node::{Life, Request, Resident};
use super::process::index;
use super::world::{Checked, Happening, What, World};
use crate::fleet::CellRecord;
use crate::fleet::ids::NodeId;
use crate::fleet::message::{Effect, Event, Message, StoreOp};
use crate::fleet::register::Ask;
use crate::fleet::session::Phase;
use crate::fleet::stop::Stop;
use crate::fleet::takeover::LogObject;
use crate::{Epoch, Lsn, SessionId};

impl World {
    pub(super) fn handle(&mut self, n: usize, what: What) -> Checked {
        match what {
            What::Wake => {
                let now = self.nodes[n].local(self.now);
                let real = self.now;
                if let Some(life) = &mut self.nodes[n].life {
                    if life.wake_at.is_none_or(|at| at > real) {
                        // An earlier one has taken its place.
                        return Ok(());
                    }
                    life.wake_at = None;
                    life.fleet.handle_time(now);
                }
            }
            What::Linked(node, session) => {
                let there = self
                    .index_of(node)
                    .and_then(|m| self.nodes[m].life.as_ref());
                if there.is_none_or(|life| life.session != session) {
                    return Ok(());
                }
                if let Some(life) = &mut self.nodes[n].life {
                    life.links.insert(node, session);
                }
                self.tell(n, Event::Linked { node, session });
            }
            What::LinkLost(node, session) => self.tell(n, Event::LinkLost { node, session }),
            What::Message(node, session, message, luggage) => {
                self.receive(n, node, session, message, luggage);
            }
            What::Answer(key, answer) => self.answer(n, key, answer),
            What::Stored(session, op, commits) => {
                self.nodes[n]
                    .disk
                    .logs
                    .entry(session)
                    .or_default()
                    .apply(op, &commits);
                self.tell(n, Event::Stored(session, op));
            }
            What::Request(request, forwarded) => self.serve(n, request, forwarded),
        }
        self.pump(n)
    }

    fn receive(
        &mut self,
        n: usize,
        node: NodeId,
        session: SessionId,
        message: Message,
        luggage: Commits,
    ) {
        if let Some(life) = &mut self.nodes[n].life {
            if let Message::SealAnswer { session, .. } = &message {
                life.tails.insert((*session, node), luggage.clone());
            }
            life.luggage = luggage;
        }
        self.tell(
            n,
            Event::Received {
                node,
                session,
                message,
            },
        );
    }

    fn answer(&mut self, n: usize, key: Key, answer: Answer) {
        let Some(life) = &mut self.nodes[n].life else {
            return;
        };
        let event = life.heard(key, answer, &self.cells);
        self.tell(n, event);
    }

    /// A request has come to a node.
    fn serve(&mut self, n: usize, request: Request, forwarded: bool) {
        let cell = request.cell;
        let Some(life) = &mut self.nodes[n].life else {
            return;
        };
        let serving = life.fleet.serving(&self.cells[cell]);
        match life.resident.get(&cell) {
            Some(resident) if serving == Some(resident.epoch) => self.execute(n, request),
            _ => {
                life.waiting.entry(cell).or_default().push(request);
                let cell = self.cells[cell].clone();
                self.tell(n, Event::Wanted { cell, forwarded });
            }
        }
    }

    /// A resident cell handles a request.
    fn execute(&mut self, n: usize, request: Request) {
        let now = self.nodes[n].local(self.now);
        if let Some(life) = &mut self.nodes[n].life {
            life.handle(request, &mut self.ledger, now);
        }
    }

    /// Carries out everything that a node's core wants, opens its gates, sets its alarm clock.
    pub(super) fn pump(&mut self, n: usize) -> Checked {
        self.leave(n);
        while let Some(effect) = self.nodes[n]
            .life
            .as_mut()
            .and_then(|life| life.fleet.poll_effect())
        {
            self.note(|| format!("node {n} -> {effect:?}"));
            self.carry_out(n, effect)?;
        }
        self.open_gates(n)?;
        let Some(life) = &self.nodes[n].life else {
            return Ok(());
        };
        let session = life.session;
        let local = self.nodes[n].local(self.now);
        if let Some((at, _)) = life.fleet.poll_deadline(local) {
            let at = self.nodes[n].real(at).max(self.now + 1);
            if life.wake_at.is_none_or(|wake| wake > at) {
                if let Some(life) = &mut self.nodes[n].life {
                    life.wake_at = Some(at);
                }
                self.schedule(at - self.now, Happening::To(n, session, What::Wake));
            }
        }
        Ok(())
    }

    fn open_gates(&mut self, n: usize) -> Checked {
        let now = self.nodes[n].local(self.now);
        let Some(life) = &mut self.nodes[n].life else {
            return Ok(());
        };
        let opened = life.open_gates(now);
        let real = self.now;
        life.outputs.retain(|output| output.request.until > real);
        for output in opened {
            self.answered += 1;
            let cell = output.request.cell;
            self.note(|| format!("node {n} answers {output:?}"));
            match output.write {
                Some(write) => self.ledger.acknowledge(cell, output.epoch, write)?,
                None => self
                    .ledger
                    .answered(cell, output.request.before, output.content)?,
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, n: usize, effect: Effect) -> Checked {
        match effect {
            Effect::Record(session, ask) => {
                let (request, within) = request_of(ask, Object::Session);
                self.request(n, Key::Session(session), request, within);
            }
            Effect::Log {
                session,
                seq,
                ask,
                after,
                source,
            } => {
                self.log_request(n, session, seq, ask, after, source)?;
            }
            Effect::Cell(cell, ask) => self.cell_request(n, index(&cell), ask),
            Effect::Send(node, message) => {
                let luggage = self.luggage_of(n, &message);
                self.send(n, node, message, luggage);
            }
            Effect::Store(session, op) => self.store(n, session, op),
            Effect::Serve(cell, epoch) => self.activate(n, index(&cell), epoch)?,
            Effect::Forward(cell, node) => self.forward(n, index(&cell), node),
            Effect::Refuse(cell, _) => {
                if let Some(life) = &mut self.nodes[n].life {
                    life.waiting.remove(&index(&cell));
                }
            }
            Effect::Released(cell) => {
                if let Some(life) = &mut self.nodes[n].life {
                    life.leaving.remove(&index(&cell));
                }
            }
            Effect::Yield(cell, to) => self.yield_cell(n, index(&cell), to),
            Effect::Stop(why) => {
                self.check_stop(n, why)?;
                self.end_process(n, false);
                let after = 20 + self.dice.below(400);
                self.schedule(after, Happening::Start(n));
            }
            Effect::Drained => {
                self.end_process(n, false);
                let after = 20 + self.dice.below(1_000);
                self.schedule(after, Happening::Start(n));
            }
            Effect::Durable(_) | Effect::Sealed(..) => {}
        }
        Ok(())
    }

    fn luggage_of(&self, n: usize, message: &Message) -> Commits {
        match (message, &self.nodes[n].life) {
            (Message::Append { first, last }, Some(life)) => {
                life.slice(Lsn::new(first.get() - 1), *last)
            }
            (Message::SealAnswer { session, .. }, _) => self.nodes[n].disk.tail(*session),
            _ => Arc::default(),
        }
    }

    fn log_request(
        &mut self,
        n: usize,
        session: SessionId,
        seq: u64,
        ask: Ask<LogObject>,
        after: Lsn,
        source: Option<NodeId>,
    ) -> Checked {
        let Some(life) = &self.nodes[n].life else {
            return Ok(());
        };
        let commits = match (&ask, source) {
            (Ask::Write { next, .. }, None) if !next.seal => life.slice(after, next.end),
            (Ask::Write { next, .. }, Some(source)) => {
                let tail = if source == self.nodes[n].id {
                    self.nodes[n].disk.tail(session)
                } else {
                    life.tails
                        .get(&(session, source))
                        .cloned()
                        .unwrap_or_default()
                };
                Life::tail(&tail, after, next.end)?
            }
            _ => Arc::default(),
        };
        let (request, within) = request_of(ask, |object| Object::Log(object, commits.clone()));
        self.request(n, Key::Log(session, seq), request, within);
        Ok(())
    }

    fn cell_request(&mut self, n: usize, cell: usize, ask: Ask<CellRecord>) {
        let id = self.nodes[n].id;
        let Some(life) = &mut self.nodes[n].life else {
            return;
        };
        let content = match &ask {
            Ask::Write { expect, next, .. } => life.beside(id, cell, *expect, next),
            Ask::Read { .. } => 0,
        };
        let (request, within) = request_of(ask, |record| Object::Cell(record, content));
        self.request(n, Key::Cell(cell), request, within);
    }

    fn store(&mut self, n: usize, session: SessionId, op: StoreOp) {
        let broken = self.noise > 0 && self.dice.one_in(self.noise * 40);
        let slow = self.noise > 0 && self.dice.one_in(self.noise * 4);
        let takes = 1 + self.dice.below(if slow { 400 } else { 4 });
        let now = self.now;
        let Some(life) = &mut self.nodes[n].life else {
            return;
        };
        if broken {
            // A full disk: no answer, and no more batches of this log.
            life.broken_logs.insert(session);
        }
        // A seal is a note in a block that is there already.
        if life.broken_logs.contains(&session) && op != StoreOp::Seal {
            return;
        }
        life.store_free_at = life.store_free_at.max(now) + takes;
        let after = life.store_free_at - now;
        let what = What::Stored(session, op, life.luggage.clone());
        let own = life.session;
        self.schedule(after, Happening::To(n, own, what));
    }

    fn activate(&mut self, n: usize, cell: usize, epoch: Epoch) -> Checked {
        let id = self.nodes[n].id;
        let Some(life) = &mut self.nodes[n].life else {
            return Ok(());
        };
        if life.leaving.contains_key(&cell) {
            return Ok(());
        }
        let session = life.session;
        if life
            .resident
            .get(&cell)
            .is_none_or(|held| held.epoch != epoch)
        {
            let content = life.begins_with(id, cell, epoch, &self.bucket)?;
            self.ledger.activated(cell, epoch, session, content)?;
            let last = life.fleet.appended();
            life.resident.insert(
                cell,
                Resident {
                    epoch,
                    content,
                    last,
                },
            );
        }
        for request in life.waiting.remove(&cell).unwrap_or_default() {
            self.execute(n, request);
        }
        Ok(())
    }

    fn forward(&mut self, n: usize, cell: usize, node: NodeId) {
        let Some(life) = &mut self.nodes[n].life else {
            return;
        };
        let requests = life.waiting.remove(&cell).unwrap_or_default();
        let Some(to) = self.index_of(node) else {
            return;
        };
        let Some(session) = self.nodes[to].life.as_ref().map(|life| life.session) else {
            return;
        };
        if self.cuts.contains(&(n.min(to), n.max(to))) {
            return;
        }
        let now = self.now;
        for request in requests.into_iter().filter(|request| request.until > now) {
            let after = 1 + self.dice.below(5);
            self.schedule(
                after,
                Happening::To(to, session, What::Request(request, true)),
            );
        }
    }

    pub(super) fn yield_cell(&mut self, n: usize, cell: usize, to: Option<NodeId>) {
        let sabotaged = self
            .config
            .plants(crate::fleet::sabotage::Fault::ServeWhileReleasing);
        if let Some(life) = &mut self.nodes[n].life {
            life.yield_cell(cell, to, sabotaged);
        }
    }

    /// Says that cells are released once all their writes are proven.
    fn leave(&mut self, n: usize) {
        let Some(life) = &self.nodes[n].life else {
            return;
        };
        let ready = life.ready_to_leave(&self.cells);
        for (cell, to) in ready {
            let cell = self.cells[cell].clone();
            self.tell(n, Event::Release { cell, to });
        }
    }

    /// A session may end itself only when it really was fenced, or could not renew its lease.
    fn check_stop(&self, n: usize, why: Stop) -> Checked {
        let Some(life) = &self.nodes[n].life else {
            return Ok(());
        };
        let record = self.bucket.session(life.session);
        let fenced = record.is_some_and(|record| record.phase != Phase::Open);
        let sound = match why {
            Stop::LeaseLost => true,
            Stop::LogSealed => self.bucket.is_sealed(life.session),
            Stop::RecordReplaced | Stop::WitnessSealed | Stop::CellTaken => fenced,
        };
        if sound {
            Ok(())
        } else {
            Err(format!("node {n} stops for no reason: {why:?}"))
        }
    }
}

fn request_of<R>(ask: Ask<R>, object: impl Fn(R) -> Object) -> (BucketRequest, u64) {
    match ask {
        Ask::Write {
            expect,
            next,
            within_ms,
        } => (
            BucketRequest::Put(expect, Box::new(object(next))),
            within_ms,
        ),
        Ask::Read { within_ms } => (BucketRequest::Get, within_ms),
    }
}
