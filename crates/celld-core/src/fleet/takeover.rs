//! Fencing off a session, once for all its cells.
//!
//! 1. Look at its record. A sealed session is done. One that lives by a lease is watched until the
//!    record has not changed for longer than the lease, on this node's clock; unless the shell
//!    knows that its process is dead, because it runs on the same machine and holds its lock.
//!    One with witnesses is fenced only when a witness says that it does not hear it either: a
//!    broken link between two nodes is no death, and without any witness nothing would be won.
//! 2. Move the record from open to recovering. From then on the witnesses are those it names.
//! 3. Ask the witnesses to seal. One that has answered is enough: without it the old owner can
//!    neither prove a write nor renew its authority to read.
//! 4. Write the seal at the first free number of the session's log, with what the followers have
//!    and the bucket lacks. Where the old owner wins a number, its bundle counts, and the seal
//!    goes to the next.
//! 5. Once the last read grant has ended, move the record to sealed. Its cells can be claimed.
//!
//! Any number of nodes may do this at once, and one may go on where another died: the conditional
//! writes make one of them decide, and the others read its decision.

use std::collections::{BTreeMap, VecDeque};

use super::config::Config;
use super::ids::{Bundled, NodeId, Token, Tokens};
use super::register::{Ask, Found, Register, Settled, Written};
use super::sabotage::Fault;
use super::session::{Phase, SessionRecord};
use crate::{Lsn, MonoMs, SessionId};

/// So often without an answer, and the record is read again.
const ROUNDS_PER_LOOK: u32 = 10;

/// What a number of a session's log turns out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogObject {
    /// Names the write.
    pub token: Token,
    /// True for a seal, which ends the log.
    pub seal: bool,
    /// It holds the log up to this position. A seal that holds nothing says where the log ends.
    pub end: Lsn,
}

/// A witness's answer to being asked to seal. It refuses the session from here on, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealAnswer {
    /// What it has of the session's log; `None` when it never was a follower. Positions before
    /// `bundled` may be gone.
    pub end: Option<Lsn>,
    /// What the bucket has for certain, as the leader told it.
    pub bundled: Bundled,
    /// How long its last read grant goes on, in ms of its own clock from when it answered.
    pub grant_left_ms: u64,
}

/// What the shell is to do for a takeover. It answers each once, except what goes to witnesses,
/// which may stay without an answer or be answered twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TakeoverAsk {
    /// Read or write `sessions/<session>`; answer `record_read` or `record_wrote`.
    Record(Ask<SessionRecord>),
    /// Ask a witness whether it hears the session; answer `doubted`.
    Doubt {
        /// Whom.
        witness: NodeId,
    },
    /// Ask a witness to seal; answer `sealed`. What it has of the log comes with its answer, and
    /// the shell keeps it until the takeover is over.
    Seal {
        /// Whom.
        witness: NodeId,
    },
    /// Read what is at a number of the session's log; answer `log_read`.
    ReadLog {
        /// The number.
        seq: u64,
        /// How long the request may take, in ms.
        within_ms: u64,
    },
    /// Write the seal, if the number is free; answer `log_wrote`. It holds the log from after
    /// `after` up to `object.end`, as `source` has it.
    WriteSeal {
        /// The number.
        seq: u64,
        /// The seal.
        object: LogObject,
        /// What is in the bundles before it.
        after: Lsn,
        /// Whose answer has the tail; `None` when there is nothing to add.
        source: Option<NodeId>,
        /// How long the request may take, in ms.
        within_ms: u64,
    },
}

/// Where a takeover stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Progress {
    /// It goes on.
    Working,
    /// The record says sealed, with the seal at this number.
    Sealed {
        /// Number of the log object with the rest of the log.
        seq: u64,
    },
    /// There is no such record: nothing is known of that session.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Read,
    AwaitRead,
    /// A session that lives by a lease: unchanged since this moment.
    Watch {
        token: Token,
        since: MonoMs,
        look_at: MonoMs,
    },
    /// A session with witnesses: they are asked whether they hear it.
    Doubt,
    /// The record is being moved to recovering.
    Fence,
    /// It is in recovering: asking, sealing, waiting.
    Recover,
    /// The record is being moved to sealed.
    Close,
    /// Read the record again at this time.
    Pause(MonoMs),
    Over(Progress),
}

/// The search for a place of the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seal {
    /// Not begun: no witness has answered.
    Idle,
    Read,
    AwaitRead,
    Write(LogObject),
    AwaitWrite(LogObject),
    Pause(MonoMs, Option<LogObject>),
    There,
}

/// A takeover of one session by one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Takeover {
    config: Config,
    /// The shell knows that the session's process is dead.
    known_dead: bool,
    step: Step,
    register: Register<SessionRecord>,
    /// The record as it was watched: token and since when.
    watched: Option<(Token, MonoMs)>,
    answers: BTreeMap<NodeId, SealAnswer>,
    ask_at: MonoMs,
    rounds: u32,
    to_ask: VecDeque<NodeId>,
    seal: Seal,
    /// The number that is looked at, and what is before it. Moves only between two requests.
    at: Bundled,
    /// What is certain to be in the bucket by now, as record and witnesses say.
    hint: Bundled,
    /// The grants of the witness that answered first have ended after this.
    grants_until: Option<MonoMs>,
}

impl Takeover {
    /// Begins. `known_dead`: the shell holds the lock of the session's data directory on the same
    /// machine, under the same kernel, so its process cannot serve a read any more.
    pub fn new(config: Config, known_dead: bool) -> Self {
        Self {
            config,
            known_dead,
            step: Step::Read,
            register: Register::new(None),
            watched: None,
            answers: BTreeMap::new(),
            ask_at: MonoMs::default(),
            rounds: 0,
            to_ask: VecDeque::new(),
            seal: Seal::Idle,
            at: Bundled::default(),
            hint: Bundled::default(),
            grants_until: None,
        }
    }

    /// Where it stands.
    pub fn progress(&self) -> Progress {
        match self.step {
            Step::Over(progress) => progress,
            _ => Progress::Working,
        }
    }

    /// True while it waits for witnesses of which none has answered: the session's cells cannot
    /// be had before one of them, or the session's own node, comes back.
    pub fn lacks_witness(&self) -> bool {
        match self.step {
            Step::Doubt => self.rounds > 1,
            Step::Recover => self.seal == Seal::Idle && !self.answered(),
            _ => false,
        }
    }

    /// True once the record says that the session is being fenced off.
    pub(crate) fn is_recovering(&self) -> bool {
        matches!(self.step, Step::Recover | Step::Close)
    }

    /// The session was heard again. Stops a takeover that has not changed anything.
    pub fn may_be_dropped(&self) -> bool {
        matches!(
            self.step,
            Step::Read | Step::AwaitRead | Step::Watch { .. } | Step::Doubt | Step::Pause(_)
        )
    }

    /// The next request.
    pub fn poll_ask(&mut self, tokens: &mut Tokens, now: MonoMs) -> Option<TakeoverAsk> {
        let within_ms = self.config.request_ms;
        match self.step {
            Step::Read => {
                self.step = Step::AwaitRead;
                return Some(TakeoverAsk::Record(Ask::Read { within_ms }));
            }
            Step::Fence | Step::Close => {
                if let Some(ask) = self.register.poll(within_ms) {
                    return Some(TakeoverAsk::Record(ask));
                }
            }
            Step::Doubt => {
                let witness = self.to_ask.pop_front()?;
                return Some(TakeoverAsk::Doubt { witness });
            }
            Step::Recover => {}
            _ => return None,
        }
        if self.step != Step::Recover {
            return None;
        }
        if let Some(witness) = self.to_ask.pop_front() {
            return Some(TakeoverAsk::Seal { witness });
        }
        self.poll_seal(tokens, now)
    }

    /// Answer to a read of the record.
    pub fn record_read(&mut self, found: Found<SessionRecord>, tokens: &mut Tokens, now: MonoMs) {
        match self.step {
            Step::AwaitRead => self.look(found, tokens, now),
            Step::Fence | Step::Close => {
                let settled = self.register.read(found, self.config.retry_ms, now);
                self.settle(settled, now);
            }
            _ => {}
        }
    }

    /// Answer to a write of the record.
    pub fn record_wrote(&mut self, outcome: Written, now: MonoMs) {
        let settled = self
            .register
            .wrote(outcome, self.config.retry_ms, now, &self.config);
        self.settle(settled, now);
    }

    /// A witness says whether it has not heard the session for as long as makes it suspect.
    pub fn doubted(&mut self, witness: NodeId, silent: bool, tokens: &mut Tokens, now: MonoMs) {
        let named = self
            .record()
            .is_some_and(|record| record.witnesses.contains(&witness));
        if self.step == Step::Doubt && named && silent {
            self.fence(tokens, now);
        }
    }

    /// A witness has sealed.
    pub fn sealed(&mut self, witness: NodeId, answer: SealAnswer, now: MonoMs) {
        let named = self
            .record()
            .is_some_and(|record| record.witnesses.contains(&witness));
        // A follower without a log cannot say that there was nothing: its disk may be a new one.
        let lacks = answer.end.is_none()
            && self
                .record()
                .is_some_and(SessionRecord::relies_on_followers);
        if self.step != Step::Recover || !named || lacks {
            return;
        }
        let ends = now.plus(self.config.outlast_ms(answer.grant_left_ms));
        self.grants_until = Some(self.grants_until.map_or(ends, |other| other.min(ends)));
        self.hint = self.hint.max(answer.bundled);
        self.answers.insert(witness, answer);
        if self.seal == Seal::Idle {
            self.seal = Seal::Read;
        }
    }

    /// Answer to [`TakeoverAsk::ReadLog`].
    pub fn log_read(&mut self, found: Found<LogObject>, now: MonoMs) {
        if self.seal != Seal::AwaitRead {
            return;
        }
        match found {
            Found::Failed => {
                self.seal = Seal::Pause(now.plus(self.config.retry_ms), None);
            }
            Found::Absent => self.seal = Seal::Write(self.draft()),
            Found::Here(object) if object.seal => self.seal = Seal::There,
            Found::Here(bundle) => {
                self.at = Bundled {
                    next_seq: self.at.next_seq + 1,
                    lsn: self.at.lsn.max(bundle.end),
                };
                self.seal = Seal::Read;
            }
        }
    }

    /// Answer to [`TakeoverAsk::WriteSeal`].
    pub fn log_wrote(&mut self, outcome: Written, now: MonoMs) {
        let Seal::AwaitWrite(object) = self.seal else {
            return;
        };
        self.seal = match outcome {
            Written::Done => Seal::There,
            // Whatever is there decides, be it this very seal.
            Written::Refused | Written::Unknown => Seal::Read,
            Written::Failed => Seal::Pause(now.plus(self.config.retry_ms), Some(object)),
        };
    }

    /// Lets waits end.
    pub fn handle_time(&mut self, tokens: &mut Tokens, now: MonoMs) {
        self.register.handle_time(now);
        match self.step {
            Step::Watch { look_at, .. } if look_at <= now => self.step = Step::Read,
            Step::Pause(until) if until <= now => self.step = Step::Read,
            Step::Recover => self.recover(tokens, now),
            Step::Doubt => self.ask_again(now),
            _ => {}
        }
    }

    /// When to call [`Self::handle_time`], and what for.
    pub fn deadline(&self) -> Option<(MonoMs, &'static str)> {
        match self.step {
            Step::Watch { look_at, .. } => Some((look_at, "takeover: look at the lease")),
            Step::Pause(until) => Some((until, "takeover: try again")),
            Step::Fence | Step::Close => self
                .register
                .deadline()
                .map(|at| (at, "takeover: write again")),
            Step::Doubt => Some((self.ask_at, "takeover: ask witnesses")),
            Step::Recover => {
                let ask = (!self.answered()).then_some((self.ask_at, "takeover: ask witnesses"));
                let seal = match self.seal {
                    Seal::Pause(until, _) => Some((until, "takeover: seal again")),
                    Seal::There => self
                        .grants_until
                        .map(|at| (at, "takeover: grants have ended")),
                    _ => None,
                };
                [ask, seal].into_iter().flatten().min()
            }
            _ => None,
        }
    }

    fn record(&self) -> Option<&SessionRecord> {
        self.register.known()
    }

    fn answered(&self) -> bool {
        let lone = self
            .record()
            .is_some_and(|record| record.witnesses.is_empty());
        lone || !self.answers.is_empty() || self.config.plants(Fault::SealWithoutWitness)
    }

    /// What the record says, and what to do about it.
    fn look(&mut self, found: Found<SessionRecord>, tokens: &mut Tokens, now: MonoMs) {
        let record = match found {
            Found::Here(record) => record,
            Found::Absent => {
                self.step = Step::Over(Progress::Unknown);
                return;
            }
            Found::Failed => {
                self.step = Step::Pause(now.plus(self.config.retry_ms));
                return;
            }
        };
        self.register = Register::new(Some(record.clone()));
        match record.phase {
            Phase::Sealed { seq } => self.step = Step::Over(Progress::Sealed { seq }),
            Phase::Recovering => self.begin_recovery(now),
            Phase::Open => {
                if let Some(step) = self.watch(&record, now) {
                    self.step = step;
                } else if record.witnesses.is_empty() || self.known_dead {
                    self.fence(tokens, now);
                } else {
                    self.step = Step::Doubt;
                    self.rounds = 0;
                    self.ask_witnesses(now);
                }
            }
        }
    }

    fn fence(&mut self, tokens: &mut Tokens, now: MonoMs) {
        let Some(mut next) = self.register.known().cloned() else {
            return;
        };
        next.phase = Phase::Recovering;
        next.token = tokens.fresh();
        self.register.propose(next, now);
        self.step = Step::Fence;
    }

    fn ask_witnesses(&mut self, now: MonoMs) {
        self.rounds += 1;
        self.ask_at = now.plus(self.config.retry_ms);
        if let Some(record) = self.register.known() {
            self.to_ask = record.witnesses.iter().copied().collect();
        }
    }

    /// Asks again; now and then looks whether someone else has brought it to an end.
    fn ask_again(&mut self, now: MonoMs) {
        if self.ask_at > now {
            return;
        }
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            self.rounds += 1;
            self.step = Step::Read;
        } else {
            self.ask_witnesses(now);
        }
    }

    /// `Some` while a lease may still be alive.
    fn watch(&mut self, record: &SessionRecord, now: MonoMs) -> Option<Step> {
        if !record.witnesses.is_empty() || self.known_dead {
            return None;
        }
        let since = match self.watched {
            Some((token, since)) if token == record.token => since,
            Some((_, since)) if self.config.plants(Fault::WatchFromTheStart) => since,
            _ => now,
        };
        self.watched = Some((record.token, since));
        let until = since.plus(self.config.outlast_ms(self.config.lease_ttl_ms));
        (now < until).then_some(Step::Watch {
            token: record.token,
            since,
            look_at: until,
        })
    }

    fn settle(&mut self, settled: Option<Settled<SessionRecord>>, now: MonoMs) {
        match settled {
            None => {}
            Some(Settled::Won { .. }) => match self.record().map(|record| record.phase) {
                Some(Phase::Sealed { seq }) => self.step = Step::Over(Progress::Sealed { seq }),
                _ => self.begin_recovery(now),
            },
            // Another takeover was faster, or the owner lives and has renewed.
            Some(Settled::Lost(_)) => self.step = Step::Read,
        }
    }

    fn begin_recovery(&mut self, now: MonoMs) {
        self.step = Step::Recover;
        self.seal = Seal::Idle;
        self.answers.clear();
        self.grants_until = None;
        self.rounds = 0;
        if let Some(record) = self.register.known() {
            self.hint = self.hint.max(record.bundled);
        }
        self.ask_witnesses(now);
        if self.answered() {
            self.seal = Seal::Read;
            self.grants_until = Some(now);
        }
    }

    fn recover(&mut self, tokens: &mut Tokens, now: MonoMs) {
        if let Seal::Pause(until, object) = self.seal
            && until <= now
        {
            self.seal = object.map_or(Seal::Read, Seal::Write);
        }
        if !self.answered() {
            self.ask_again(now);
        }
        self.close_if_ready(tokens, now);
    }

    fn poll_seal(&mut self, tokens: &mut Tokens, now: MonoMs) -> Option<TakeoverAsk> {
        let within_ms = self.config.request_ms;
        match self.seal {
            Seal::Read => {
                self.at = self.at.max(self.hint);
                self.seal = Seal::AwaitRead;
                Some(TakeoverAsk::ReadLog {
                    seq: self.at.next_seq,
                    within_ms,
                })
            }
            Seal::Write(_) if self.config.plants(Fault::SkipTheSeal) => {
                self.seal = Seal::There;
                self.poll_ask(tokens, now)
            }
            Seal::Write(mut object) => {
                object.token = tokens.fresh();
                self.seal = Seal::AwaitWrite(object);
                Some(TakeoverAsk::WriteSeal {
                    seq: self.at.next_seq,
                    object,
                    after: self.at.lsn,
                    source: self.source(),
                    within_ms,
                })
            }
            Seal::There => {
                self.close_if_ready(tokens, now);
                (self.step == Step::Close).then(|| self.poll_ask(tokens, now))?
            }
            _ => None,
        }
    }

    /// The witness that has most of what the bucket lacks.
    fn source(&self) -> Option<NodeId> {
        if self.config.plants(Fault::SealWithoutMerging) {
            return None;
        }
        let (witness, answer) = self.answers.iter().max_by_key(|(_, answer)| answer.end)?;
        (answer.end > Some(self.at.lsn)).then_some(*witness)
    }

    fn draft(&self) -> LogObject {
        let end = self.source().and_then(|witness| self.answers[&witness].end);
        LogObject {
            token: Token {
                session: SessionId::from_random(0),
                number: 0,
            },
            seal: true,
            end: end.unwrap_or(self.at.lsn),
        }
    }

    fn close_if_ready(&mut self, tokens: &mut Tokens, now: MonoMs) {
        let ended = self.grants_until.is_some_and(|until| until <= now)
            || self.config.plants(Fault::IgnoreTheGrant);
        if self.step != Step::Recover || self.seal != Seal::There || !ended {
            return;
        }
        let Some(record) = self.register.known() else {
            return;
        };
        let mut next = record.clone();
        next.phase = Phase::Sealed {
            seq: self.at.next_seq,
        };
        next.token = tokens.fresh();
        if self.register.propose(next, now) {
            self.step = Step::Close;
        }
    }
}
