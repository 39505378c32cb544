//! What nodes say to each other, and what they ask of their shells.

use super::ids::{Bundled, NodeId};
use super::register::{Ask, Found, Written};
use super::session::SessionRecord;
use super::stop::Stop;
use super::takeover::{LogObject, SealAnswer};
use crate::{CellId, Epoch, Lsn, MonoMs, SessionId};

use super::cells::CellRecord;

/// A message between two sessions. The link says whose it is. Messages may be lost, late or
/// doubled; the machine repeats what matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// The sender lives, and asks to be granted reads.
    Ping {
        /// The sender's own clock; comes back in the answer.
        sent: MonoMs,
        /// What the bucket has of the sender's log.
        bundled: Bundled,
        /// How full the sender is.
        load: Load,
    },
    /// Grants the receiver's reads, from `sent` on the receiver's clock.
    Pong {
        /// As it came.
        sent: MonoMs,
        /// The sender's clock. Nobody looks at it; it is there for a planted mistake.
        #[cfg(test)]
        theirs: MonoMs,
    },
    /// Keep the sender's log. Everything up to `base` is in the bucket.
    Join {
        /// The log begins after this position.
        base: Lsn,
    },
    /// Records of the sender's log, which travel with the message.
    Append {
        /// The first.
        first: Lsn,
        /// The last.
        last: Lsn,
    },
    /// The receiver's log is flushed up to here.
    Stored {
        /// The last flushed record.
        lsn: Lsn,
    },
    /// The receiver's session is being taken over: it is over.
    Refused,
    /// Do you hear that session?
    Doubt {
        /// Which.
        session: SessionId,
    },
    /// The answer.
    Doubted {
        /// Which.
        session: SessionId,
        /// Not heard for as long as makes it suspect.
        silent: bool,
    },
    /// Refuse that session from here on, and hand over what you have of it.
    Seal {
        /// Which.
        session: SessionId,
    },
    /// Done. The rest of the log travels with the message.
    SealAnswer {
        /// Which.
        session: SessionId,
        /// What the sender has of it.
        answer: SealAnswer,
    },
    /// The sender has released a cell; the receiver may claim it.
    Take {
        /// Which.
        cell: CellId,
    },
}

/// How full a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// Cells that it owns.
    pub cells: u32,
    /// Cells that it takes at most.
    pub cells_max: u32,
    /// It takes no new cells.
    pub draining: bool,
}

/// What a follower's store is asked to do for one leader's log, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreOp {
    /// Begin a log after this position, or move the one that ends before it there.
    Begin(Lsn),
    /// Append the records that came with the message, up to this position, and flush.
    Append(Lsn),
    /// Durably note that the session is refused.
    Seal,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A link to a session of another node is up.
    Linked {
        /// Whose.
        node: NodeId,
        /// The session at its other end.
        session: SessionId,
    },
    /// The link was reset or refused.
    LinkLost {
        /// Whose.
        node: NodeId,
        /// The session at its other end.
        session: SessionId,
    },
    /// A message came.
    Received {
        /// From whom.
        node: NodeId,
        /// From which life of it.
        session: SessionId,
        /// What it says.
        message: Message,
    },
    /// Answer to a write of [`Effect::Record`].
    RecordWrote(SessionId, Written),
    /// Answer to a read of [`Effect::Record`].
    RecordRead(SessionId, Found<SessionRecord>),
    /// Answer to a write of [`Effect::Log`].
    LogWrote(SessionId, u64, Written),
    /// Answer to a read of [`Effect::Log`].
    LogRead(SessionId, u64, Found<LogObject>),
    /// Answer to a write of [`Effect::Cell`].
    CellWrote(CellId, Written),
    /// Answer to a read of [`Effect::Cell`].
    CellRead(CellId, Found<CellRecord>),
    /// Answer to [`Effect::Store`]. Without success there is no answer: the witness stays behind
    /// and is dropped.
    Stored(SessionId, StoreOp),
    /// A request waits for a cell that this node doesn't serve. May be said more than once.
    Wanted {
        /// Which.
        cell: CellId,
        /// It was forwarded, and is not forwarded again for want of room.
        forwarded: bool,
    },
    /// Give a cell up: it is not served any more, all its writes are proven, and the shell holds
    /// the snapshot that its record takes.
    Release {
        /// Which.
        cell: CellId,
        /// Who is to have it.
        to: Option<NodeId>,
    },
    /// Write a cell's record with the snapshot that the shell holds; it stays here.
    Save {
        /// Which.
        cell: CellId,
    },
    /// Give every cell up, then close the session.
    Drain,
}

/// Something to do. Requests to the bucket are answered exactly once each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A request for `sessions/<session>`.
    Record(SessionId, Ask<SessionRecord>),
    /// A request for `log/<session>/<seq>`. A write holds the log after `after`, from this node's
    /// own log or, for a seal, from what `source` has handed over.
    Log {
        /// Whose log.
        session: SessionId,
        /// Which number.
        seq: u64,
        /// What to do.
        ask: Ask<LogObject>,
        /// What is in the objects before it.
        after: Lsn,
        /// Which witness's answer has the rest; `None` for a bundle, or when there is none.
        source: Option<NodeId>,
    },
    /// A request for `cells/<namespace>/<id>`. A claim keeps the data that was read; a release or
    /// a save takes the snapshot that the shell holds.
    Cell(CellId, Ask<CellRecord>),
    /// Send a message; records that it names travel with it.
    Send(NodeId, Message),
    /// Do this to a followed log.
    Store(SessionId, StoreOp),
    /// The cell is this node's under this epoch: restore it from the record that was read or
    /// claimed, and serve.
    Serve(CellId, Epoch),
    /// The cell is, or should be, served there.
    Forward(CellId, NodeId),
    /// The requests that wait for the cell fail.
    Refuse(CellId, Unavailable),
    /// The cell is given up.
    Released(CellId),
    /// Stop serving the cell and say [`Event::Release`].
    Yield(CellId, Option<NodeId>),
    /// Everything up to here is proven.
    Durable(Lsn),
    /// A session is fenced off; its log ends with this number. Its followed log can go.
    Sealed(SessionId, u64),
    /// The session is over: reveal nothing more, say why, exit with status 3.
    Stop(Stop),
    /// Every cell is released and the session closed.
    Drained,
}

/// Why a cell cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unavailable {
    /// Its owner is gone and none of those who have its last writes answers.
    #[error(
        "the cell's owner is gone, and so is every follower that holds its last writes: start one of these nodes again with its disk"
    )]
    NoWitness,
    /// Its owner's end is being settled, or its owner lives where this node cannot reach it.
    #[error("the cell's owner is being replaced or cannot be reached: try again")]
    TakingOver,
    /// The bucket doesn't answer.
    #[error("the bucket does not answer: try again")]
    Bucket,
    /// Its record names a session that the bucket knows nothing of.
    #[error("the cell's record names a session without a record: restore the bucket from a backup")]
    Damaged,
    /// This node takes no cells: it is starting, draining or over.
    #[error("this node takes no cells at the moment: try another")]
    NotHere,
    /// Writes wait for the bucket, and no more may.
    #[error("too many writes wait for the bucket: try again later")]
    Backlog,
}
