//! A disk that records what is asked of it, fails on demand, and can be cloned as a crash at any
//! moment would leave it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use celld_core::{CellId, Lsn, Txid};
use parking_lot::{Condvar, Mutex};

use crate::disk::{Disk, DiskFile};

/// What a real disk writes as one.
const SECTOR_BYTES: usize = 512;

/// What happened, in order. The last two are told by a test, between what the disk saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    MakeDir(PathBuf),
    Create(PathBuf, u64),
    Write(PathBuf, u64, Vec<u8>),
    Sync(PathBuf),
    SyncDir(PathBuf),
    Settle(PathBuf),
    Remove(PathBuf),
    RemoveDir(PathBuf),
    Opened(Lsn),
    Checkpointed(CellId, Txid),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TestDisk(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    ops: Vec<Op>,
    held: bool,
    fail_write: Option<io::ErrorKind>,
    fail_sync: Option<io::ErrorKind>,
    fail_create: Option<io::ErrorKind>,
}

impl TestDisk {
    pub fn ops(&self) -> Vec<Op> {
        self.0.0.lock().ops.clone()
    }

    pub fn count(&self, wanted: impl Fn(&Op) -> bool) -> usize {
        self.0.0.lock().ops.iter().filter(|op| wanted(op)).count()
    }

    pub fn tell(&self, op: Op) {
        self.0.0.lock().ops.push(op);
    }

    /// Lets flushes of files wait until it is called with false.
    pub fn hold(&self, held: bool) {
        self.0.0.lock().held = held;
        self.0.1.notify_all();
    }

    pub fn fail_writes(&self, kind: io::ErrorKind) {
        self.0.0.lock().fail_write = Some(kind);
    }

    pub fn fail_syncs(&self, kind: io::ErrorKind) {
        self.0.0.lock().fail_sync = Some(kind);
    }

    pub fn fail_creates(&self, kind: io::ErrorKind) {
        self.0.0.lock().fail_create = Some(kind);
    }
}

fn fail(kind: Option<io::ErrorKind>) -> io::Result<()> {
    kind.map_or(Ok(()), |kind| Err(kind.into()))
}

impl Disk for TestDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.tell(Op::MakeDir(dir.to_owned()));
        Ok(())
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        fail(self.0.0.lock().fail_create)?;
        self.tell(Op::Create(path.to_owned(), bytes));
        Ok(Box::new(TestFile {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.tell(Op::SyncDir(dir.to_owned()));
        Ok(())
    }

    fn settle(&self, file: &Path) -> io::Result<()> {
        self.tell(Op::Settle(file.to_owned()));
        Ok(())
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.tell(Op::Remove(file.to_owned()));
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.tell(Op::RemoveDir(dir.to_owned()));
        Ok(())
    }
}

struct TestFile {
    disk: TestDisk,
    path: PathBuf,
}

impl DiskFile for TestFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk
            .tell(Op::Write(self.path.clone(), offset, bytes.to_vec()));
        fail(self.disk.0.0.lock().fail_write)
    }

    fn sync(&mut self) -> io::Result<()> {
        let (state, wake) = &*self.disk.0;
        let mut state = state.lock();
        while state.held {
            wake.wait(&mut state);
        }
        // A failed flush is in the list, so that a test sees whether it is tried again.
        state.ops.push(Op::Sync(self.path.clone()));
        fail(state.fail_sync)
    }
}

/// A small generator with a seed, so that a failing clone can be made again.
pub(crate) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

#[derive(Clone, Default)]
struct CloneFile {
    /// Content as it is for certain.
    durable: Vec<u8>,
    unsynced: Vec<(u64, Vec<u8>)>,
    /// Its length, while not certain.
    unsynced_length: Option<u64>,
}

/// What a disk holds after some operations: for certain, and perhaps.
#[derive(Clone, Default)]
pub(crate) struct CloneDisk {
    files: BTreeMap<PathBuf, CloneFile>,
    dirs: BTreeSet<PathBuf>,
    /// Names that may or may not be there.
    unsynced_names: BTreeSet<PathBuf>,
    unsynced_removals: BTreeSet<PathBuf>,
}

impl CloneDisk {
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::MakeDir(dir) => {
                self.dirs.insert(dir.clone());
                self.unsynced_names.insert(dir.clone());
            }
            Op::Create(path, bytes) => {
                let file = CloneFile {
                    unsynced_length: Some(*bytes),
                    ..CloneFile::default()
                };
                self.files.insert(path.clone(), file);
                self.unsynced_names.insert(path.clone());
            }
            Op::Write(path, offset, bytes) => {
                self.files
                    .get_mut(path)
                    .unwrap()
                    .unsynced
                    .push((*offset, bytes.clone()));
            }
            Op::Sync(path) => self.files.get_mut(path).unwrap().settle(|| true),
            Op::SyncDir(dir) => {
                self.unsynced_names
                    .retain(|path| path.parent() != Some(dir));
                for path in self
                    .unsynced_removals
                    .extract_if(.., |path| path.parent() == Some(dir))
                {
                    self.files.remove(&path);
                }
            }
            Op::Remove(path) => {
                self.unsynced_removals.insert(path.clone());
            }
            // A directory that is left although empty does no harm.
            Op::RemoveDir(_) | Op::Settle(_) | Op::Opened(_) | Op::Checkpointed(..) => {}
        }
    }

    /// Makes in `to` what a crash at this moment may leave of the tree at `from`: everything
    /// flushed, and a random choice of the rest.
    pub fn crash(mut self, from: &Path, to: &Path, rng: &mut Rng) {
        let moved = |path: &Path| to.join(path.strip_prefix(from).unwrap());
        for dir in &self.dirs {
            if !self.unsynced_names.contains(dir) || rng.coin() {
                fs::create_dir_all(moved(dir)).unwrap();
            }
        }
        for (path, file) in &mut self.files {
            let named = !self.unsynced_names.contains(path) || rng.coin();
            let removed = self.unsynced_removals.contains(path) && rng.coin();
            file.settle(|| rng.coin());
            let target = moved(path);
            if named && !removed && target.parent().unwrap().is_dir() {
                fs::write(target, &file.durable).unwrap();
            }
        }
    }
}

impl CloneFile {
    /// Applies those sectors of unsynced writes that `reached` says.
    fn settle(&mut self, mut reached: impl FnMut() -> bool) {
        if let Some(length) = self.unsynced_length
            && reached()
        {
            self.durable.resize(length as usize, 0);
            self.unsynced_length = None;
        }
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            let end = offset as usize + bytes.len();
            let mut at = offset as usize;
            while at < end {
                let stop = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
                let stop = stop.min(end);
                if reached() && stop <= self.durable.len() {
                    self.durable[at..stop]
                        .copy_from_slice(&bytes[at - offset as usize..stop - offset as usize]);
                }
                at = stop;
            }
        }
    }
}
