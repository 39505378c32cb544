//! The shell of a node in the explored world: carries effects out at once, or puts them under way.

use std::sync::Arc;

use super::world::{Machine, UnderWay, World};
use crate::fleet::ids::NodeId;
use crate::fleet::message::{Effect, Event, Message, StoreOp};
use crate::fleet::register::{Ask, Written};
use crate::fleet::sim::bucket::{Answer, Commits, Key, Object, Request as BucketRequest};
use crate::fleet::sim::node::{Life, Request, Resident};
use crate::fleet::sim::process::index;
use crate::fleet::takeover::LogObject;
use crate::{Epoch, Lsn, SessionId};

impl World {
    /// Applies a request; the node hears of it or not.
    pub(super) fn answer(&mut self, at: usize, heard: bool) {
        let under_way = self.requests.remove(at);
        let answer = self.bucket.apply(under_way.key, &under_way.request);
        self.tell_answer(
            under_way,
            if heard {
                answer
            } else {
                Answer::Written(Written::Unknown)
            },
        );
    }

    pub(super) fn give_up(&mut self, at: usize) {
        let under_way = self.requests.remove(at);
        let answer = match &under_way.request {
            BucketRequest::Put(..) => {
                self.late.push((under_way.key, under_way.request.clone()));
                Answer::Written(Written::Unknown)
            }
            BucketRequest::Get => Answer::Failed,
        };
        self.tell_answer(under_way, answer);
    }

    fn tell_answer(&mut self, under_way: UnderWay, answer: Answer) {
        let UnderWay {
            node: n,
            session,
            key,
            ..
        } = under_way;
        let Some(life) = self.nodes[n]
            .life
            .as_mut()
            .filter(|life| life.session == session)
        else {
            return;
        };
        let event = life.heard(key, answer, &self.cells);
        self.tell(n, event);
        self.pump(n);
    }

    pub(super) fn deliver(&mut self, from: usize, to: usize) {
        let Some((sender, receiver, message, luggage)) = self.take_message(from, to) else {
            return;
        };
        let node = self.nodes[from].id;
        let life = self.nodes[to].life.as_mut();
        let Some(life) = life.filter(|life| life.session == receiver) else {
            return;
        };
        if let Message::SealAnswer { session, .. } = &message {
            life.tails.insert((*session, node), luggage.clone());
        }
        life.luggage = luggage;
        let received = Event::Received {
            node,
            session: sender,
            message,
        };
        self.tell(to, received);
        self.pump(to);
    }

    pub(super) fn serve(&mut self, n: usize, request: Request, forwarded: bool) {
        let cell = request.cell;
        let paused = self.nodes[n].paused;
        let Some(life) = self.nodes[n].life.as_mut().filter(|_| !paused) else {
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

    fn execute(&mut self, n: usize, request: Request) {
        let now = self.clock();
        if let Some(life) = &mut self.nodes[n].life {
            life.handle(request, &mut self.ledger, now);
        }
    }

    /// Carries out what a core wants, and opens its gates.
    pub(super) fn pump(&mut self, n: usize) {
        self.leave(n);
        while let Some(effect) = self.nodes[n]
            .life
            .as_mut()
            .and_then(|life| life.fleet.poll_effect())
        {
            self.carry_out(n, effect);
        }
        let now = self.clock();
        let opened = self.nodes[n].life.as_mut().map(|life| life.open_gates(now));
        for output in opened.unwrap_or_default() {
            let cell = output.request.cell;
            let verdict = match output.write {
                Some(write) => self.ledger.acknowledge(cell, output.epoch, write),
                None => self
                    .ledger
                    .answered(cell, output.request.before, output.content),
            };
            self.check(verdict);
        }
    }

    fn carry_out(&mut self, n: usize, effect: Effect) {
        match effect {
            Effect::Record(session, ask) => {
                let request = request_of(ask, Object::Session);
                self.request(n, Key::Session(session), request);
            }
            Effect::Log {
                session,
                seq,
                ask,
                after,
                source,
            } => match self.commits_of(n, session, &ask, after, source) {
                Ok(commits) => {
                    let request = request_of(ask, |object| Object::Log(object, commits));
                    self.request(n, Key::Log(session, seq), request);
                }
                Err(broken) => self.check(Err(broken)),
            },
            Effect::Cell(cell, ask) => {
                let (id, cell) = (self.nodes[n].id, index(&cell));
                let Some(life) = &mut self.nodes[n].life else {
                    return;
                };
                let content = match &ask {
                    Ask::Write { expect, next, .. } => life.beside(id, cell, *expect, next),
                    Ask::Read { .. } => 0,
                };
                let request = request_of(ask, |record| Object::Cell(record, content));
                self.request(n, Key::Cell(cell), request);
            }
            Effect::Send(node, message) => self.send(n, node, message),
            Effect::Store(session, op) => self.store(n, session, op),
            Effect::Serve(cell, epoch) => self.activate(n, index(&cell), epoch),
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
            Effect::Stop(_) => {
                self.stopped = true;
                if let Some(life) = &mut self.nodes[n].life {
                    life.outputs.clear();
                }
            }
            Effect::Drained | Effect::Durable(_) | Effect::Sealed(..) => {}
        }
    }

    fn request(&mut self, n: usize, key: Key, request: BucketRequest) {
        let Some(session) = self.nodes[n].life.as_ref().map(|life| life.session) else {
            return;
        };
        self.requests.push(UnderWay {
            node: n,
            session,
            key,
            request,
        });
    }

    fn commits_of(
        &self,
        n: usize,
        session: SessionId,
        ask: &Ask<LogObject>,
        after: Lsn,
        source: Option<NodeId>,
    ) -> Result<Commits, String> {
        let (Ask::Write { next, .. }, Some(life)) = (ask, &self.nodes[n].life) else {
            return Ok(Arc::default());
        };
        match source {
            Some(source) if source == self.nodes[n].id => {
                Life::tail(&self.nodes[n].disk.tail(session), after, next.end)
            }
            Some(source) => {
                let tail = life
                    .tails
                    .get(&(session, source))
                    .cloned()
                    .unwrap_or_default();
                Life::tail(&tail, after, next.end)
            }
            None if next.seal => Ok(Arc::default()),
            None => Ok(life.slice(after, next.end)),
        }
    }

    fn send(&mut self, n: usize, node: NodeId, message: Message) {
        let Some(to) = self.nodes.iter().position(|machine| machine.id == node) else {
            return;
        };
        let Some(life) = &self.nodes[n].life else {
            return;
        };
        let (Some(receiver), sender) = (life.links.get(&node).copied(), life.session) else {
            return;
        };
        let there = self.nodes[to].life.as_ref().map(|life| life.session);
        if there != Some(receiver) {
            return;
        }
        let luggage = match &message {
            Message::Append { first, last } => life.slice(Lsn::new(first.get() - 1), *last),
            Message::SealAnswer { session, .. } => self.nodes[n].disk.tail(*session),
            _ => Arc::default(),
        };
        let queue = self.links.entry((n, to)).or_default();
        // A ping behind another says nothing more.
        let ping = |message: &Message| matches!(message, Message::Ping { .. });
        if ping(&message) && queue.back().is_some_and(|(_, _, last, _)| ping(last)) {
            return;
        }
        queue.push_back((sender, receiver, message, luggage));
    }

    fn store(&mut self, n: usize, session: SessionId, op: StoreOp) {
        let luggage = self.nodes[n].life.as_ref().map(|life| life.luggage.clone());
        let log = self.nodes[n].disk.logs.entry(session).or_default();
        log.apply(op, &luggage.unwrap_or_default());
        self.tell(n, Event::Stored(session, op));
    }

    fn activate(&mut self, n: usize, cell: usize, epoch: Epoch) {
        let id = self.nodes[n].id;
        let Some(life) = &mut self.nodes[n].life else {
            return;
        };
        if life.leaving.contains_key(&cell) {
            return;
        }
        if life
            .resident
            .get(&cell)
            .is_none_or(|held| held.epoch != epoch)
        {
            let verdict = life
                .begins_with(id, cell, epoch, &self.bucket)
                .and_then(|content| {
                    let last = life.fleet.appended();
                    life.resident.insert(
                        cell,
                        Resident {
                            epoch,
                            content,
                            last,
                        },
                    );
                    self.ledger.activated(cell, epoch, life.session, content)
                });
            self.taken_over |= epoch > Epoch::new(1);
            self.check(verdict);
        }
        let waiting = self.nodes[n]
            .life
            .as_mut()
            .and_then(|life| life.waiting.remove(&cell));
        for request in waiting.unwrap_or_default() {
            self.execute(n, request);
        }
    }

    fn forward(&mut self, n: usize, cell: usize, node: NodeId) {
        let waiting = self.nodes[n]
            .life
            .as_mut()
            .and_then(|life| life.waiting.remove(&cell));
        let there = |machine: &Machine| machine.id == node && machine.life.is_some();
        let to = self.nodes.iter().position(there);
        let to = to.filter(|to| !self.nodes[*to].paused);
        for request in waiting.unwrap_or_default() {
            match (to, &mut self.nodes[n].life) {
                (Some(to), _) => {
                    self.serve(to, request, true);
                    self.pump(to);
                }
                // Nobody answers there: the client tries again with the next tick.
                (None, Some(life)) => life.waiting.entry(cell).or_default().push(request),
                (None, None) => {}
            }
        }
    }

    /// Clients whose requests wait try again.
    pub(super) fn try_again(&mut self, n: usize) {
        let Some(life) = &self.nodes[n].life else {
            return;
        };
        let cells: Vec<usize> = life.waiting.keys().copied().collect();
        for cell in cells {
            let cell = self.cells[cell].clone();
            let wanted = Event::Wanted {
                cell,
                forwarded: false,
            };
            self.tell(n, wanted);
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
}

fn request_of<R>(ask: Ask<R>, object: impl FnOnce(R) -> Object) -> BucketRequest {
    match ask {
        Ask::Write { expect, next, .. } => BucketRequest::Put(expect, Box::new(object(next))),
        Ask::Read { .. } => BucketRequest::Get,
    }
}
