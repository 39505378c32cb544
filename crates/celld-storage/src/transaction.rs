//! The implicit transaction and the nested ones inside it.

use crate::cell::{CellDb, Fixed};
use crate::error::{SqlError, StorageError};
use crate::stmt::Stmt;

/// A level of nested transactions; the outermost is 1.
pub type Depth = u32;

impl CellDb {
    /// Opens the implicit transaction unless it is open.
    pub(crate) fn ensure_transaction(&mut self) -> Result<(), StorageError> {
        if let Some(cause) = &self.poisoned {
            return Err(StorageError::Poisoned {
                cause: cause.clone(),
            });
        }
        if !self.in_transaction {
            self.run_fixed(Fixed::Begin, |_| Ok(()), |_| ())?;
            self.in_transaction = true;
        }
        Ok(())
    }

    /// Notes an error of a statement. Some errors make SQLite undo the whole transaction.
    pub(crate) fn failed(&mut self, mut error: SqlError) -> StorageError {
        let undone = self.in_transaction && self.open.as_ref().is_some_and(|o| o.conn.autocommit());
        if undone {
            error.critical = true;
            self.poisoned.get_or_insert_with(|| error.message.clone());
        }
        error.into()
    }

    /// Number of open levels of nested transactions.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// Undoes everything since the last commit, nested transactions included.
    ///
    /// Cursors stay usable unless the schema changed. Fails when the working file holds a commit
    /// that was never captured: then the database must be dropped and created again.
    pub fn rollback(&mut self) -> Result<(), StorageError> {
        self.alarm = None;
        self.depth = 0;
        self.shrink = false;
        if !self.in_transaction {
            return match &self.poisoned {
                Some(cause) => Err(StorageError::Poisoned {
                    cause: cause.clone(),
                }),
                None => Ok(()),
            };
        }
        self.in_transaction = false;
        self.poisoned = None;
        if let Some(open) = &mut self.open {
            open.indexes.forget();
        }
        if self.opened()?.conn.autocommit() {
            return Ok(());
        }
        self.run_fixed(Fixed::Rollback, |_| Ok(()), |_| ())
            .map(|_| ())
    }

    /// Begins a nested transaction. Answers its level.
    pub fn begin_nested(&mut self) -> Result<Depth, StorageError> {
        self.ensure_transaction()?;
        let depth = self.depth + 1;
        self.savepoint("SAVEPOINT", depth)?;
        self.depth = depth;
        Ok(depth)
    }

    /// Keeps the innermost nested transaction's changes, as a part of the one around it.
    pub fn release_nested(&mut self, depth: Depth) -> Result<(), StorageError> {
        self.check_innermost(depth)?;
        self.savepoint("RELEASE", depth)?;
        self.depth -= 1;
        Ok(())
    }

    /// Undoes the innermost nested transaction's changes and ends it.
    pub fn rollback_nested(&mut self, depth: Depth) -> Result<(), StorageError> {
        self.check_innermost(depth)?;
        self.alarm = None;
        self.depth -= 1;
        if self.poisoned.is_some() {
            // SQLite has undone everything already; `commit` reports it.
            return Ok(());
        }
        self.opened()?.indexes.forget();
        self.savepoint("ROLLBACK TO", depth)?;
        self.savepoint("RELEASE", depth)
    }

    fn check_innermost(&self, depth: Depth) -> Result<(), StorageError> {
        if depth == 0 || depth != self.depth {
            return Err(StorageError::NestingOrder {
                depth,
                open: self.depth,
            });
        }
        Ok(())
    }

    fn savepoint(&mut self, verb: &str, depth: Depth) -> Result<(), StorageError> {
        if let Some(cause) = &self.poisoned {
            return Err(StorageError::Poisoned {
                cause: cause.clone(),
            });
        }
        let sql = format!("{verb} _cf_{depth}");
        let open = self.opened()?;
        let (text, mut stmt) = match open.trusted_cache.take(&sql) {
            Some(found) => found,
            None => (sql.as_str().into(), Stmt::trusted(&open.conn, &sql)?),
        };
        let result = stmt.step();
        self.give_back(stmt, Some(text));
        result.map(|_| ()).map_err(|error| self.failed(error))
    }
}
