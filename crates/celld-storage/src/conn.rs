//! One SQLite connection: opening, limits, the authorizer, interrupts, and raw reads of the WAL.
//!
//! Together with [`crate::stmt`] and [`crate::math`] this is the only module that calls SQLite. A connection lives
//! until its last statement is gone ([`Handle`] is shared by reference count), so no order of
//! drops can leave a statement behind without its connection.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, Once};

use rusqlite::ffi;

use crate::authorizer::{Action, MODULES, Traits};
use crate::error::{SqlError, StorageError, extended_name, primary_name};
use crate::math;
use crate::options::OpenOptions;

/// Called every so many virtual-machine steps; `true` stops the statement.
pub type ProgressHook = Box<dyn FnMut() -> bool + Send>;

/// What the callbacks of a connection read and write.
#[derive(Default)]
pub(crate) struct Hooks {
    /// The engine's own statement is being compiled or run: the authorizer allows everything.
    pub trusted: Cell<bool>,
    /// What the authorizer noticed about the script's statement that is being compiled.
    pub traits: RefCell<Traits>,
    /// Frames in the WAL after the last commit; 0 when no commit wrote any since it was cleared.
    pub wal_frames: Cell<u32>,
    progress: RefCell<Option<(u32, ProgressHook)>>,
}

/// The connection itself. Closed when the last owner drops it.
pub(crate) struct Handle {
    db: *mut ffi::sqlite3,
    pub hooks: Box<Hooks>,
    interrupt: InterruptHandle,
}

/// Stops the statement that a cell's database is running, from any thread.
///
/// The statement ends with `interrupted: SQLITE_INTERRUPT`
/// ([`StorageError::is_interrupt`]). Without a running statement nothing happens. The handle
/// stays valid when the database is parked, opened again, or dropped.
#[derive(Clone, Debug, Default)]
pub struct InterruptHandle(Arc<Mutex<RawDb>>);

#[derive(Debug)]
struct RawDb(*mut ffi::sqlite3);

impl Default for RawDb {
    fn default() -> Self {
        Self(ptr::null_mut())
    }
}

// SAFETY: the pointer is only passed to sqlite3_interrupt, which may be called from any thread,
// and only while the mutex is held; `Handle::drop` nulls it under the same mutex before closing.
unsafe impl Send for RawDb {}

impl InterruptHandle {
    /// Stops whatever statement runs.
    pub fn interrupt(&self) {
        let guard = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if !guard.0.is_null() {
            // SAFETY: non-null means that the connection is open (see `RawDb`).
            unsafe { ffi::sqlite3_interrupt(guard.0) };
        }
    }

    fn set(&self, db: *mut ffi::sqlite3) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).0 = db;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.interrupt.set(ptr::null_mut());
        // SAFETY: every statement holds a reference to this handle, so none is left, and
        // nothing uses the pointer afterwards.
        let rc = unsafe { ffi::sqlite3_close(self.db) };
        debug_assert_eq!(rc, ffi::SQLITE_OK, "a statement outlived its connection");
    }
}

/// Process-wide settings; must come before SQLite's first use.
fn configure_process() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: called once, before any connection of this crate exists. If another user of
        // SQLite in the process was faster, SQLite answers MISUSE and keeps its settings.
        unsafe {
            // Allocation statistics cost a process-wide mutex on every allocation.
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
        }
    });
}

impl Handle {
    /// Opens `path` (or an in-memory database for `None`) and applies limits and settings.
    pub fn open(
        path: Option<&Path>,
        options: &OpenOptions,
        interrupt: &InterruptHandle,
    ) -> Result<Rc<Self>, StorageError> {
        configure_process();
        let name = match path {
            Some(path) => CString::new(path.as_os_str().as_bytes()).map_err(|_| SqlError {
                code: ffi::SQLITE_CANTOPEN,
                message: "the path of a cell's database contains a NUL byte".into(),
                critical: true,
            })?,
            None => c":memory:".to_owned(),
        };
        let mut db = ptr::null_mut();
        let flags = ffi::SQLITE_OPEN_READWRITE
            | ffi::SQLITE_OPEN_NOMUTEX
            | ffi::SQLITE_OPEN_EXRESCODE
            | if path.is_none() {
                ffi::SQLITE_OPEN_CREATE
            } else {
                0
            };
        // The cell is the file's only user, so the VFS without locks spares their system calls.
        let vfs = if path.is_some() {
            c"unix-none".as_ptr()
        } else {
            ptr::null()
        };
        // SAFETY: `name` and the VFS name are NUL-terminated and outlive the call.
        let rc = unsafe { ffi::sqlite3_open_v2(name.as_ptr(), &mut db, flags, vfs) };
        if db.is_null() {
            return Err(SqlError {
                code: ffi::SQLITE_NOMEM,
                message: "out of memory: SQLITE_NOMEM".into(),
                critical: true,
            }
            .into());
        }
        let handle = Rc::new(Self {
            db,
            hooks: Box::default(),
            interrupt: interrupt.clone(),
        });
        if rc != ffi::SQLITE_OK {
            return Err(handle.error(rc).into());
        }
        handle.set_up(options)?;
        handle.interrupt.set(db);
        Ok(handle)
    }

    fn set_up(&self, options: &OpenOptions) -> Result<(), StorageError> {
        let hooks: *const Hooks = &*self.hooks;
        let hooks = hooks.cast_mut().cast::<c_void>();
        let mut keep: Vec<*const c_char> = MODULES.iter().map(|name| name.as_ptr()).collect();
        keep.push(ptr::null());
        // SAFETY: `db` is open. `hooks` is boxed and lives as long as the handle, so longer than
        // any callback. `keep` is a null-terminated array of C strings. The variadic arguments
        // have the types that sqlite3_db_config documents for each verb.
        unsafe {
            for (limit, value) in options.sqlite_limits() {
                ffi::sqlite3_limit(self.db, limit, value);
            }
            ffi::sqlite3_db_config(
                self.db,
                ffi::SQLITE_DBCONFIG_LOOKASIDE,
                ptr::null_mut::<c_void>(),
                options.lookaside_slot_bytes as c_int,
                options.lookaside_slots as c_int,
            );
            let none = ptr::null_mut::<c_int>();
            for (verb, on) in [
                (ffi::SQLITE_DBCONFIG_DEFENSIVE, 1),
                (ffi::SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
                (ffi::SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0),
            ] {
                ffi::sqlite3_db_config(self.db, verb, on as c_int, none);
            }
            math::register(self.db);
            ffi::sqlite3_drop_modules(self.db, keep.as_mut_ptr());
            ffi::sqlite3_set_authorizer(self.db, Some(on_authorize), hooks);
            ffi::sqlite3_wal_hook(self.db, Some(on_wal_commit), hooks);
        }
        let pages = -(i64::try_from(options.page_cache_bytes).unwrap_or(i64::MAX) / 1024).max(16);
        self.run_trusted(&format!(
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF; PRAGMA cache_size={pages};\
             PRAGMA max_page_count={};",
            options.max_database_bytes / u64::from(crate::format::PAGE_SIZE)
        ))
    }

    /// Runs the engine's own statements, which return nothing of interest.
    pub fn run_trusted(&self, sql: &str) -> Result<(), StorageError> {
        let text = CString::new(sql).expect("the engine's own SQL has no NUL bytes");
        let before = self.hooks.trusted.replace(true);
        // SAFETY: `db` is open and `text` is NUL-terminated.
        let rc = unsafe {
            ffi::sqlite3_exec(
                self.db,
                text.as_ptr(),
                None,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let result = self.check(rc);
        self.hooks.trusted.set(before);
        Ok(result?)
    }

    pub(crate) fn raw(&self) -> *mut ffi::sqlite3 {
        self.db
    }

    /// True when no transaction is open.
    pub fn autocommit(&self) -> bool {
        // SAFETY: `db` is open.
        unsafe { ffi::sqlite3_get_autocommit(self.db) != 0 }
    }

    /// Rows changed since the connection was opened, foreign-key actions and triggers included.
    pub fn total_changes(&self) -> u64 {
        // SAFETY: `db` is open.
        u64::try_from(unsafe { ffi::sqlite3_total_changes64(self.db) }).unwrap_or(0)
    }

    /// Rowid of the last insert.
    pub fn last_insert_rowid(&self) -> i64 {
        // SAFETY: `db` is open.
        unsafe { ffi::sqlite3_last_insert_rowid(self.db) }
    }

    /// Bytes of heap that the connection holds (page cache, schema, statements).
    pub fn memory_bytes(&self) -> u64 {
        [
            ffi::SQLITE_DBSTATUS_CACHE_USED,
            ffi::SQLITE_DBSTATUS_SCHEMA_USED,
            ffi::SQLITE_DBSTATUS_STMT_USED,
        ]
        .into_iter()
        .map(|verb| {
            let (mut current, mut high) = (0, 0);
            // SAFETY: `db` is open and the pointers are valid for the call.
            unsafe { ffi::sqlite3_db_status(self.db, verb, &mut current, &mut high, 0) };
            u64::try_from(current).unwrap_or(0)
        })
        .sum()
    }

    /// Installs or removes the progress hook.
    pub fn set_progress(&self, every_steps: u32, hook: Option<ProgressHook>) {
        let hooks: *const Hooks = &*self.hooks;
        let on = hook.is_some();
        *self.hooks.progress.borrow_mut() = hook.map(|hook| (every_steps, hook));
        let every = if on {
            c_int::try_from(every_steps.max(1)).unwrap_or(c_int::MAX)
        } else {
            0
        };
        // SAFETY: `db` is open; `hooks` lives as long as the handle.
        unsafe {
            ffi::sqlite3_progress_handler(
                self.db,
                every,
                on.then_some(on_progress as unsafe extern "C" fn(*mut c_void) -> c_int),
                hooks.cast_mut().cast(),
            );
        }
    }

    /// Removes the progress hook and answers it.
    pub fn take_progress(&self) -> Option<(u32, ProgressHook)> {
        let hook = self.hooks.progress.borrow_mut().take();
        self.set_progress(0, None);
        hook
    }

    /// Makes closing leave the WAL alone instead of moving it into the file.
    pub fn keep_wal_on_close(&self) {
        // SAFETY: `db` is open; the verb takes an int and an optional result pointer.
        unsafe {
            ffi::sqlite3_db_config(
                self.db,
                ffi::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
                1 as c_int,
                ptr::null_mut::<c_int>(),
            );
        }
    }

    /// Reads bytes of the WAL file through SQLite's own file handle.
    pub fn read_wal(&self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
        // SAFETY: for this verb SQLite stores a pointer to its open journal or WAL file, which
        // stays valid until the connection changes its journal; nothing runs in between. The
        // methods table is checked for null before use, and `into` is valid for its length.
        let rc = unsafe {
            ffi::sqlite3_file_control(
                self.db,
                c"main".as_ptr(),
                ffi::SQLITE_FCNTL_JOURNAL_POINTER,
                (&raw mut file).cast(),
            );
            match file
                .as_ref()
                .and_then(|f| f.pMethods.as_ref())
                .and_then(|m| m.xRead)
            {
                Some(read) => read(
                    file,
                    into.as_mut_ptr().cast(),
                    c_int::try_from(into.len()).unwrap_or(c_int::MAX),
                    i64::try_from(offset).unwrap_or(i64::MAX),
                ),
                None => ffi::SQLITE_CANTOPEN,
            }
        };
        if rc == ffi::SQLITE_OK {
            return Ok(());
        }
        Err(SqlError {
            code: rc,
            message: format!(
                "cannot read {} bytes at {offset} of the WAL: {}",
                into.len(),
                primary_name(rc)
            ),
            critical: true,
        }
        .into())
    }

    /// Moves the WAL into the database file and empties it. False when an open cursor prevents it.
    pub fn checkpoint(&self) -> Result<bool, StorageError> {
        let (mut in_log, mut moved) = (0, 0);
        // SAFETY: `db` is open and the pointers are valid for the call.
        let rc = unsafe {
            ffi::sqlite3_wal_checkpoint_v2(
                self.db,
                c"main".as_ptr(),
                ffi::SQLITE_CHECKPOINT_TRUNCATE,
                &mut in_log,
                &mut moved,
            )
        };
        match rc & 0xff {
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => Ok(false),
            _ => self.check(rc).map(|()| true).map_err(Into::into),
        }
    }

    /// Copies the whole database out (used for the template only).
    pub fn serialize(&self) -> Option<Vec<u8>> {
        let mut size = 0;
        // SQLite compiles a pragma for this.
        let before = self.hooks.trusted.replace(true);
        // SAFETY: `db` is open; the answer is null or a buffer of `size` bytes from SQLite's
        // allocator, which is copied and then freed.
        unsafe {
            let data = ffi::sqlite3_serialize(self.db, c"main".as_ptr(), &mut size, 0);
            self.hooks.trusted.set(before);
            if data.is_null() {
                return None;
            }
            let copy = std::slice::from_raw_parts(data, usize::try_from(size).ok()?).to_vec();
            ffi::sqlite3_free(data.cast());
            Some(copy)
        }
    }

    /// Makes the rowid of the last insert 0, as on a new connection.
    pub fn forget_last_insert(&self) {
        // SAFETY: `db` is open.
        unsafe { ffi::sqlite3_set_last_insert_rowid(self.db, 0) };
    }

    /// Turns a result code into an error.
    pub fn check(&self, rc: c_int) -> Result<(), SqlError> {
        match rc {
            ffi::SQLITE_OK | ffi::SQLITE_ROW | ffi::SQLITE_DONE => Ok(()),
            _ => Err(self.error(rc)),
        }
    }

    /// The connection's last error, in the form that scripts see.
    pub fn error(&self, rc: c_int) -> SqlError {
        // SAFETY: `db` is open; the text is valid until the next call on it and copied here.
        let (text, offset) = unsafe {
            let text = ffi::sqlite3_errmsg(self.db);
            let text = if text.is_null() {
                String::from("unknown error")
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            };
            (text, ffi::sqlite3_error_offset(self.db))
        };
        let mut message = text;
        if offset >= 0 {
            message.push_str(&format!(" at offset {offset}"));
        }
        message.push_str(": ");
        message.push_str(primary_name(rc));
        if let Some(extended) = extended_name(rc) {
            message.push_str(&format!(" (extended: {extended})"));
        }
        SqlError {
            code: rc,
            message,
            critical: matches!(
                rc & 0xff,
                ffi::SQLITE_FULL
                    | ffi::SQLITE_IOERR
                    | ffi::SQLITE_CORRUPT
                    | ffi::SQLITE_NOMEM
                    | ffi::SQLITE_NOTADB
                    | ffi::SQLITE_CANTOPEN
            ),
        }
    }
}

/// # Safety
/// `text` is null or a NUL-terminated string that lives as long as the caller uses the answer.
unsafe fn text_of<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise. A name that is not UTF-8 becomes one that no list holds.
    Some(
        unsafe { CStr::from_ptr(text) }
            .to_str()
            .unwrap_or("\u{fffd}"),
    )
}

unsafe extern "C" fn on_authorize(
    hooks: *mut c_void,
    code: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    _inner: *const c_char,
) -> c_int {
    // SAFETY: registered with a pointer to the handle's hooks, which outlive the connection.
    let hooks = unsafe { &*hooks.cast::<Hooks>() };
    if hooks.trusted.get() {
        return ffi::SQLITE_OK;
    }
    // SAFETY: SQLite passes null or C strings that live during this call.
    let (first, second, database) = unsafe { (text_of(first), text_of(second), text_of(database)) };
    let action = Action {
        code,
        first,
        second,
        database,
    };
    hooks.traits.borrow_mut().authorize(&action)
}

unsafe extern "C" fn on_wal_commit(
    hooks: *mut c_void,
    _db: *mut ffi::sqlite3,
    _name: *const c_char,
    frames: c_int,
) -> c_int {
    // SAFETY: registered with a pointer to the handle's hooks, which outlive the connection.
    let hooks = unsafe { &*hooks.cast::<Hooks>() };
    hooks.wal_frames.set(u32::try_from(frames).unwrap_or(0));
    ffi::SQLITE_OK
}

unsafe extern "C" fn on_progress(hooks: *mut c_void) -> c_int {
    // SAFETY: registered with a pointer to the handle's hooks, which outlive the connection.
    let hooks = unsafe { &*hooks.cast::<Hooks>() };
    // A hook that is busy (re-entered) or panics must not unwind into C.
    let Ok(mut hook) = hooks.progress.try_borrow_mut() else {
        return 0;
    };
    let Some((_, hook)) = hook.as_mut() else {
        return 0;
    };
    let stop = std::panic::catch_unwind(std::panic::AssertUnwindSafe(hook)).unwrap_or(true);
    c_int::from(stop)
}
