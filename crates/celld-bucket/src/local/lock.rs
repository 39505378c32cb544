//! Mutual exclusion of writers of one key, between threads and between processes.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::Key;

/// Keys share this many lock files: enough that strangers rarely meet, few enough to leave lie.
const STRIPES: u32 = 1_024;

/// A holder needs well under a millisecond. One that takes this long is stopped or stuck.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Lock files, below one directory.
#[derive(Debug)]
pub(super) struct Locks {
    dir: PathBuf,
}

/// Held until dropped, or until its process dies: the kernel then lets go.
pub(super) struct Held(#[expect(dead_code, reason = "closing the file releases the lock")] File);

impl Locks {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Waits until no other writer holds the key.
    pub fn lock(&self, key: &Key) -> io::Result<Held> {
        let path = self.path_of(key);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)?;
        let begun = Instant::now();
        let mut pause = Duration::from_micros(50);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Held(file)),
                Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < WAIT_MAX => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(stuck(&path)),
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    fn path_of(&self, key: &Key) -> PathBuf {
        self.dir.join(format!(
            "{:03x}",
            crc32fast::hash(key.as_str().as_bytes()) % STRIPES
        ))
    }
}

fn stuck(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!(
            "another process has held the lock {} for over {} s; look for a stopped celld process",
            path.display(),
            WAIT_MAX.as_secs()
        ),
    )
}
