//! The directory for working files: one node's at a time, and empty at its start.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::StartError;

/// Takes the directory for as long as the returned file is open, and empties it.
///
/// The lock lies beside the directory, which is removed and made anew.
pub(crate) fn take(scratch: &Path) -> Result<File, StartError> {
    let failed = |error| StartError::Scratch {
        path: scratch.to_owned(),
        error,
    };
    let path = lock_path(scratch).map_err(failed)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(StartError::ScratchBusy {
                path: scratch.to_owned(),
                lock: path,
            });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    match fs::remove_dir_all(scratch) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    fs::create_dir_all(scratch).map_err(failed)?;
    Ok(lock)
}

fn lock_path(scratch: &Path) -> io::Result<PathBuf> {
    let name = scratch.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path does not end with a name",
        )
    })?;
    let mut name = name.to_owned();
    name.push(".lock");
    Ok(scratch.with_file_name(name))
}
