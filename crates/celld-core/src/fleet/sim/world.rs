//! The simulated world: real time, the network, the bucket's way of answering.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::bucket::{Answer, Bucket, Commits, Key, Request as BucketRequest};
use super::ledger::Ledger;
use super::node::{Life, Node, Request};
use super::trouble::Trouble;
use crate::dice::Dice;
use crate::fleet::config::{Config, Durability};
use crate::fleet::ids::{CertHash, NodeId};
use crate::fleet::message::{Event, Message, StoreOp};
use crate::fleet::sabotage::Fault;
use crate::fleet::{Fleet, Start};
use crate::{CellId, NamespaceKey, ObjectId, SessionId};

pub(super) type Checked = Result<(), String>;

/// Something that will happen.
#[derive(Clone, Debug)]
pub(super) enum What {
    Wake,
    Linked(NodeId, SessionId),
    LinkLost(NodeId, SessionId),
    Message(NodeId, SessionId, Message, Commits),
    Answer(Key, Answer),
    Stored(SessionId, StoreOp, Commits),
    Request(Request, bool),
}

/// To whom it happens: a life of a node, or the world.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    To(usize, SessionId, What),
    Apply {
        node: usize,
        session: SessionId,
        key: Key,
        request: BucketRequest,
        /// When the answer arrives and whether it does; `None` for a repetition nobody waits for.
        answers: Option<bool>,
        within_ms: u64,
    },
    Start(usize),
    Resume(usize),
    Heal(usize, usize),
    Trouble(Trouble),
}

#[derive(Debug)]
pub(super) struct Scheduled {
    at: u64,
    number: u64,
    happening: Happening,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    /// The earliest is the greatest, as the heap gives out the greatest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) config: Config,
    pub(super) now: u64,
    queue: BinaryHeap<Scheduled>,
    number: u64,
    pub(super) nodes: Vec<Node>,
    /// What waits until a paused process goes on.
    pub(super) frozen: BTreeMap<usize, Vec<(SessionId, What)>>,
    pub(super) cells: Vec<CellId>,
    pub(super) bucket: Bucket,
    pub(super) ledger: Ledger,
    pub(super) cuts: BTreeSet<(usize, usize)>,
    /// Until when a node's requests to the bucket fail.
    pub(super) outages: Vec<u64>,
    /// Faults of single requests and messages: one in so many, 0 for none.
    pub(super) noise: u64,
    pub(super) calm: bool,
    pub(super) disk_lost: bool,
    sessions: u128,
    pub(super) answered: usize,
    /// A digest of everything that happened, and the words of it where they are wanted.
    pub(super) digest: u64,
    pub(super) trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, planted: Option<Fault>, traced: bool) -> Self {
        let mut dice = Dice::new(seed);
        // The first throws of neighbouring seeds are alike.
        for _ in 0..8 {
            dice.below(2);
        }
        let bucket_mode = dice.one_in(4);
        let config = Config {
            lease_ttl_ms: 2_000,
            durability: if bucket_mode {
                Durability::Bucket
            } else {
                Durability::Fleet
            },
            bundle_ms: 200 + dice.below(600),
            backlog_max: 10_000,
            request_ms: 800,
            takeover_wait_ms: 3_000,
            planted,
            ..Config::default()
        };
        let count: u64 = [1, 2, 3, 3, 3, 4][dice.below(6) as usize];
        let cells = 2 + dice.below(2) as usize;
        let name = NamespaceKey::new("sim").expect("a key");
        let cell = |n: usize| CellId {
            namespace: name.clone(),
            object: ObjectId::from_bytes([n as u8; 32]),
        };
        let nodes = (0..count)
            .map(|n| {
                let (offset, rate) = (dice.below(1_000_000), 965 + dice.below(71));
                Node::new(NodeId::from_random(u128::from(n) + 1), offset, rate)
            })
            .collect();
        Self {
            config,
            now: 0,
            queue: BinaryHeap::new(),
            number: 0,
            nodes,
            frozen: BTreeMap::new(),
            cells: (0..cells).map(cell).collect(),
            bucket: Bucket::default(),
            ledger: Ledger::new(cells),
            cuts: BTreeSet::new(),
            outages: vec![0; count as usize],
            noise: [0, 6, 15, 40][dice.below(4) as usize],
            calm: false,
            disk_lost: false,
            sessions: 0,
            answered: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            trace: traced.then(Vec::new),
            dice,
        }
    }

    pub(super) fn note(&mut self, words: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>6} {}", self.now, words()));
        }
    }

    pub(super) fn schedule(&mut self, after: u64, happening: Happening) {
        self.number += 1;
        self.queue.push(Scheduled {
            at: self.now + after,
            number: self.number,
            happening,
        });
    }

    pub(super) fn trouble_hits(&mut self) -> bool {
        self.noise > 0 && self.dice.one_in(self.noise)
    }

    /// Lets everything happen until then.
    pub(super) fn run_until(&mut self, end: u64) -> Checked {
        while self.queue.peek().is_some_and(|next| next.at <= end) {
            let Some(next) = self.queue.pop() else {
                break;
            };
            self.now = next.at;
            self.digest =
                (self.digest ^ next.at ^ (next.number << 20)).wrapping_mul(0x0100_0000_01b3);
            self.happen(next.happening)?;
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Checked {
        match happening {
            Happening::To(n, session, what) => self.to(n, session, what),
            Happening::Apply {
                node,
                session,
                key,
                request,
                answers,
                within_ms,
            } => {
                let answer = self.bucket.apply(key, &request);
                self.note(|| format!("bucket {key:?} {request:?} -> {answer:?}"));
                if let Some(arrives) = answers {
                    let (after, answer) = if arrives {
                        (1 + self.dice.below(20), answer)
                    } else {
                        (within_ms, lost(&request))
                    };
                    let what = What::Answer(key, answer);
                    self.schedule(after, Happening::To(node, session, what));
                }
                Ok(())
            }
            Happening::Start(n) => self.start(n),
            Happening::Resume(n) => self.resume(n),
            Happening::Heal(a, b) => {
                if self.cuts.remove(&(a, b)) {
                    self.link(a, b);
                }
                Ok(())
            }
            Happening::Trouble(trouble) => self.make(trouble),
        }
    }

    pub(super) fn to(&mut self, n: usize, session: SessionId, what: What) -> Checked {
        let lives = self.nodes[n]
            .life
            .as_ref()
            .is_some_and(|life| life.session == session);
        if !lives {
            return Ok(());
        }
        if self.nodes[n].paused {
            self.frozen.entry(n).or_default().push((session, what));
            return Ok(());
        }
        self.note(|| format!("node {n}: {what:?}"));
        self.handle(n, what)
    }

    /// A process begins.
    pub(super) fn start(&mut self, n: usize) -> Checked {
        if self.nodes[n].life.is_some() {
            return Ok(());
        }
        self.sessions += 1;
        let session = SessionId::from_random(self.sessions);
        let now = self.nodes[n].local(self.now);
        let known_dead = self.dice.one_in(2);
        let node = &mut self.nodes[n];
        let start = Start {
            node: node.id,
            session,
            cert: CertHash::default(),
            cells_max: 100,
            predecessor: node.disk.last_session.map(|last| (last, known_dead)),
            followed: node.disk.found(),
        };
        node.disk.last_session = Some(session);
        node.paused = false;
        node.life = Some(Life::new(session, Fleet::new(self.config, start, now)));
        self.frozen.remove(&n);
        self.note(|| format!("node {n} starts as {session}"));
        for other in 0..self.nodes.len() {
            if other != n {
                self.link(n, other);
            }
        }
        self.pump(n)
    }

    /// Connects two nodes, if both live and nothing is cut.
    pub(super) fn link(&mut self, a: usize, b: usize) {
        let pair = (a.min(b), a.max(b));
        let (Some(x), Some(y)) = (&self.nodes[a].life, &self.nodes[b].life) else {
            return;
        };
        if self.cuts.contains(&pair) {
            return;
        }
        let (x, y) = ((self.nodes[a].id, x.session), (self.nodes[b].id, y.session));
        let after = 1 + self.dice.below(10);
        self.schedule(after, Happening::To(a, x.1, What::Linked(y.0, y.1)));
        let after = 1 + self.dice.below(10);
        self.schedule(after, Happening::To(b, y.1, What::Linked(x.0, x.1)));
    }

    pub(super) fn index_of(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    /// Sends a message as the network pleases.
    pub(super) fn send(&mut self, from: usize, to: NodeId, message: Message, luggage: Commits) {
        let (Some(target), Some(life)) = (self.index_of(to), &self.nodes[from].life) else {
            return;
        };
        let cut = self.cuts.contains(&(from.min(target), from.max(target)));
        let Some(session) = life.links.get(&to).copied() else {
            return;
        };
        let sender = (self.nodes[from].id, life.session);
        let copies = 1 + usize::from(self.trouble_hits());
        for _ in 0..copies {
            let lost = self.noise > 0 && self.dice.one_in(self.noise * 3);
            let slow = self.noise > 0 && self.dice.one_in(self.noise * 3);
            let after = 1 + self.dice.below(if slow { 700 } else { 4 });
            if !cut && !lost {
                let what = What::Message(sender.0, sender.1, message.clone(), luggage.clone());
                self.schedule(after, Happening::To(target, session, what));
            }
        }
    }

    /// Makes a request to the bucket, with everything that can happen to one.
    pub(super) fn request(&mut self, n: usize, key: Key, request: BucketRequest, within_ms: u64) {
        let Some(session) = self.nodes[n].life.as_ref().map(|life| life.session) else {
            return;
        };
        let answer = |answer| Happening::To(n, session, What::Answer(key, answer));
        if self.outages[n] > self.now {
            let refused = self.dice.one_in(2);
            let (after, verdict) = match (&request, refused) {
                (BucketRequest::Put(..), true) => (5, failed(&request)),
                _ => (within_ms, lost(&request)),
            };
            self.schedule(after, answer(verdict));
            return;
        }
        let slow = self.noise > 0 && self.dice.one_in(self.noise * 2);
        let latency = 2 + self.dice.below(if slow { within_ms } else { 30 });
        let apply = |answers| Happening::Apply {
            node: n,
            session,
            key,
            request: request.clone(),
            answers,
            within_ms,
        };
        let put = matches!(request, BucketRequest::Put(..));
        match if self.trouble_hits() {
            self.dice.below(6)
        } else {
            9
        } {
            // Throttled, or 409.
            0 => self.schedule(latency, answer(failed(&request))),
            // Never arrives.
            1 => self.schedule(within_ms, answer(lost(&request))),
            // Applied, and the answer is lost.
            2 => self.schedule(latency, apply(Some(false))),
            // Given up, and applied much later.
            3 if put => {
                self.schedule(within_ms, answer(lost(&request)));
                let late = within_ms + self.dice.below(5_000);
                self.schedule(late, apply(None));
            }
            // Repeated on the way: the answer is that of the repetition.
            4 if put => {
                self.schedule(latency, apply(None));
                self.schedule(latency + 1, apply(Some(true)));
            }
            _ => self.schedule(latency, apply(Some(true))),
        }
    }

    /// Handles an event in a node's core.
    pub(super) fn tell(&mut self, n: usize, event: Event) {
        let now = self.nodes[n].local(self.now);
        if let Some(life) = &mut self.nodes[n].life {
            life.fleet.handle_event(event, now);
        }
    }
}

fn lost(request: &BucketRequest) -> Answer {
    match request {
        BucketRequest::Put(..) => Answer::Written(crate::fleet::register::Written::Unknown),
        BucketRequest::Get => Answer::Failed,
    }
}

fn failed(request: &BucketRequest) -> Answer {
    match request {
        BucketRequest::Put(..) => Answer::Written(crate::fleet::register::Written::Failed),
        BucketRequest::Get => Answer::Failed,
    }
}
