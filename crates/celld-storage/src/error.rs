//! What can go wrong in a cell's database.

use std::path::PathBuf;

use celld_core::Txid;

/// A failure of a cell's storage.
///
/// The texts of the variants up to [`StorageError::CommitTooLarge`] reach scripts as
/// `error.message` and are those that Workers scripts test for.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// SQLite refused or failed.
    #[error("{0}")]
    Sql(#[from] SqlError),
    /// A constraint that is checked at the end does not hold. The cell must be reset.
    #[error(
        "Durable Object was reset and rolled back to its last known good state because the application left the database in a state where constraints were violated: {0}"
    )]
    Violated(SqlError),
    /// The SQL text holds no statement.
    #[error("SQL code did not contain a statement.")]
    NoStatement,
    /// The number of bindings differs from the statement's number of parameters.
    #[error("Wrong number of parameter bindings for SQL query.")]
    WrongBindings,
    /// A statement before the last one has parameters.
    #[error(
        "When executing multiple SQL statements in a single call, only the last statement can have parameters."
    )]
    BindingsBeforeLast,
    /// The script tried `BEGIN`, `COMMIT`, `ROLLBACK`, `SAVEPOINT` or `RELEASE`.
    #[error(
        "To execute a transaction, please use the state.storage.transaction() or state.storage.transactionSync() APIs instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements. The JavaScript API is safer because it will automatically roll back on exceptions, and because it interacts correctly with Durable Objects' automatic atomic write coalescing."
    )]
    TransactionStatement,
    /// A key is longer than its class allows.
    #[error(
        "Keys cannot be larger than {limit_bytes} bytes. A key of size {size_bytes} was provided."
    )]
    KeyTooLong {
        /// The limit.
        limit_bytes: usize,
        /// Length in bytes of the key as UTF-8.
        size_bytes: usize,
    },
    /// A value is longer than its class allows.
    #[error(
        "Values cannot be larger than {limit_bytes} bytes. A value of size {size_bytes} was provided."
    )]
    ValueTooLong {
        /// The limit.
        limit_bytes: usize,
        /// Length in bytes of the serialized value.
        size_bytes: usize,
    },
    /// `sql` or `kv` was used on a class that is not SQLite-backed.
    #[error(
        "SQL is not enabled for this Durable Object class. To enable it, change `new_classes` to `new_sqlite_classes` within the 'migrations' field in your wrangler.jsonc or wrangler.toml file. Note that this change cannot be made after the class is already deployed to production."
    )]
    SqlNotEnabled,
    /// The rows that a writing statement returned do not fit into memory.
    #[error(
        "a statement returned more than {limit_bytes} bytes of rows from a write: return fewer columns or write in smaller steps"
    )]
    ReturnedTooMuch {
        /// The limit.
        limit_bytes: usize,
    },
    /// The database was to be closed with uncommitted changes.
    #[error("the database has uncommitted changes: commit or roll back before parking it")]
    ParkWhileDirty,
    /// `deleteAll()` inside a transaction.
    #[error("Cannot call deleteAll() within a transaction")]
    DeleteAllInTransaction,
    /// The cursor is finished, was closed, or belonged to a closed database.
    #[error(
        "SQL cursor was closed because the database was closed, or the cursor was already finished."
    )]
    CursorInvalid,
    /// The cursor was open when `deleteAll()` removed its data.
    #[error("SQLite query was canceled because the database was deleted.")]
    CursorDeleted,
    /// The cursor stayed open while much was committed.
    #[error(
        "SQL cursor was closed because it stayed open while much data was written: read its rows with toArray() before writing, or run the query again"
    )]
    CursorTooOld,
    /// One commit changes more than can be logged at once. The cell must be reset.
    #[error(
        "a transaction changed {size_bytes} bytes of pages, more than the limit of {limit_bytes}: write in smaller steps, with an await between them"
    )]
    CommitTooLarge {
        /// The limit.
        limit_bytes: u64,
        /// What it changed.
        size_bytes: u64,
    },
    /// Nested transactions must end in the reverse order of their beginning.
    #[error("nested transaction {depth} cannot end here: the innermost open one is {open}")]
    NestingOrder {
        /// The level that was to end.
        depth: u32,
        /// The innermost level.
        open: u32,
    },
    /// An earlier failure undid the open transaction; nothing can be committed until `rollback`.
    #[error(
        "the transaction was undone by an earlier error, and the object must be reset: {cause}"
    )]
    Poisoned {
        /// Text of that error.
        cause: String,
    },
    /// A snapshot cannot be used.
    #[error("snapshot is damaged: {what}")]
    DamagedSnapshot {
        /// What is wrong, and where.
        what: String,
    },
    /// A segment cannot be used.
    #[error("segment number {index} of the tail{} is damaged: {what}", txid.map(|t| format!(" (txid {t})")).unwrap_or_default())]
    DamagedSegment {
        /// Position in the tail, from 0.
        index: usize,
        /// Its transaction, when the header was readable.
        txid: Option<Txid>,
        /// What is wrong, and where.
        what: String,
    },
    /// Data was written by a version of celld that this one does not know.
    #[error(
        "{what} has format version {found}, but this celld reads version {known}: run a celld that knows it"
    )]
    UnknownFormat {
        /// `snapshot` or `segment`.
        what: &'static str,
        /// Version in the data.
        found: u16,
        /// Version that this build reads.
        known: u16,
    },
    /// Snapshot and tail end at another transaction than the caller expects.
    #[error(
        "cell data ends at txid {found}, but its record says {expected}: a part of its log is missing"
    )]
    WrongEnd {
        /// Where it ends.
        found: Txid,
        /// Where it should end.
        expected: Txid,
    },
    /// The working file cannot be read or written.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl StorageError {
    /// True when the cell's state in memory can no longer be trusted to match its database:
    /// the host must reset the cell (roll back, drop the database, start again from the log).
    pub fn is_critical(&self) -> bool {
        match self {
            Self::Sql(error) => error.critical,
            Self::Violated(_)
            | Self::Poisoned { .. }
            | Self::CommitTooLarge { .. }
            | Self::DamagedSnapshot { .. }
            | Self::DamagedSegment { .. }
            | Self::UnknownFormat { .. }
            | Self::WrongEnd { .. }
            | Self::Io { .. } => true,
            _ => false,
        }
    }

    /// True when a watchdog interrupted the statement.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Sql(error) if error.code & 0xff == rusqlite::ffi::SQLITE_INTERRUPT)
    }
}

/// An error of SQLite, in the text form that Workers scripts see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// Extended result code.
    pub code: i32,
    /// `<text>[ at offset N]: SQLITE_X[ (extended: SQLITE_X_Y)]`.
    pub message: String,
    /// The error undid the whole open transaction, not just the statement.
    pub critical: bool,
}

impl SqlError {
    /// A constraint was violated.
    pub(crate) fn is_constraint(&self) -> bool {
        self.code & 0xff == rusqlite::ffi::SQLITE_CONSTRAINT
    }

    /// The text is longer than SQLite was told to take.
    pub(crate) fn too_long() -> Self {
        Self {
            code: rusqlite::ffi::SQLITE_TOOBIG,
            message: "statement too long: SQLITE_TOOBIG".into(),
            critical: false,
        }
    }
}

/// The symbolic name of a primary result code.
pub(crate) fn primary_name(code: i32) -> &'static str {
    const NAMES: [&str; 29] = [
        "SQLITE_OK",
        "SQLITE_ERROR",
        "SQLITE_INTERNAL",
        "SQLITE_PERM",
        "SQLITE_ABORT",
        "SQLITE_BUSY",
        "SQLITE_LOCKED",
        "SQLITE_NOMEM",
        "SQLITE_READONLY",
        "SQLITE_INTERRUPT",
        "SQLITE_IOERR",
        "SQLITE_CORRUPT",
        "SQLITE_NOTFOUND",
        "SQLITE_FULL",
        "SQLITE_CANTOPEN",
        "SQLITE_PROTOCOL",
        "SQLITE_EMPTY",
        "SQLITE_SCHEMA",
        "SQLITE_TOOBIG",
        "SQLITE_CONSTRAINT",
        "SQLITE_MISMATCH",
        "SQLITE_MISUSE",
        "SQLITE_NOLFS",
        "SQLITE_AUTH",
        "SQLITE_FORMAT",
        "SQLITE_RANGE",
        "SQLITE_NOTADB",
        "SQLITE_NOTICE",
        "SQLITE_WARNING",
    ];
    usize::try_from(code & 0xff)
        .ok()
        .and_then(|index| NAMES.get(index).copied())
        .unwrap_or("SQLITE_UNKNOWN")
}

/// The symbolic name of an extended result code, where scripts may see it.
pub(crate) fn extended_name(code: i32) -> Option<String> {
    if code & !0xff == 0 {
        return None;
    }
    let minor = code >> 8;
    let known: &[&str] = match code & 0xff {
        rusqlite::ffi::SQLITE_ERROR => &["MISSING_COLLSEQ", "RETRY", "SNAPSHOT"],
        rusqlite::ffi::SQLITE_ABORT => &["", "ROLLBACK"],
        rusqlite::ffi::SQLITE_CONSTRAINT => &[
            "CHECK",
            "COMMITHOOK",
            "FOREIGNKEY",
            "FUNCTION",
            "NOTNULL",
            "PRIMARYKEY",
            "TRIGGER",
            "UNIQUE",
            "VTAB",
            "ROWID",
            "PINNED",
            "DATATYPE",
        ],
        rusqlite::ffi::SQLITE_CORRUPT => &["VTAB", "SEQUENCE", "INDEX"],
        _ => &[],
    };
    let name = usize::try_from(minor - 1)
        .ok()
        .and_then(|index| known.get(index).copied())
        .filter(|name| !name.is_empty());
    Some(match name {
        Some(name) => format!("{}_{name}", primary_name(code)),
        None => code.to_string(),
    })
}
