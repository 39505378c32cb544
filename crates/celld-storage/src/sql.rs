//! SQL on behalf of scripts: execution, live cursors, row and statement accounting.

use std::sync::Arc;

use rusqlite::ffi;

use crate::cell::CellDb;
use crate::error::{SqlError, StorageError};
use crate::stmt::{SqlText, SqlValue, Stmt, ValueRef};

/// Names a cursor. One that is finished or closed is never mistaken for a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CursorId(u64);

impl CursorId {
    /// The raw number, to carry it through a script engine.
    pub fn to_raw(self) -> u64 {
        self.0
    }

    /// Back from [`CursorId::to_raw`]. A wrong number gives [`StorageError::CursorInvalid`].
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn new(index: usize, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | index as u64)
    }

    fn index(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Receives rows, value by value.
pub trait RowSink {
    /// A row begins.
    fn begin_row(&mut self, _columns: usize) {}
    /// SQL NULL.
    fn null(&mut self);
    /// Integer.
    fn integer(&mut self, value: i64);
    /// Double.
    fn real(&mut self, value: f64);
    /// Text. Bytes that are not UTF-8 arrive as U+FFFD.
    fn text(&mut self, value: &str);
    /// Bytes.
    fn blob(&mut self, value: &[u8]);
    /// The row is complete. Answer false to end the batch here.
    fn end_row(&mut self) -> bool {
        true
    }
}

/// What an execution came to.
#[derive(Clone, Debug)]
pub struct SqlOutcome {
    /// Rows wait under this cursor; `None` when there are none, and nothing needs closing.
    pub cursor: Option<CursorId>,
    /// Names of the last statement's columns.
    pub columns: Arc<[String]>,
    /// Rows read so far.
    pub rows_read: u64,
    /// Rows written so far.
    pub rows_written: u64,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorStep {
    /// No rows are left, and the cursor is gone.
    pub done: bool,
    /// Rows read by the statement so far.
    pub rows_read: u64,
    /// Rows written by the statement so far.
    pub rows_written: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    returned: u64,
    scanned: u64,
    written: u64,
}

impl Counts {
    fn read(&self) -> u64 {
        self.scanned.max(self.returned)
    }
}

enum Source {
    /// The statement stands on the next row.
    Live {
        stmt: Stmt,
        /// Where it goes when it is done.
        text: Option<Box<str>>,
    },
    /// Rows that a writing statement returned: it has to end before the transaction can.
    Buffered {
        values: std::vec::IntoIter<SqlValue>,
    },
}

struct Cursor {
    source: Source,
    columns: Arc<[String]>,
    counts: Counts,
}

/// The cell's cursors.
#[derive(Default)]
pub(crate) struct Cursors {
    slots: Vec<(u32, Option<Cursor>)>,
    free: Vec<usize>,
}

impl Cursors {
    /// Number of open cursors that hold a running statement.
    pub fn live(&self) -> usize {
        let live = |cursor: &Cursor| matches!(cursor.source, Source::Live { .. });
        self.slots
            .iter()
            .filter(|(_, slot)| slot.as_ref().is_some_and(live))
            .count()
    }

    /// Ends all cursors.
    pub fn clear(&mut self) {
        for index in 0..self.slots.len() {
            self.end(index);
        }
    }

    fn end(&mut self, index: usize) -> Option<Cursor> {
        let (generation, slot) = self.slots.get_mut(index)?;
        let cursor = slot.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(index);
        Some(cursor)
    }

    fn add(&mut self, cursor: Cursor) -> CursorId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() - 1
        });
        let (generation, slot) = &mut self.slots[index];
        *slot = Some(cursor);
        CursorId::new(index, *generation)
    }

    fn get(&mut self, id: CursorId) -> Result<&mut Cursor, StorageError> {
        match self.slots.get_mut(id.index()) {
            Some((generation, Some(cursor))) if *generation == id.generation() => Ok(cursor),
            _ => Err(StorageError::CursorInvalid),
        }
    }

    fn take(&mut self, id: CursorId) -> Result<Cursor, StorageError> {
        self.get(id)?;
        self.end(id.index()).ok_or(StorageError::CursorInvalid)
    }
}

/// Where the statement after `start` begins, or `None` when only space, comments and
/// semicolons follow.
fn next_statement(sql: &str, mut start: usize) -> Option<usize> {
    let bytes = sql.as_bytes();
    loop {
        let rest = bytes.get(start..)?;
        match rest {
            [] => return None,
            [b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b';', ..] => start += 1,
            [b'-', b'-', ..] => start += rest.iter().position(|&b| b == b'\n')?,
            [b'/', b'*', ..] => start += 4 + rest[2..].windows(2).position(|w| w == b"*/")?,
            // A byte-order mark is white space to SQLite.
            [0xef, 0xbb, 0xbf, ..] => start += 3,
            _ => return Some(start),
        }
    }
}

impl CellDb {
    /// Executes SQL. All statements but the last run to their end; the last one stops at its
    /// first row, which waits under the answer's cursor. `bindings` belong to the last one.
    pub fn sql_exec(
        &mut self,
        sql: &str,
        bindings: &[SqlValue],
    ) -> Result<SqlOutcome, StorageError> {
        if !self.options.sqlite_api {
            return Err(StorageError::SqlNotEnabled);
        }
        if let Some((text, stmt)) = self.opened()?.cache.take(sql) {
            return self.start(stmt, Some(text), bindings);
        }
        let text = SqlText::new(sql).ok_or(StorageError::NulInSql)?;
        let mut at = next_statement(sql, 0).ok_or(StorageError::NoStatement)?;
        let mut single = true;
        loop {
            let (stmt, end) = Stmt::compile(&self.opened()?.conn, &text, at, false)?;
            let next = next_statement(sql, end);
            match (stmt, next) {
                (Some(stmt), None) => {
                    let keep = single.then(|| sql.into());
                    return self.start(stmt, keep, bindings);
                }
                (Some(stmt), Some(next)) => {
                    single = false;
                    self.run_to_end(stmt)?;
                    at = next;
                }
                (None, Some(next)) if next > at => at = next,
                (None, _) => return Err(StorageError::NoStatement),
            }
        }
    }

    fn run_to_end(&mut self, mut stmt: Stmt) -> Result<(), StorageError> {
        if stmt.parameter_count() > 0 {
            return Err(StorageError::BindingsBeforeLast);
        }
        if stmt.traits.needs_transaction {
            self.ensure_transaction()?;
        }
        while stmt.step().map_err(|error| self.failed(error))? {}
        self.after_rename(&stmt)
    }

    /// Binds, and runs to the first row.
    fn start(
        &mut self,
        mut stmt: Stmt,
        text: Option<Box<str>>,
        bindings: &[SqlValue],
    ) -> Result<SqlOutcome, StorageError> {
        if stmt.parameter_count() != bindings.len() {
            self.give_back(stmt, text);
            return Err(StorageError::WrongBindings);
        }
        if stmt.traits.needs_transaction {
            self.ensure_transaction()?;
        }
        for (index, value) in bindings.iter().enumerate() {
            stmt.bind(index + 1, value)?;
        }
        self.first_row(stmt, text)
    }

    fn first_row(
        &mut self,
        mut stmt: Stmt,
        text: Option<Box<str>>,
    ) -> Result<SqlOutcome, StorageError> {
        let changes = self.opened()?.conn.total_changes();
        stmt.take_status(ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP);
        let mut counts = Counts::default();
        let columns = stmt.columns();
        let has_row = stmt.step().map_err(|error| self.failed(error))?;
        // The first step may have compiled the statement again.
        let columns = if columns.len() == stmt.column_count() {
            columns
        } else {
            stmt.columns()
        };
        let source = if !has_row {
            self.count(&stmt, &mut counts, changes)?;
            self.after_rename(&stmt)?;
            self.give_back(stmt, text);
            None
        } else if stmt.traits.needs_transaction {
            let values = self.drain(&mut stmt, &mut counts)?;
            self.count(&stmt, &mut counts, changes)?;
            self.give_back(stmt, text);
            Some(Source::Buffered {
                values: values.into_iter(),
            })
        } else {
            counts.returned = 1;
            self.count(&stmt, &mut counts, changes)?;
            Some(Source::Live { stmt, text })
        };
        let cursor = source.map(|source| {
            self.cursors.add(Cursor {
                source,
                columns: columns.clone(),
                counts,
            })
        });
        Ok(SqlOutcome {
            cursor,
            columns,
            rows_read: counts.read(),
            rows_written: counts.written,
        })
    }

    /// A cursor over one of the engine's own queries.
    pub(crate) fn trusted_cursor(
        &mut self,
        sql: &'static str,
        bind: impl FnOnce(&mut Stmt) -> Result<(), SqlError>,
    ) -> Result<SqlOutcome, StorageError> {
        // A script's statement with this text is refused when it is compiled, so that only
        // trusted statements are ever kept under it.
        let open = self.opened()?;
        let (text, mut stmt) = match open.cache.take(sql) {
            Some(found) => found,
            None => (sql.into(), Stmt::trusted(&open.conn, sql)?),
        };
        bind(&mut stmt)?;
        self.first_row(stmt, Some(text))
    }

    /// Reads the remaining rows of a writing statement, beginning with the one it stands on.
    fn drain(
        &mut self,
        stmt: &mut Stmt,
        counts: &mut Counts,
    ) -> Result<Vec<SqlValue>, StorageError> {
        let limit_bytes = self.options.returning_max_bytes;
        let mut size = 0;
        let mut values = Vec::new();
        loop {
            counts.returned += 1;
            for column in 0..stmt.column_count() {
                let value = stmt.value(column).to_owned();
                size += size_of::<SqlValue>() + value.heap_bytes();
                values.push(value);
            }
            if size > limit_bytes {
                return Err(StorageError::ReturnedTooMuch { limit_bytes });
            }
            if !stmt.step().map_err(|error| self.failed(error))? {
                return Ok(values);
            }
        }
    }

    fn count(
        &mut self,
        stmt: &Stmt,
        counts: &mut Counts,
        changes: u64,
    ) -> Result<(), StorageError> {
        let steps = stmt.status(ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP);
        counts.scanned = u64::try_from(steps).unwrap_or(0);
        counts.written = self.opened()?.conn.total_changes() - changes;
        Ok(())
    }

    /// Puts a finished statement into the cache.
    fn give_back(&mut self, mut stmt: Stmt, text: Option<Box<str>>) {
        stmt.reset();
        let (bytes, count) = (
            self.options.statement_cache_max_bytes,
            self.options.statement_cache_max_count,
        );
        if let (Some(text), Some(open)) = (text, &mut self.open) {
            open.cache.put(text, stmt, bytes, count);
        }
    }

    /// Refuses a rename to a reserved name, which the authorizer cannot see.
    fn after_rename(&mut self, stmt: &Stmt) -> Result<(), StorageError> {
        if !stmt.traits.renames {
            return Ok(());
        }
        Ok(())
    }

    /// Hands up to `max_rows` rows to `sink`. When it answers `done`, or an error, the cursor
    /// is gone.
    pub fn cursor_next(
        &mut self,
        id: CursorId,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<CursorStep, StorageError> {
        let cursor = self.cursors.get(id)?;
        let mut done = false;
        let mut failure = None;
        for _ in 0..max_rows {
            sink.begin_row(cursor.columns.len());
            match &mut cursor.source {
                Source::Live { stmt, .. } => {
                    for column in 0..stmt.column_count() {
                        stmt.value(column).send(sink);
                    }
                    match stmt.step() {
                        Ok(more) => done = !more,
                        Err(error) => failure = Some(error),
                    }
                    let steps = stmt.status(ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP);
                    cursor.counts.scanned = u64::try_from(steps).unwrap_or(0);
                    cursor.counts.returned += u64::from(!done);
                }
                Source::Buffered { values } => {
                    for value in values.by_ref().take(cursor.columns.len()) {
                        value.as_ref().send(sink);
                    }
                    done = values.len() == 0;
                }
            }
            if !sink.end_row() || done || failure.is_some() {
                break;
            }
        }
        let counts = cursor.counts;
        if done || failure.is_some() {
            self.cursor_close(id);
        }
        match failure {
            Some(error) => Err(self.failed(error)),
            None => Ok(CursorStep {
                done,
                rows_read: counts.read(),
                rows_written: counts.written,
            }),
        }
    }

    /// Names of a cursor's columns.
    pub fn cursor_columns(&mut self, id: CursorId) -> Result<Arc<[String]>, StorageError> {
        Ok(self.cursors.get(id)?.columns.clone())
    }

    /// Ends a cursor. Without effect on one that is gone.
    pub fn cursor_close(&mut self, id: CursorId) {
        if let Ok(Cursor {
            source: Source::Live { stmt, text },
            ..
        }) = self.cursors.take(id)
        {
            self.give_back(stmt, text);
        }
    }

    /// Rows changed by statements since the database was opened (`changes` of D1 is a difference of two).
    pub fn total_changes(&mut self) -> Result<u64, StorageError> {
        Ok(self.opened()?.conn.total_changes())
    }

    /// Rowid of the last insert.
    pub fn last_insert_rowid(&mut self) -> Result<i64, StorageError> {
        Ok(self.opened()?.conn.last_insert_rowid())
    }
}

impl SqlValue {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
            _ => 0,
        }
    }

    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}

impl ValueRef<'_> {
    fn to_owned(self) -> SqlValue {
        match self {
            Self::Null => SqlValue::Null,
            Self::Integer(value) => SqlValue::Integer(value),
            Self::Real(value) => SqlValue::Real(value),
            Self::Text(bytes) => SqlValue::Text(String::from_utf8_lossy(bytes).into_owned()),
            Self::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
        }
    }

    fn send(self, sink: &mut dyn RowSink) {
        match self {
            Self::Null => sink.null(),
            Self::Integer(value) => sink.integer(value),
            Self::Real(value) => sink.real(value),
            Self::Text(bytes) => sink.text(&String::from_utf8_lossy(bytes)),
            Self::Blob(bytes) => sink.blob(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_and_comments_are_no_statement() {
        assert_eq!(next_statement(" -- a\n /* b */ ;", 0), None);
        assert_eq!(next_statement("-- a", 0), None);
        assert_eq!(next_statement("/* open", 0), None);
        assert_eq!(next_statement("a; b", 2), Some(3));
        assert_eq!(next_statement("/**/x", 0), Some(4));
    }
}
