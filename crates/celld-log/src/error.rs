//! What can go wrong with a log as a whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lock::LockError;
use crate::read::ReadError;

/// The log cannot be written any more. What was not durable before never will be in this session.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogFailed {
    /// The disk is full.
    #[error(
        "the disk is full: the node log {} cannot be {doing}; free space there and start celld again (no unproven answer has left)",
        file.display()
    )]
    DiskFull {
        /// The file.
        file: PathBuf,
        /// `written`, `flushed` or `created`.
        doing: &'static str,
    },
    /// The disk refused.
    #[error(
        "the node log {} cannot be {doing}: {source}; check the disk and start celld again (no unproven answer has left)",
        file.display()
    )]
    Disk {
        /// The file.
        file: PathBuf,
        /// `written`, `flushed` or `created`.
        doing: &'static str,
        /// What went wrong.
        source: Arc<io::Error>,
    },
    /// A record is too long for the log's format.
    #[error("a commit of {bytes} bytes is too long for the node log (limit 4 GiB)")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The log was closed.
    #[error("the node log is closed: this session has ended")]
    Closed,
}

impl LogFailed {
    pub(crate) fn disk(file: &Path, doing: &'static str, source: io::Error) -> Self {
        let file = file.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { file, doing }
            }
            _ => Self::Disk {
                file,
                doing,
                source: Arc::new(source),
            },
        }
    }
}

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// What is in it cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No new file can be made in it.
    #[error(transparent)]
    Write(#[from] LogFailed),
    /// The writer's thread cannot be started, or there is no randomness.
    #[error("cannot start the node log: {0}")]
    System(io::Error),
}
