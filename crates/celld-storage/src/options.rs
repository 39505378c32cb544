//! How a cell's database is opened, and its limits.

use std::ffi::c_int;

use rusqlite::ffi;

/// Limits and settings of one cell's database. `Default` has the limits of Cloudflare's
/// SQLite-backed Durable Objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// The class is SQLite-backed: `sql` and sync `kv` are there, and KV limits are wider.
    pub sqlite_api: bool,
    /// Longest key of a KV-backed class, in bytes of UTF-8.
    pub kv_key_max_bytes: usize,
    /// Largest serialized value of a KV-backed class, in bytes.
    pub kv_value_max_bytes: usize,
    /// Largest row, string or BLOB, in bytes. For SQLite-backed classes also the limit of key
    /// and value together.
    pub row_max_bytes: u32,
    /// Longest SQL statement, in bytes.
    pub statement_max_bytes: u32,
    /// Most bound parameters of a statement.
    pub parameters_max: u32,
    /// Most columns of a table, index or result.
    pub columns_max: u32,
    /// Most terms of a compound SELECT.
    pub compound_select_max: u32,
    /// Deepest expression.
    pub expression_depth_max: u32,
    /// Most arguments of a function.
    pub function_arguments_max: u32,
    /// Longest LIKE or GLOB pattern, in bytes.
    pub like_pattern_max_bytes: u32,
    /// Most instructions of a compiled statement.
    pub vm_instructions_max: u32,
    /// Deepest recursion of triggers.
    pub trigger_depth_max: u32,
    /// Largest database, in bytes.
    pub max_database_bytes: u64,
    /// Page cache of an open connection, in bytes (at least 16 KiB).
    pub page_cache_bytes: usize,
    /// Size of a slot of the connection's small-object pool, in bytes.
    pub lookaside_slot_bytes: u32,
    /// Number of those slots.
    pub lookaside_slots: u32,
    /// Most SQL text whose compiled statements are kept, in bytes.
    pub statement_cache_max_bytes: usize,
    /// Most compiled statements that are kept.
    pub statement_cache_max_count: usize,
    /// The WAL is moved into the database file after a commit that leaves it larger, in bytes.
    pub wal_checkpoint_bytes: u64,
    /// Open cursors, which keep the WAL from being moved, end after a commit that leaves it
    /// larger than this, in bytes.
    pub wal_max_bytes: u64,
    /// Most bytes of pages that one commit may change.
    pub commit_max_bytes: u64,
    /// Most bytes of rows that a writing statement with RETURNING may return.
    pub returning_max_bytes: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            sqlite_api: true,
            kv_key_max_bytes: 2048,
            kv_value_max_bytes: 128 * 1024,
            row_max_bytes: 2_200_000,
            statement_max_bytes: 100_000,
            parameters_max: 100,
            columns_max: 100,
            compound_select_max: 5,
            expression_depth_max: 100,
            function_arguments_max: 127,
            like_pattern_max_bytes: 50,
            vm_instructions_max: 250_000,
            trigger_depth_max: 10,
            max_database_bytes: 10 << 30,
            page_cache_bytes: 128 * 1024,
            lookaside_slot_bytes: 256,
            lookaside_slots: 64,
            statement_cache_max_bytes: 1 << 20,
            statement_cache_max_count: 64,
            wal_checkpoint_bytes: 1 << 20,
            wal_max_bytes: 64 << 20,
            commit_max_bytes: 256 << 20,
            returning_max_bytes: 32 << 20,
        }
    }
}

impl OpenOptions {
    pub(crate) fn sqlite_limits(&self) -> [(c_int, c_int); 11] {
        [
            (ffi::SQLITE_LIMIT_LENGTH, self.row_max_bytes),
            (ffi::SQLITE_LIMIT_SQL_LENGTH, self.statement_max_bytes),
            (ffi::SQLITE_LIMIT_VARIABLE_NUMBER, self.parameters_max),
            (ffi::SQLITE_LIMIT_COLUMN, self.columns_max),
            (ffi::SQLITE_LIMIT_COMPOUND_SELECT, self.compound_select_max),
            (ffi::SQLITE_LIMIT_EXPR_DEPTH, self.expression_depth_max),
            (ffi::SQLITE_LIMIT_FUNCTION_ARG, self.function_arguments_max),
            (
                ffi::SQLITE_LIMIT_LIKE_PATTERN_LENGTH,
                self.like_pattern_max_bytes,
            ),
            (ffi::SQLITE_LIMIT_VDBE_OP, self.vm_instructions_max),
            (ffi::SQLITE_LIMIT_TRIGGER_DEPTH, self.trigger_depth_max),
            (ffi::SQLITE_LIMIT_WORKER_THREADS, 0),
        ]
        .map(|(limit, value)| (limit, c_int::try_from(value).unwrap_or(c_int::MAX)))
    }
}
