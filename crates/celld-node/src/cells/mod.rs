//! Cells at rest: their records and alarm markers in the bucket, and the way there and back.

mod image;
mod marker;
mod record;
mod save;

pub(crate) use image::{Loaded, load, read_alarm};
pub(crate) use marker::{delete_marker, list_markers};
pub use record::RecordError;
pub(crate) use save::{Base, Fresh, compact, save};

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use celld_bucket::{Bucket, BucketError, Counted};
use celld_core::SessionId;
use celld_log::{NodeLog, ReadError, TailGap};
use celld_storage::StorageError;

/// What reading and writing cells needs.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) bucket: Arc<Counted<Arc<dyn Bucket>>>,
    pub(crate) log: Arc<NodeLog>,
    pub(crate) session: SessionId,
    /// Directory for databases that are built only to be saved.
    pub(crate) scratch: PathBuf,
    /// Keeps other nodes out of it.
    pub(crate) _scratch_lock: Arc<File>,
}

/// A cell cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// The bucket failed.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The record is not one that this version understands.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The node log failed.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// Commits are missing between record and log.
    #[error(transparent)]
    Gap(#[from] TailGap),
    /// The database cannot be rebuilt.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The record was written by somebody else meanwhile.
    #[error(
        "the record {key} was changed by another process: this bucket directory must have one node only"
    )]
    Conflict {
        /// The record's key.
        key: String,
    },
    /// A commit will never be durable.
    #[error("the node log failed: {0}")]
    LogFailed(String),
    /// A blocking task was cancelled: the process is ending.
    #[error("the node is shutting down")]
    Ending,
}

/// Runs blocking work on the runtime's threads for that.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CellError> + Send + 'static,
) -> Result<T, CellError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(CellError::Ending))
}

/// Removes a database from the scratch directory, if it is there. Blocks on I/O.
pub(crate) fn remove_database(database: &Path) {
    for suffix in ["", "-wal", "-journal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        if let Err(error) = std::fs::remove_file(&name)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %name.display(), %error, "cannot remove a scratch file");
        }
    }
}
