//! The node log: one ordered log of all commits of all cells of one session.
//!
//! [`NodeLog::open`] reads what dead sessions left behind, then begins this session's own files.
//! A commit is [appended](NodeLog::append) and gets an [`Lsn`](celld_core::Lsn); one writer
//! thread puts what has gathered on disk with one write and one flush, and then opens the gates
//! ([`NodeLog::when_durable`]) that waited for it. For a bucket in a local directory that flush is
//! the proof that an output gate waits for.
//!
//! ```
//! # use celld_core::{CellId, Epoch, NamespaceKey, ObjectId, SessionId, Txid};
//! # use celld_log::{Commit, NodeLog, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let log = NodeLog::open(dir.path(), SessionId::from_random(7), Options::default(), Box::new(|why| eprintln!("{why}")))?;
//! let cell = CellId { namespace: NamespaceKey::new("rooms")?, object: ObjectId::from_bytes([1; 32]) };
//! let (epoch, txid, segment) = (Epoch::new(1), Txid::new(1), "pages".into());
//! let lsn = log.append(Commit { cell: cell.clone(), epoch, txid, name: None, alarm_ms: None, segment });
//! log.when_durable(lsn, Box::new(|proof| println!("the answer may leave: {}", proof.is_ok())));
//! # log.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! After a crash [`NodeLog::tail`] gives a cell's commits since its cell record was last written.
//! Once the node says that they are in the record ([`NodeLog::checkpointed`]), files that hold
//! nothing else are removed, oldest first.

mod disk;
mod error;
mod file;
pub mod follower;
mod gates;
mod index;
mod lock;
mod node_log;
mod read;
mod record;
mod shared;
mod writer;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod test_disk;

pub use disk::{Disk, DiskFile, RealDisk};
pub use error::{LogFailed, OpenError};
pub use gates::GateQueue;
pub use index::{CellTail, RecordRef, TailGap};
pub use lock::LockError;
pub use node_log::{NodeLog, Options};
pub use read::{ReadError, Recovery};
pub use record::{BadRecord, Commit, Record};
pub use shared::{Gate, OnFailed, Stats};
