//! The follower's side of the fleet: the logs of other sessions, kept for them on this disk.
//!
//! One preallocated file per leader session, and another when it is full. A batch is one write and
//! one `fdatasync`; only then is its last position acknowledged. [`FollowerStore::seal`] notes
//! durably that a session is refused from then on, and [`FollowerStore::tail`] gives back what the
//! bucket lacks. Who may append, and who is sealed when, `celld_core::fleet` decides.
//!
//! | file in the directory | holds |
//! |---|---|
//! | `<session>.<number>.log` | header and frames as the node log has them; the generation is 0 |
//! | `<session>.sealed` | the note that the session is refused |
//!
//! Between header and frames lie two places for a hint, written in turn: how much of the log the
//! leader's bucket had. A torn hint is no hint; a seal then looks for its number from further back.
//!
//! All calls block; a node makes them on a thread of their own.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use celld_core::fleet::Followed;
use celld_core::fleet::ids::Bundled;
use celld_core::{Lsn, SessionId};

use crate::disk::Disk;
use file::{LogFile, OldFile};

/// Longest record that is taken, head and segment together, in bytes. A commit is bounded far
/// below it by the runtime's limits.
pub const RECORD_MAX_BYTES: usize = 256 << 20;

/// A record as it travels between leader, follower and seal: the log does not look inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Its position.
    pub lsn: Lsn,
    /// Its head.
    pub head: Bytes,
    /// The segment behind it; empty for records that have none.
    pub segment: Bytes,
}

/// A follower's disk could not do what was asked. What was acknowledged before is safe.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The disk is full.
    #[error("the disk of the follower log {} is full: free some space", path.display())]
    Full {
        /// The file or directory.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("the follower log {} cannot be used: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// An earlier write or flush of this log failed, so nothing more is written to it.
    #[error(
        "the follower log of session {0} takes nothing more, because an earlier write to it failed: look for that error, and start the node again when the disk is sound"
    )]
    Broken(SessionId),
    /// The session is refused.
    #[error("session {0} is sealed: another node has taken it over")]
    Sealed(SessionId),
    /// No log of that session is kept here.
    #[error("no log of session {0} is kept here")]
    Unknown(SessionId),
    /// The records do not follow on what is there, or are no records.
    #[error("a batch of session {session} is refused: {why}")]
    BadBatch {
        /// Whose.
        session: SessionId,
        /// What is wrong.
        why: &'static str,
    },
    /// Acknowledged records cannot be read back.
    #[error(
        "the follower log {} is damaged: {why}; other followers or the bucket may have the session's last writes", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
}

impl FollowError {
    fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { path, source },
        }
    }
}

/// Sizes, and the disk.
#[derive(Clone)]
pub struct FollowOptions {
    /// Length of a preallocated file, in bytes (default 64 MiB). A longer batch gets a longer one.
    pub file_bytes: u64,
    /// The file system.
    pub disk: Arc<dyn Disk>,
    #[cfg(test)]
    pub(crate) sabotage: Sabotage,
}

/// Faults that the crash tests plant.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sabotage {
    #[default]
    None,
    /// Acknowledges a batch that is not flushed.
    AcknowledgeBeforeSync,
    /// Answers that a session is sealed before the note is durable.
    ForgetTheSeal,
    /// Does not flush the name of a new file.
    SkipDirSync,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self {
            file_bytes: 64 << 20,
            disk: Arc::new(crate::disk::RealDisk),
            #[cfg(test)]
            sabotage: Sabotage::None,
        }
    }
}

/// The logs of other sessions on this disk.
pub struct FollowerStore {
    dir: PathBuf,
    options: FollowOptions,
    sessions: BTreeMap<SessionId, Session>,
}

/// One leader's log.
#[derive(Default)]
struct Session {
    /// In order; the last of them ends the log. Those of an earlier process are read only.
    old: Vec<OldFile>,
    current: Option<LogFile>,
    /// The last flushed position; `None` without a log.
    end: Option<Lsn>,
    bundled: Bundled,
    sealed: bool,
    broken: bool,
    last_number: u64,
}

impl FollowerStore {
    /// Reads what an earlier process left in `dir`, which is made when it does not exist.
    ///
    /// A log that cannot be read is an error: to go on without it could drop acknowledged writes.
    pub fn open(dir: &Path, options: FollowOptions) -> Result<Self, FollowError> {
        let failed = |source| FollowError::io(dir, source);
        fs::create_dir_all(dir).map_err(failed)?;
        let mut store = Self {
            dir: dir.to_owned(),
            options,
            sessions: BTreeMap::new(),
        };
        let mut files: BTreeMap<(SessionId, u64), PathBuf> = BTreeMap::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            match path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(parse_name)
            {
                Some((session, Some(number))) => drop(files.insert((session, number), path)),
                Some((session, None)) => store.found_seal(session, &path)?,
                None => {}
            }
        }
        for ((session, number), path) in files {
            store.found_file(session, number, path)?;
        }
        // A session of which nothing but unwritten files was found has no log.
        store
            .sessions
            .retain(|_, session| session.end.is_some() || session.sealed);
        Ok(store)
    }

    /// What is kept here, for [`celld_core::fleet::Start::followed`].
    pub fn found(&self) -> BTreeMap<SessionId, Followed> {
        let each = self.sessions.iter().map(|(id, session)| {
            let followed = Followed {
                end: session.end,
                bundled: session.bundled,
                sealed: session.sealed,
            };
            (*id, followed)
        });
        each.collect()
    }

    fn found_seal(&mut self, session: SessionId, path: &Path) -> Result<(), FollowError> {
        let disk = self.options.disk.clone();
        disk.settle(path)
            .map_err(|source| FollowError::io(path, source))?;
        // The name is the note. A file that a crash left empty counts: to refuse is safe.
        self.sessions.entry(session).or_default().sealed = true;
        Ok(())
    }

    fn found_file(&mut self, id: SessionId, number: u64, path: PathBuf) -> Result<(), FollowError> {
        let disk = self.options.disk.clone();
        disk.settle(&path)
            .map_err(|source| FollowError::io(&path, source))?;
        let session = self.sessions.entry(id).or_default();
        session.last_number = session.last_number.max(number);
        let Some(found) = OldFile::read(&path, id)? else {
            // Its process died while making it; nothing in it was acknowledged.
            return disk
                .remove(&path)
                .map_err(|source| FollowError::io(&path, source));
        };
        let begins_after = Lsn::new(found.first.get() - 1);
        if session.end.is_some_and(|end| end > begins_after) {
            return Err(FollowError::Damaged {
                path,
                why: "it begins before the end of the file before it",
            });
        }
        if session.end != Some(begins_after) {
            // The log was moved on to here: what came before is in the bucket.
            for old in session.old.drain(..) {
                disk.remove(&old.path)
                    .map_err(|source| FollowError::io(&old.path, source))?;
            }
        }
        session.end = Some(found.end);
        session.bundled = session.bundled.max(found.bundled);
        session.old.push(found);
        Ok(())
    }

    /// Begins a log after `base`, or moves one that ends before it there: everything up to `base`
    /// is in the bucket. Nothing happens to a log that has got further. Durable when it returns.
    pub fn begin(&mut self, id: SessionId, base: Lsn) -> Result<(), FollowError> {
        let session = self.writable(id)?;
        if session.end.is_some_and(|end| end >= base) {
            return Ok(());
        }
        self.roll(id, base, 0)?;
        let disk = self.options.disk.clone();
        let session = self.sessions.entry(id).or_default();
        session.end = Some(base);
        for old in session.old.drain(..) {
            disk.remove(&old.path)
                .map_err(|source| FollowError::io(&old.path, source))?;
        }
        Ok(())
    }

    /// Appends records that follow on the log's end; gives back its new end once they are flushed.
    /// Records that it has already are passed over.
    pub fn append(
        &mut self,
        id: SessionId,
        records: &[RawRecord],
        bundled: Bundled,
    ) -> Result<Lsn, FollowError> {
        let session = self.writable(id)?;
        let end = session.end.ok_or(FollowError::Unknown(id))?;
        let skip = records
            .iter()
            .take_while(|record| record.lsn <= end)
            .count();
        let fresh = &records[skip..];
        check_batch(id, end, fresh)?;
        let Some(last) = fresh.last() else {
            return Ok(end);
        };
        let bytes = file::batch_bytes(fresh);
        if session
            .current
            .as_ref()
            .is_none_or(|file| !file.has_room(bytes))
        {
            self.roll(id, end, bytes)?;
        }
        let sync = !self.sabotages_sync();
        let Some(session) = self.sessions.get_mut(&id) else {
            return Err(FollowError::Unknown(id));
        };
        let Some(file) = session.current.as_mut() else {
            return Err(FollowError::Unknown(id));
        };
        if let Err(source) = file.append(fresh, bundled, sync) {
            session.broken = true;
            return Err(FollowError::io(file.path(), source));
        }
        session.end = Some(last.lsn);
        session.bundled = session.bundled.max(bundled);
        self.trim(id);
        Ok(last.lsn)
    }

    /// Refuses a session from here on. Durable when it returns. A session of which no log is kept
    /// can be sealed too.
    pub fn seal(&mut self, id: SessionId) -> Result<(), FollowError> {
        let path = self.dir.join(format!("{id}.sealed"));
        let session = self.sessions.entry(id).or_default();
        if session.sealed {
            return Ok(());
        }
        #[cfg(test)]
        if self.options.sabotage == Sabotage::ForgetTheSeal {
            session.sealed = true;
            return Ok(());
        }
        let disk = &self.options.disk;
        let made = disk.create(&path, 16).and_then(|mut file| {
            file.write_at(b"celld sealed\n", 0)?;
            file.sync()?;
            disk.sync_dir(&self.dir)
        });
        made.map_err(|source| FollowError::io(&path, source))?;
        session.sealed = true;
        Ok(())
    }

    /// The records after `after`, up to the end of the log.
    pub fn tail(&self, id: SessionId, after: Lsn) -> Result<Vec<RawRecord>, FollowError> {
        let session = self.sessions.get(&id).ok_or(FollowError::Unknown(id))?;
        let end = session.end.ok_or(FollowError::Unknown(id))?;
        let mut records = Vec::new();
        let current = session.current.as_ref().map(LogFile::as_old);
        for file in session.old.iter().chain(current.as_ref()) {
            file.records(after, end, &mut records)?;
        }
        let first = records.first().map(|record| record.lsn);
        let whole = end <= after || first.is_some_and(|first| first <= after.next());
        if !whole || end > after && records.last().map(|record| record.lsn) != Some(end) {
            return Err(FollowError::Damaged {
                path: self.dir.clone(),
                why: "records that were acknowledged are not there",
            });
        }
        Ok(records)
    }

    /// Removes the log of a session that is settled: its record in the bucket says sealed. The
    /// note that it is refused stays until then and goes with it.
    pub fn discard(&mut self, id: SessionId) -> Result<(), FollowError> {
        let Some(session) = self.sessions.remove(&id) else {
            return Ok(());
        };
        let seal = session
            .sealed
            .then(|| self.dir.join(format!("{id}.sealed")));
        let current = session.current.map(|file| file.path().to_owned());
        let old = session.old.into_iter().map(|file| file.path);
        for path in old.chain(current).chain(seal) {
            match self.options.disk.remove(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(FollowError::io(&path, source));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn writable(&mut self, id: SessionId) -> Result<&mut Session, FollowError> {
        let session = self.sessions.entry(id).or_default();
        if session.sealed {
            return Err(FollowError::Sealed(id));
        }
        if session.broken {
            return Err(FollowError::Broken(id));
        }
        Ok(session)
    }

    /// Begins a file after `base` with room for a batch.
    fn roll(&mut self, id: SessionId, base: Lsn, batch: u64) -> Result<(), FollowError> {
        #[cfg(test)]
        let named = self.options.sabotage != Sabotage::SkipDirSync;
        #[cfg(not(test))]
        let named = true;
        let session = self.sessions.entry(id).or_default();
        let number = session.last_number + 1;
        let path = self.dir.join(format!("{id}.{number:08}.log"));
        let bytes = self.options.file_bytes.max(batch + file::FRAMES_AT);
        let disk = &self.options.disk;
        let made = LogFile::create(disk.as_ref(), &path, id, number, base, bytes);
        let made = made.and_then(|file| {
            if named {
                disk.sync_dir(&self.dir)?;
            }
            Ok(file)
        });
        let file = made.map_err(|source| FollowError::io(&path, source))?;
        session.last_number = number;
        if let Some(full) = session.current.replace(file) {
            session.old.push(full.as_old());
        }
        Ok(())
    }

    /// Removes files that hold nothing but what the bucket has.
    fn trim(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        while session
            .old
            .first()
            .is_some_and(|old| old.end <= session.bundled.lsn)
        {
            let old = session.old.remove(0);
            if let Err(error) = self.options.disk.remove(&old.path) {
                tracing::warn!(path = %old.path.display(), %error, "a follower log that is not needed any more cannot be removed");
            }
        }
    }

    fn sabotages_sync(&self) -> bool {
        #[cfg(test)]
        return self.options.sabotage == Sabotage::AcknowledgeBeforeSync;
        #[cfg(not(test))]
        false
    }
}

/// Session and number of a log file; without a number, of a seal.
fn parse_name(name: &str) -> Option<(SessionId, Option<u64>)> {
    let (session, rest) = name.split_once('.')?;
    let session = SessionId::from_hex(session)?;
    if rest == "sealed" {
        return Some((session, None));
    }
    let number = rest.strip_suffix(".log")?.parse().ok()?;
    Some((session, Some(number)))
}

fn check_batch(id: SessionId, end: Lsn, records: &[RawRecord]) -> Result<(), FollowError> {
    let refused = |why| Err(FollowError::BadBatch { session: id, why });
    let mut next = end.next();
    for record in records {
        if record.lsn != next {
            return refused("its records do not follow on what is there");
        }
        if record.head.is_empty() {
            return refused("a record without a head");
        }
        if record.head.len() + record.segment.len() > RECORD_MAX_BYTES {
            return refused("a record that is longer than 256 MiB");
        }
        next = next.next();
    }
    Ok(())
}
