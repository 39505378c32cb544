//! The cell's database as a whole: creation, transactions, commit, snapshot, parking.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use celld_core::Txid;

use crate::accounting::Indexes;
use crate::cache::StatementCache;
use crate::capture;
use crate::conn::{Handle, InterruptHandle, ProgressHook};
use crate::cursor::{CursorEnd, Cursors};
use crate::error::{SqlError, StorageError};
use crate::format::{self, Chain, PAGE, SegmentPages};
use crate::image::{Image, remove_wal, restore};
use crate::options::OpenOptions;
use crate::stmt::Stmt;
use crate::transaction::Depth;

/// What a commit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number.
    pub txid: Txid,
    /// The changed pages, for the node log.
    pub segment: Bytes,
    /// The cell's alarm after the commit, in milliseconds since 1970.
    pub alarm_ms: Option<i64>,
}

/// The engine's own statements, compiled at first use and kept while the connection is open.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Fixed {
    Begin,
    Commit,
    Rollback,
    KvGet,
    KvPut,
    KvDelete,
    AlarmGet,
    AlarmPut,
    PageCount,
    FreePages,
}

const FIXED: [&str; 10] = [
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SELECT value FROM _cf_KV WHERE key = ?1",
    "INSERT INTO _cf_KV VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
    "DELETE FROM _cf_KV WHERE key = ?1",
    "SELECT value FROM _cf_METADATA WHERE key = 1",
    "INSERT INTO _cf_METADATA VALUES (1, ?1) ON CONFLICT DO UPDATE SET value = excluded.value",
    "PRAGMA page_count",
    "PRAGMA freelist_count",
];

/// What exists while the connection is open.
pub(crate) struct Open {
    pub conn: Rc<Handle>,
    fixed: [Option<Stmt>; FIXED.len()],
    /// Statements of the script.
    pub cache: StatementCache,
    /// Statements of the engine. Apart, so that no text of a script can find one.
    pub trusted_cache: StatementCache,
    pub indexes: Indexes,
    /// WAL frames that are in segments already.
    pub captured_frames: u32,
}

/// One cell's database.
///
/// A write opens the implicit transaction, which [`CellDb::commit`] ends; reads see it. The
/// connection opens at first use and [`CellDb::park`] closes it. `Send`, not `Sync`.
pub struct CellDb {
    pub(crate) path: PathBuf,
    pub(crate) options: OpenOptions,
    pub(crate) open: Option<Box<Open>>,
    pub(crate) cursors: Cursors,
    pub(crate) txid: Txid,
    pub(crate) chain: Chain,
    pub(crate) in_transaction: bool,
    pub(crate) depth: Depth,
    pub(crate) poisoned: Option<String>,
    /// The alarm, once it was read.
    pub(crate) alarm: Option<Option<i64>>,
    pub(crate) shrink: bool,
    interrupt: InterruptHandle,
    progress: Option<(u32, ProgressHook)>,
    /// What the script set by pragma, to set it again on the next connection.
    settings: BTreeMap<String, String>,
}

// SAFETY: the connection is opened without SQLite's own mutex, so at most one thread may use it
// at a time. Every reference-counted handle and every statement is private to this value and
// moves with it, and all use needs `&self` or `&mut self` of a type that is not `Sync`.
unsafe impl Send for CellDb {}

impl std::fmt::Debug for CellDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellDb")
            .field("path", &self.path)
            .field("txid", &self.txid)
            .field("open", &self.open.is_some())
            .finish_non_exhaustive()
    }
}

impl CellDb {
    /// Writes the working file from `image`, replacing what is there. Checks checksums, format
    /// versions, and that transactions follow each other without a gap.
    ///
    /// The connection is opened at first use.
    pub fn create(
        path: &Path,
        options: OpenOptions,
        image: Image<'_>,
    ) -> Result<Self, StorageError> {
        let (txid, chain) = restore(path, &image)?;
        Ok(Self {
            path: path.to_owned(),
            options,
            open: None,
            cursors: Cursors::default(),
            txid,
            chain,
            in_transaction: false,
            depth: 0,
            poisoned: None,
            alarm: None,
            shrink: false,
            interrupt: InterruptHandle::default(),
            progress: None,
            settings: BTreeMap::new(),
        })
    }

    /// Number of the last commit.
    pub fn txid(&self) -> Txid {
        self.txid
    }

    /// True when there is something that [`CellDb::commit`] would have to end.
    pub fn is_dirty(&self) -> bool {
        self.in_transaction
            || self
                .open
                .as_ref()
                .is_some_and(|open| open.conn.hooks.wal_frames.get() > open.captured_frames)
    }

    /// True while the connection is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Stops running statements from another thread.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.interrupt.clone()
    }

    /// Calls `hook` about every `every_steps` instructions of SQLite's virtual machine; when it
    /// answers true, the statement ends as if interrupted. The hook must not use this database.
    pub fn set_progress_hook(&mut self, every_steps: u32, hook: Option<ProgressHook>) {
        match &self.open {
            Some(open) => open.conn.set_progress(every_steps, hook),
            None => self.progress = hook.map(|hook| (every_steps, hook)),
        }
    }

    /// Heap of the open connection, in bytes: page cache, schema, statements.
    pub fn memory_bytes(&self) -> u64 {
        self.open
            .as_ref()
            .map_or(0, |open| open.conn.memory_bytes())
    }

    pub(crate) fn opened(&mut self) -> Result<&mut Open, StorageError> {
        if self.open.is_none() {
            let conn = Handle::open(Some(&self.path), &self.options, &self.interrupt)?;
            if let Some((every, hook)) = self.progress.take() {
                conn.set_progress(every, Some(hook));
            }
            for (name, value) in &self.settings {
                let value = value.replace('\'', "''");
                conn.run_trusted(&format!("PRAGMA {name}='{value}'"))?;
            }
            self.open = Some(Box::new(Open {
                conn,
                fixed: Default::default(),
                cache: StatementCache::default(),
                trusted_cache: StatementCache::default(),
                indexes: Indexes::default(),
                captured_frames: 0,
            }));
        }
        Ok(self.open.as_mut().expect("it was opened above"))
    }

    /// Runs one of the engine's statements; `row` sees its first row.
    pub(crate) fn run_fixed<R>(
        &mut self,
        which: Fixed,
        bind: impl FnOnce(&mut Stmt) -> Result<(), SqlError>,
        row: impl FnOnce(&Stmt) -> R,
    ) -> Result<Option<R>, StorageError> {
        let open = self.opened()?;
        let slot = &mut open.fixed[which as usize];
        let stmt = match slot {
            Some(stmt) => stmt,
            None => slot.insert(Stmt::trusted(&open.conn, FIXED[which as usize])?),
        };
        let result = bind(stmt).and_then(|()| stmt.step());
        let answer = matches!(result, Ok(true)).then(|| row(stmt));
        stmt.reset();
        match result {
            Ok(_) => Ok(answer),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Keeps what a statement set for the connection. Inside a transaction SQLite ignores
    /// `foreign_keys`, so that it is not kept then either.
    pub(crate) fn keep_setting(&mut self, setting: Option<&(String, String)>) {
        if let Some((name, value)) = setting
            && !(self.in_transaction && name == "foreign_keys")
        {
            self.settings.insert(name.clone(), value.clone());
        }
    }

    /// Commits the implicit transaction and answers what it changed; `None` when it changed
    /// nothing, or while a nested transaction is open (then it goes on).
    ///
    /// After an error the cell must be reset: nothing was committed, or (errors of the capture)
    /// the working file holds a commit that no segment carries, and every later commit fails.
    pub fn commit(&mut self) -> Result<Option<Committed>, StorageError> {
        if let Some(cause) = &self.poisoned {
            return Err(StorageError::Poisoned {
                cause: cause.clone(),
            });
        }
        if self.depth > 0 || !self.is_dirty() {
            return Ok(None);
        }
        if self.in_transaction {
            match self.run_fixed(Fixed::Commit, |_| Ok(()), |_| ()) {
                Err(StorageError::Sql(error)) if error.is_constraint() => {
                    return Err(StorageError::Violated(error));
                }
                other => other?,
            };
            self.in_transaction = false;
        }
        let answer = self.capture();
        if let Err(error) = &answer {
            self.poisoned = Some(error.to_string());
        }
        answer
    }

    fn capture(&mut self) -> Result<Option<Committed>, StorageError> {
        if self.shrink && self.cursors.live() == 0 {
            self.shrink = false;
            if let Err(error) = self.opened()?.conn.run_trusted("VACUUM") {
                tracing::warn!(path = %self.path.display(), %error, "cannot shrink a cleared database");
            }
        }
        let txid = self.txid.next();
        let first = self.txid == Txid::new(0);
        let limit_bytes = self.options.commit_max_bytes;
        let open = self.opened()?;
        let frames = open.conn.hooks.wal_frames.get();
        if frames == open.captured_frames {
            return Ok(None);
        }
        let bytes = u64::from(frames - open.captured_frames) * PAGE as u64;
        if bytes > limit_bytes {
            return Err(StorageError::CommitTooLarge {
                limit_bytes,
                size_bytes: bytes,
            });
        }
        let mut pages = capture::read_frames(&open.conn, open.captured_frames, frames, txid)?;
        open.captured_frames = frames;
        if first {
            // The first segment holds every page, so that a history needs no template, which
            // another version may build differently.
            pages = self.whole(frames)?;
        }
        let (segment, chain) = format::write_segment(&SegmentPages {
            txid,
            before: self.chain,
            db_pages: pages.db_pages,
            full: first,
            numbers: &pages.numbers,
            contents: &pages.contents,
        });
        self.txid = txid;
        self.chain = chain;
        self.checkpoint_if_large()?;
        let alarm_ms = self.get_alarm()?;
        Ok(Some(Committed {
            txid,
            segment,
            alarm_ms,
        }))
    }

    /// Empties the WAL when it is large. Open cursors prevent that; when it is very large, they
    /// are ended, because the log of a cell must not grow as long as a script forgets a cursor.
    fn checkpoint_if_large(&mut self) -> Result<(), StorageError> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        let bytes = u64::from(open.captured_frames) * PAGE as u64;
        if bytes > self.options.wal_max_bytes {
            self.cursors.end_live(CursorEnd::TooOld);
        }
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        if bytes > self.options.wal_checkpoint_bytes && open.conn.checkpoint()? {
            open.captured_frames = 0;
            open.conn.hooks.wal_frames.set(0);
        }
        Ok(())
    }

    /// Closes the connection and keeps the file; the next use opens it again. Cursors end.
    ///
    /// Fails without effect while there is something to commit.
    pub fn park(&mut self) -> Result<(), StorageError> {
        if self.is_dirty() {
            return Err(StorageError::ParkWhileDirty);
        }
        self.cursors.clear(CursorEnd::Closed);
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        open.cache.clear();
        open.trusted_cache.clear();
        open.fixed = Default::default();
        self.progress = open.conn.take_progress();
        // Closing moves the WAL into the file. Doing it here shows the error if that fails.
        let moved = open.conn.checkpoint();
        drop(open);
        moved.map(|_| ())
    }

    /// Closes the database and removes its files. Uncommitted changes are gone.
    pub fn destroy(mut self) -> Result<(), StorageError> {
        self.cursors.clear(CursorEnd::Closed);
        if let Some(open) = self.open.take() {
            open.conn.keep_wal_on_close();
        }
        remove_wal(&self.path)?;
        std::fs::remove_file(&self.path).map_err(|source| self.io("remove", source))
    }

    /// Bytes of the database without its free pages, as `sql.databaseSize` has it.
    pub fn database_size(&mut self) -> Result<u64, StorageError> {
        let mut count = |which| {
            let value = self.run_fixed(which, |_| Ok(()), |stmt| stmt.integer(0))?;
            Ok::<_, StorageError>(value.flatten().unwrap_or(0))
        };
        let used = count(Fixed::PageCount)? - count(Fixed::FreePages)?;
        Ok(u64::try_from(used).unwrap_or(0) * PAGE as u64)
    }

    /// The alarm, in milliseconds since 1970.
    pub fn get_alarm(&mut self) -> Result<Option<i64>, StorageError> {
        if let Some(alarm) = self.alarm {
            return Ok(alarm);
        }
        let alarm = self.run_fixed(Fixed::AlarmGet, |_| Ok(()), |stmt| stmt.integer(0))?;
        let alarm = alarm.flatten();
        self.alarm = Some(alarm);
        Ok(alarm)
    }

    /// Sets or clears the alarm, as a part of the implicit transaction.
    pub fn set_alarm(&mut self, alarm_ms: Option<i64>) -> Result<(), StorageError> {
        if self.get_alarm()? == alarm_ms {
            return Ok(());
        }
        self.ensure_transaction()?;
        let bind = |stmt: &mut Stmt| match alarm_ms {
            Some(ms) => stmt.bind_i64(1, ms),
            None => stmt.bind_null(1),
        };
        self.run_fixed(Fixed::AlarmPut, bind, |_| ())?;
        self.alarm = Some(alarm_ms);
        Ok(())
    }

    pub(crate) fn shrink_at_commit(&mut self) {
        self.shrink = true;
    }
}

impl Drop for CellDb {
    fn drop(&mut self) {
        // The file is scratch: moving the WAL into it would be work for nothing.
        self.cursors.clear(CursorEnd::Closed);
        if let Some(open) = self.open.take() {
            open.conn.keep_wal_on_close();
        }
    }
}
