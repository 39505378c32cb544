//! A directory as a bucket.
//!
//! An object `a/b` is the file `a/b~`. The mark `~` is in no key, so an object and a directory of
//! one name do not collide, and files that are not ours are not objects. `~tmp` holds files that
//! are being written, `~locks` the locks of conditional writers.
//!
//! A file is written aside, flushed, and then linked or renamed into place, so that it is seen
//! whole or not at all whatever dies; then its directory is flushed. A create is decided by
//! `link(2)`; everything else that changes a key holds the key's lock, which processes respect
//! too.
//!
//! Others may see an object between its renaming and the flush of its directory. Only a power
//! failure right then undoes it; whoever overwrites it by its tag flushes the same directory.

mod frame;
mod lock;
mod walk;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::bucket::{
    Answer, Bucket, BucketError, Condition, Etag, Listing, Object, Operation, PutOutcome,
};
use crate::key::{Key, check_prefix};
use frame::{HEADER_BYTES, Header};
use lock::Locks;

/// Ends the file name of every object, and begins the names of our own directories.
const MARK: char = '~';

/// A file in `~tmp` of this age has no writer any more.
const TEMP_AGE: Duration = Duration::from_secs(3_600);

/// A parent directory may be removed, as empty, between making it and using it; more often than
/// this in a row it is not by accident.
const PLACE_TRIES: usize = 16;

/// Directories that are remembered as flushed. Over this the memory starts anew.
const FLUSHED_MAX: usize = 4_096;

/// A bucket in a directory of this machine, safe between processes and against crashes.
///
/// The asynchronous operations of [`Bucket`] run the `_sync` ones on tokio's blocking threads.
#[derive(Clone, Debug)]
pub struct LocalBucket {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    temp: PathBuf,
    locks: Locks,
    temp_count: AtomicU64,
    /// Directories whose own entry, and those above them, are on disk: path to inode.
    flushed: Mutex<HashMap<PathBuf, u64>>,
}

/// A directory cannot serve as a bucket.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} as a bucket directory: {source}", dir.display())]
pub struct OpenError {
    /// The directory.
    pub dir: PathBuf,
    /// What went wrong.
    pub source: io::Error,
}

impl LocalBucket {
    /// Opens the bucket in `dir`, making the directory where it does not exist.
    ///
    /// Clears away what writers that died have left behind over an hour ago.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        Self::open_io(dir).map_err(|source| OpenError {
            dir: dir.to_owned(),
            source,
        })
    }

    fn open_io(dir: &Path) -> io::Result<Self> {
        let root = std::path::absolute(dir)?;
        let temp = root.join(format!("{MARK}tmp"));
        let locks = root.join(format!("{MARK}locks"));
        fs::create_dir_all(&temp)?;
        fs::create_dir_all(&locks)?;
        let bucket = Self {
            inner: Arc::new(Inner {
                temp,
                locks: Locks::new(locks),
                temp_count: AtomicU64::new(0),
                flushed: Mutex::new(HashMap::new()),
                root,
            }),
        };
        bucket.inner.clear_old_temps()?;
        bucket.inner.flush_root()?;
        Ok(bucket)
    }

    /// The directory, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.inner.root
    }

    /// [`Bucket::get`] on this thread.
    pub fn get_sync(&self, key: &Key) -> Result<Option<Object>, BucketError> {
        let Some((mut file, header)) = self.inner.open_object(key, Operation::Get)? else {
            return Ok(None);
        };
        let mut bytes = Vec::with_capacity(header.length as usize);
        file.read_to_end(&mut bytes)
            .map_err(|error| definite(Operation::Get, key.as_str(), error))?;
        if Header::describe(&bytes, header.nonce) != header {
            return Err(self.inner.damaged(key, "content whose checksum is wrong"));
        }
        Ok(Some(Object {
            bytes: bytes.into(),
            etag: header.etag(),
        }))
    }

    /// [`Bucket::get_range`] on this thread.
    pub fn get_range_sync(
        &self,
        key: &Key,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, BucketError> {
        let Some((file, header)) = self.inner.open_object(key, Operation::GetRange)? else {
            return Ok(None);
        };
        let end = range.end.min(header.length);
        let length = end.saturating_sub(range.start) as usize;
        let mut bytes = vec![0; length];
        if length > 0 {
            file.read_exact_at(&mut bytes, range.start + HEADER_BYTES as u64)
                .map_err(|error| definite(Operation::GetRange, key.as_str(), error))?;
        }
        Ok(Some(bytes.into()))
    }

    /// [`Bucket::put`] on this thread.
    pub fn put_sync(
        &self,
        key: &Key,
        bytes: &[u8],
        condition: &Condition,
    ) -> Result<PutOutcome, BucketError> {
        let inner = &*self.inner;
        let before = |error: io::Error| definite(Operation::Put, key.as_str(), error);
        // A conflict that shows before anything is written costs no flush.
        if !inner.condition_holds(key, condition)? {
            return Ok(PutOutcome::Conflict);
        }
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| before(io::Error::other(error)))?;
        let header = Header::describe(bytes, u128::from_le_bytes(nonce));
        let temp = inner.write_temp(&header, bytes).map_err(before)?;
        let target = inner.path_of(key);
        if *condition == Condition::IfAbsent {
            match inner.place(&target, || fs::hard_link(&temp.0, &target)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Ok(PutOutcome::Conflict);
                }
                Err(error) => return Err(before(error)),
            }
        } else {
            let _held = inner.locks.lock(key).map_err(before)?;
            if !inner.condition_holds(key, condition)? {
                return Ok(PutOutcome::Conflict);
            }
            inner
                .place(&target, || fs::rename(&temp.0, &target))
                .map_err(before)?;
        }
        drop(temp);
        inner
            .flush_parents(&target)
            .map_err(|error| ambiguous(Operation::Put, key, error))?;
        Ok(PutOutcome::Done(header.etag()))
    }

    /// [`Bucket::delete`] on this thread.
    pub fn delete_sync(&self, key: &Key) -> Result<(), BucketError> {
        let inner = &*self.inner;
        let target = inner.path_of(key);
        let _held = inner
            .locks
            .lock(key)
            .map_err(|error| definite(Operation::Delete, key.as_str(), error))?;
        match fs::remove_file(&target) {
            Ok(()) => {}
            Err(error) if io_not_found(&error) => return Ok(()),
            Err(error) => return Err(definite(Operation::Delete, key.as_str(), error)),
        }
        inner
            .flush_removal(&target)
            .map_err(|error| ambiguous(Operation::Delete, key, error))
    }

    /// [`Bucket::list`] on this thread. Its cost grows with the directories that it has to read.
    pub fn list_sync(
        &self,
        prefix: &str,
        start_after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, BucketError> {
        check_prefix(prefix)?;
        start_after.map_or(Ok(()), check_prefix)?;
        let walk = walk::Walk {
            prefix,
            start_after,
            limit: limit.min(crate::LIST_MAX),
        };
        walk.run(&self.inner.root)
            .map_err(|error| definite(Operation::List, prefix, error))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        operation: Operation,
        key: &str,
        work: impl FnOnce(&Self) -> Result<T, BucketError> + Send + 'static,
    ) -> Result<T, BucketError> {
        let this = self.clone();
        match tokio::task::spawn_blocking(move || work(&this)).await {
            Ok(result) => result,
            Err(lost) => Err(BucketError::Ambiguous {
                operation,
                key: key.to_owned(),
                cause: Box::new(lost),
            }),
        }
    }
}

impl Bucket for LocalBucket {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Object>> {
        let owned = key.clone();
        Box::pin(self.blocking(Operation::Get, key.as_str(), move |this| {
            this.get_sync(&owned)
        }))
    }

    fn get_range<'a>(&'a self, key: &'a Key, range: Range<u64>) -> Answer<'a, Option<Bytes>> {
        let owned = key.clone();
        Box::pin(
            self.blocking(Operation::GetRange, key.as_str(), move |this| {
                this.get_range_sync(&owned, range)
            }),
        )
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        condition: Condition,
    ) -> Answer<'a, PutOutcome> {
        let owned = key.clone();
        Box::pin(self.blocking(Operation::Put, key.as_str(), move |this| {
            this.put_sync(&owned, &bytes, &condition)
        }))
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Answer<'a, ()> {
        let owned = key.clone();
        Box::pin(self.blocking(Operation::Delete, key.as_str(), move |this| {
            this.delete_sync(&owned)
        }))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        start_after: Option<&'a str>,
        limit: usize,
    ) -> Answer<'a, Listing> {
        let owned = prefix.to_owned();
        let after = start_after.map(str::to_owned);
        Box::pin(self.blocking(Operation::List, prefix, move |this| {
            this.list_sync(&owned, after.as_deref(), limit)
        }))
    }
}

/// A file in `~tmp`, removed when dropped. After a rename there is nothing to remove.
struct Temp(PathBuf);

impl Drop for Temp {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0)
            && !io_not_found(&error)
        {
            tracing::warn!(file = %self.0.display(), %error, "cannot remove a temporary file; it is cleared at a later start");
        }
    }
}

impl Inner {
    fn path_of(&self, key: &Key) -> PathBuf {
        self.root.join(format!("{key}{MARK}"))
    }

    fn damaged(&self, key: &Key, what: &'static str) -> BucketError {
        BucketError::Damaged {
            key: key.clone(),
            what,
            place: self.path_of(key).display().to_string(),
        }
    }

    /// Opens an object's file, positioned at its content.
    fn open_object(
        &self,
        key: &Key,
        operation: Operation,
    ) -> Result<Option<(File, Header)>, BucketError> {
        let failed = |error| definite(operation, key.as_str(), error);
        let mut file = match File::open(self.path_of(key)) {
            Ok(file) => file,
            Err(error) if io_not_found(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let length = file.metadata().map_err(failed)?.len();
        let mut raw = Vec::with_capacity(HEADER_BYTES);
        (&mut file)
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut raw)
            .map_err(failed)?;
        let header = Header::decode(&raw, length).map_err(|what| self.damaged(key, what))?;
        Ok(Some((file, header)))
    }

    fn etag_of(&self, key: &Key) -> Result<Option<Etag>, BucketError> {
        Ok(self
            .open_object(key, Operation::Put)?
            .map(|(_, header)| header.etag()))
    }

    /// For a create this is a hint: `link(2)` has the last word.
    ///
    /// A file that is damaged, or of a later format, is an error even where nothing is asked of
    /// it, so that nothing unknown is overwritten.
    fn condition_holds(&self, key: &Key, condition: &Condition) -> Result<bool, BucketError> {
        Ok(match condition {
            Condition::None => self.etag_of(key).map(|_| true)?,
            Condition::IfAbsent => !self.path_of(key).exists(),
            Condition::IfMatch(wanted) => self.etag_of(key)?.as_ref() == Some(wanted),
        })
    }

    /// Writes and flushes a file that no one sees yet.
    fn write_temp(&self, header: &Header, content: &[u8]) -> io::Result<Temp> {
        let count = self.temp_count.fetch_add(1, Ordering::Relaxed);
        let name = format!(
            "{}-{count}-{:016x}",
            std::process::id(),
            header.nonce as u64
        );
        let path = self.temp.join(name);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        let temp = Temp(path);
        file.write_all(&header.encode())?;
        file.write_all(content)?;
        file.sync_data()?;
        Ok(temp)
    }

    /// Runs `act`, making the target's parent directories where they lack.
    fn place(&self, target: &Path, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut result = act();
        for _ in 0..PLACE_TRIES {
            match &result {
                Err(error) if io_not_found(error) => {}
                _ => return result,
            }
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            result = act();
        }
        result
    }

    /// Makes the target's entry durable, and those of the directories that lead to it.
    fn flush_parents(&self, target: &Path) -> io::Result<()> {
        let mut flushed = Vec::new();
        let mut dir = target.parent().unwrap_or(&self.root);
        loop {
            let inode = match sync_dir(dir) {
                Ok(inode) => inode,
                // Someone has deleted the object since, and its directory with it.
                Err(error) if io_not_found(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            if dir == self.root || self.is_flushed(dir, inode) {
                break;
            }
            flushed.push((dir.to_owned(), inode));
            dir = dir.parent().unwrap_or(&self.root);
        }
        self.remember_flushed(flushed);
        Ok(())
    }

    /// True when the directories above `dir` are on disk: it is the same directory (not one made
    /// anew under its name) that was flushed together with them.
    fn is_flushed(&self, dir: &Path, inode: u64) -> bool {
        self.flushed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(dir)
            == Some(&inode)
    }

    /// Notes directories that were flushed up to the root.
    fn remember_flushed(&self, dirs: Vec<(PathBuf, u64)>) {
        if dirs.is_empty() {
            return;
        }
        let mut flushed = self.flushed.lock().unwrap_or_else(PoisonError::into_inner);
        if flushed.len() + dirs.len() > FLUSHED_MAX {
            flushed.clear();
        }
        flushed.extend(dirs);
    }

    /// Makes a removal durable, and removes directories that it left empty.
    fn flush_removal(&self, target: &Path) -> io::Result<()> {
        let mut dir = target.parent().unwrap_or(&self.root);
        while dir != self.root && fs::remove_dir(dir).is_ok() {
            dir = dir.parent().unwrap_or(&self.root);
        }
        match sync_dir(dir) {
            Err(error) if io_not_found(&error) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn flush_root(&self) -> io::Result<()> {
        sync_dir(&self.root)?;
        if let Some(above) = self.root.parent() {
            sync_dir(above)?;
        }
        Ok(())
    }

    fn clear_old_temps(&self) -> io::Result<()> {
        for item in fs::read_dir(&self.temp)? {
            let item = item?;
            let age = item
                .metadata()
                .and_then(|meta| meta.modified())
                .map(|at| at.elapsed().unwrap_or_default());
            if age.is_ok_and(|age| age > TEMP_AGE) {
                drop(Temp(item.path()));
            }
        }
        Ok(())
    }
}

/// Flushes a directory's entries; its inode.
fn sync_dir(dir: &Path) -> io::Result<u64> {
    let dir = File::open(dir)?;
    dir.sync_all()?;
    Ok(dir.metadata()?.ino())
}

/// A path leads nowhere, be it that a directory on the way lacks or is a file.
fn io_not_found(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn definite(operation: Operation, key: &str, error: io::Error) -> BucketError {
    BucketError::Definite {
        operation,
        key: key.to_owned(),
        cause: Box::new(error),
    }
}

fn ambiguous(operation: Operation, key: &Key, error: io::Error) -> BucketError {
    BucketError::Ambiguous {
        operation,
        key: key.to_string(),
        cause: Box::new(error),
    }
}
