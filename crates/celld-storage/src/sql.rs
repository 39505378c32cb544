//! SQL on behalf of scripts: compiling and executing up to the first row.

use std::sync::Arc;

use rusqlite::ffi;

use crate::accounting::Counts;
use crate::cell::CellDb;
use crate::cursor::{Cursor, CursorId, Source};
use crate::error::{SqlError, StorageError};
use crate::stmt::{SqlText, SqlValue, Stmt};

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

/// Where the text after `start` goes on, or `None` when only space follows. A comment or a
/// semicolon counts as a statement there, and is then found to be none, as in workerd.
fn next_statement(sql: &str, start: usize) -> Option<usize> {
    let rest = sql.as_bytes().get(start..)?;
    let space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    rest.iter()
        .position(|byte| !space(byte))
        .map(|at| start + at)
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
        if sql.len() > self.options.statement_max_bytes as usize {
            return Err(SqlError::too_long().into());
        }
        let text = SqlText::new(sql);
        let mut at = 0;
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
        self.keep_setting(stmt.traits.setting.as_ref());
        self.guard_names(stmt.traits.renames, |db| {
            while stmt.step().map_err(|error| db.failed(error))? {}
            if stmt.traits.changes_schema {
                db.opened()?.indexes.forget();
            }
            stmt.reset();
            Ok(())
        })
    }

    /// Runs a statement that may rename, and undoes it if a reserved name came out of it, which
    /// the authorizer cannot see.
    fn guard_names<R>(
        &mut self,
        renames: bool,
        run: impl FnOnce(&mut Self) -> Result<R, StorageError>,
    ) -> Result<R, StorageError> {
        if !renames {
            return run(self);
        }
        let depth = self.begin_nested()?;
        let result = run(self).and_then(|answer| self.check_names().map(|()| answer));
        match result {
            Ok(answer) => self.release_nested(depth).map(|()| answer),
            Err(error) => self.rollback_nested(depth).and(Err(error)),
        }
    }

    fn check_names(&mut self) -> Result<(), StorageError> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '\\_cf\\_%' ESCAPE '\\' \
            AND name NOT IN ('_cf_KV', '_cf_METADATA')";
        let mut stmt = Stmt::trusted(&self.opened()?.conn, sql)?;
        stmt.step().map_err(|error| self.failed(error))?;
        match stmt.integer(0) {
            Some(0) => Ok(()),
            _ => Err(SqlError {
                code: ffi::SQLITE_AUTH,
                message: "not authorized: SQLITE_AUTH".into(),
                critical: false,
            }
            .into()),
        }
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
        self.keep_setting(stmt.traits.setting.as_ref());
        for (index, value) in bindings.iter().enumerate() {
            stmt.bind(index + 1, value)?;
        }
        self.guard_names(stmt.traits.renames, |db| db.first_row(stmt, text))
    }

    fn first_row(
        &mut self,
        mut stmt: Stmt,
        text: Option<Box<str>>,
    ) -> Result<SqlOutcome, StorageError> {
        let changes = self.opened()?.conn.total_changes();
        stmt.take_status(ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP);
        let mut counts = Counts::default();
        let has_row = stmt.step().map_err(|error| self.failed(error))?;
        // Asked after the first step, which compiles the statement again if the schema changed.
        let columns = stmt.columns();
        let source = if !has_row {
            self.count(&stmt, &mut counts, changes)?;
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
            Some(Source::Live {
                stmt,
                sent: false,
                text,
            })
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
        let open = self.opened()?;
        let (text, mut stmt) = match open.trusted_cache.take(sql) {
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
        counts.scan(stmt);
        let open = self.opened()?;
        let changed = open.conn.total_changes() - changes;
        counts.written = if stmt.traits.needs_transaction {
            open.indexes.written(&open.conn, &stmt.traits, changed)?
        } else {
            changed
        };
        Ok(())
    }

    /// Puts a finished statement into the cache.
    pub(crate) fn give_back(&mut self, mut stmt: Stmt, text: Option<Box<str>>) {
        stmt.reset();
        let (bytes, count) = (
            self.options.statement_cache_max_bytes,
            self.options.statement_cache_max_count,
        );
        if let (Some(text), Some(open)) = (text, &mut self.open) {
            let cache = if stmt.trusted {
                &mut open.trusted_cache
            } else {
                &mut open.cache
            };
            cache.put(text, stmt, bytes, count);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_space_may_follow_the_last_statement() {
        assert_eq!(next_statement("a; \t\n\x0b\x0c\r", 2), None);
        assert_eq!(next_statement("a", 1), None);
        assert_eq!(next_statement("a; b", 2), Some(3));
        assert_eq!(next_statement("a; -- b", 2), Some(3));
        assert_eq!(next_statement("a;\0", 2), Some(2));
    }
}
