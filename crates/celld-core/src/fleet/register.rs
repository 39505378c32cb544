//! One bucket object under conditional writes, driven to a definite end whatever happens to the
//! answers.
//!
//! A write that gave no answer may have been applied, may yet be applied, or never will be. It is
//! repeated under the same condition with the same token until one of two things is certain: the
//! object carries that token, or it carries another's. A refusal is therefore never taken at its
//! word: the object is read back first, because the refused write may be a repetition of one that
//! was applied.
//!
//! A write that was given up could still be applied later. So nobody gives one up: whoever wants
//! something else waits for the end of what is under way.

use super::config::Config;
use super::ids::Token;
use super::sabotage::Fault;
use crate::MonoMs;

/// Something that carries the token of the write that made it.
pub trait Tokened {
    /// Names the write.
    fn token(&self) -> Token;
}

/// What a conditional write came to, as the shell reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// It was applied.
    Done,
    /// The condition did not hold (412).
    Refused,
    /// Nothing was changed and it may be tried again: 409, throttling, no connection.
    Failed,
    /// No answer, or one that says nothing: it may have been applied or may yet be.
    Unknown,
}

/// What a read came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Found<R> {
    /// The object.
    Here(R),
    /// There is none.
    Absent,
    /// No answer.
    Failed,
}

/// What the shell is to do for a register. It answers each exactly once, within `within_ms`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask<R> {
    /// Write `next`: if absent without `expect`, else only while the object carries that token.
    Write {
        /// The token that the object must carry.
        expect: Option<Token>,
        /// The object.
        next: R,
        /// How long the request may take, in ms.
        within_ms: u64,
    },
    /// Read the object.
    Read {
        /// How long the request may take, in ms.
        within_ms: u64,
    },
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Settled<R> {
    /// The object is what was wanted.
    Won {
        /// When the first of its attempts was about to be sent: it was applied later than that.
        sent: MonoMs,
    },
    /// Someone else's write is there, or (`None`) the object was removed.
    Lost(Option<R>),
}

/// The object as this node knows it, and the write that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Register<R> {
    known: Option<R>,
    attempt: Option<Attempt<R>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt<R> {
    next: R,
    sent: MonoMs,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Write,
    AwaitWrite,
    Read,
    AwaitRead,
    /// Writes again at this time, or reads.
    Pause {
        until: MonoMs,
        read: bool,
    },
}

impl<R: Tokened + Clone> Register<R> {
    /// An object as it was read; `None` when there is none.
    pub fn new(known: Option<R>) -> Self {
        Self {
            known,
            attempt: None,
        }
    }

    /// The object as it was last known for certain.
    pub fn known(&self) -> Option<&R> {
        self.known.as_ref()
    }

    /// What the object may be by now, besides [`Self::known`].
    pub fn pending(&self) -> Option<&R> {
        self.attempt.as_ref().map(|attempt| &attempt.next)
    }

    /// Begins to replace the known object; false while another write is under way.
    pub fn propose(&mut self, next: R, now: MonoMs) -> bool {
        if self.attempt.is_some() {
            return false;
        }
        self.attempt = Some(Attempt {
            next,
            sent: now,
            step: Step::Write,
        });
        true
    }

    /// The request to make, if it is time for one.
    pub fn poll(&mut self, within_ms: u64) -> Option<Ask<R>> {
        let attempt = self.attempt.as_mut()?;
        match attempt.step {
            Step::Write => {
                attempt.step = Step::AwaitWrite;
                Some(Ask::Write {
                    expect: self.known.as_ref().map(Tokened::token),
                    next: attempt.next.clone(),
                    within_ms,
                })
            }
            Step::Read => {
                attempt.step = Step::AwaitRead;
                Some(Ask::Read { within_ms })
            }
            Step::AwaitWrite | Step::AwaitRead | Step::Pause { .. } => None,
        }
    }

    /// The answer to [`Ask::Write`]. `pause_ms` comes before a further attempt.
    pub fn wrote(
        &mut self,
        outcome: Written,
        pause_ms: u64,
        now: MonoMs,
        config: &Config,
    ) -> Option<Settled<R>> {
        let attempt = self.attempt.as_mut()?;
        if attempt.step != Step::AwaitWrite {
            return None;
        }
        match outcome {
            Written::Done => return self.won(),
            Written::Refused if config.plants(Fault::OwnConflictIsALoss) => {
                self.attempt = None;
                return Some(Settled::Lost(None));
            }
            Written::Unknown if config.plants(Fault::LostReplyIsFailure) => {
                self.attempt = None;
                return Some(Settled::Lost(self.known.clone()));
            }
            Written::Refused | Written::Unknown => attempt.step = Step::Read,
            Written::Failed => {
                attempt.step = Step::Pause {
                    until: now.plus(pause_ms),
                    read: false,
                }
            }
        }
        None
    }

    /// The answer to [`Ask::Read`].
    pub fn read(&mut self, found: Found<R>, pause_ms: u64, now: MonoMs) -> Option<Settled<R>> {
        let attempt = self.attempt.as_mut()?;
        if attempt.step != Step::AwaitRead {
            return None;
        }
        let pause = |read| Step::Pause {
            until: now.plus(pause_ms),
            read,
        };
        let lost = match found {
            Found::Failed => {
                attempt.step = pause(true);
                return None;
            }
            Found::Here(object) if object.token() == attempt.next.token() => return self.won(),
            Found::Here(object) => Some(object),
            Found::Absent => None,
        };
        if lost.as_ref().map(Tokened::token) == self.known.as_ref().map(Tokened::token) {
            // Not applied so far; the same write under the same condition is safe at any time.
            attempt.step = pause(false);
            return None;
        }
        self.attempt = None;
        self.known.clone_from(&lost);
        Some(Settled::Lost(lost))
    }

    /// Lets a pause end.
    pub fn handle_time(&mut self, now: MonoMs) {
        if let Some(attempt) = self.attempt.as_mut()
            && let Step::Pause { until, read } = attempt.step
            && until <= now
        {
            attempt.step = if read { Step::Read } else { Step::Write };
        }
    }

    /// When to call [`Self::handle_time`].
    pub fn deadline(&self) -> Option<MonoMs> {
        match self.attempt.as_ref()?.step {
            Step::Pause { until, .. } => Some(until),
            _ => None,
        }
    }

    fn won(&mut self) -> Option<Settled<R>> {
        let attempt = self.attempt.take()?;
        self.known = Some(attempt.next);
        Some(Settled::Won { sent: attempt.sent })
    }
}
