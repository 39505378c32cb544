//! One node at a time: the lock of a log directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use celld_core::SessionId;
use rustix::fs::{FlockOperation, flock};

/// A log directory, held by this process until dropped or until it dies.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

/// The log directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process lives in it.
    #[error(
        "another celld node is using this bucket directory ({holder}; its lock is {}): stop it first, or use another directory",
        lock.display()
    )]
    Busy {
        /// The lock file.
        lock: PathBuf,
        /// Process id and session, as the holder wrote them.
        holder: String,
    },
    /// The lock file cannot be opened, locked or written.
    #[error("cannot lock the node log with {}: {source}", lock.display())]
    Io {
        /// The lock file.
        lock: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

impl DirLock {
    /// Makes the directory where it does not exist, and takes it. Never waits.
    pub fn take(dir: &Path, session: SessionId) -> Result<Self, LockError> {
        let lock = dir.join("lock");
        let failed = |source| LockError::Io {
            lock: lock.clone(),
            source,
        };
        fs::create_dir_all(dir).map_err(failed)?;
        let open = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&lock);
        let mut file = open.map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::Busy {
                    holder: holder(&mut file),
                    lock,
                });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        let note = format!("process {}, session {session}", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(note.as_bytes()))
            .map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// What the holder wrote; it may be just about to.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(200).read_to_string(&mut text) {
        Ok(length) if length > 0 => text.lines().next().unwrap_or_default().to_owned(),
        _ => "it does not say which".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let first = DirLock::take(&log, SessionId::from_random(0xabc)).unwrap();
        let refused = DirLock::take(&log, SessionId::from_random(2))
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("another celld node is using this bucket directory (process "),
            "{refused}"
        );
        assert!(
            refused.contains(&format!(
                "process {}, session 00000000000000000000000000000abc",
                std::process::id()
            )),
            "{refused}"
        );
        drop(first);
        DirLock::take(&log, SessionId::from_random(2)).unwrap();
    }
}
