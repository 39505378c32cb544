//! How many rows a statement read and wrote, as `rowsRead` and `rowsWritten` show it.
//!
//! SQLite as bundled does not count rows, so both are derived:
//!
//! - **read**: the larger of the rows that the statement returned, and of the steps of its full
//!   scans plus one. A scan is counted exactly; rows found through an index and not returned,
//!   rows that a sorter or a plain `count(*)` visits, are not.
//! - **written**: the rows that SQLite says were changed (triggers and foreign-key actions
//!   included), times one plus the number of index entries that each takes: every index of the
//!   table for INSERT, those on updated columns for UPDATE, none for DELETE. A statement that
//!   changes the schema counts two.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::ffi;

use crate::authorizer::{Traits, Write, WriteKind};
use crate::conn::Handle;
use crate::error::StorageError;
use crate::stmt::{Stmt, ValueRef};

/// Rows of the schema table that a change of the schema writes, with its own index row.
const SCHEMA_CHANGE_ROWS: u64 = 2;

/// Rows that a statement returned, scanned and wrote so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub returned: u64,
    pub written: u64,
    scanned: u64,
}

impl Counts {
    /// Takes over the statement's scan counter.
    pub fn scan(&mut self, stmt: &Stmt) {
        let steps = stmt.status(ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP);
        let steps = u64::try_from(steps).unwrap_or(0);
        self.scanned = steps + u64::from(steps > 0);
    }

    /// Rows read.
    pub fn read(&self) -> u64 {
        self.scanned.max(self.returned)
    }
}

/// Columns of the indexes of the tables that were written, kept until the schema changes.
#[derive(Default)]
pub(crate) struct Indexes(HashMap<String, Vec<Vec<String>>>);

impl Indexes {
    /// The schema may have changed.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Rows that a statement wrote which changed `changes` rows.
    pub fn written(
        &mut self,
        conn: &Rc<Handle>,
        traits: &Traits,
        changes: u64,
    ) -> Result<u64, StorageError> {
        if traits.changes_schema {
            self.forget();
            return Ok(SCHEMA_CHANGE_ROWS + changes);
        }
        match &traits.write {
            Some(write) if changes > 0 => Ok(changes * (1 + self.entries(conn, write)?)),
            _ => Ok(changes),
        }
    }

    /// Index entries that one changed row takes.
    fn entries(&mut self, conn: &Rc<Handle>, write: &Write) -> Result<u64, StorageError> {
        if write.kind == WriteKind::Delete {
            return Ok(0);
        }
        if !self.0.contains_key(&write.table) {
            let indexes = load(conn, &write.table)?;
            self.0.insert(write.table.clone(), indexes);
        }
        let indexes = &self.0[&write.table];
        let touched = |index: &&Vec<String>| {
            write.kind == WriteKind::Insert || index.iter().any(|name| write.columns.contains(name))
        };
        Ok(indexes.iter().filter(touched).count() as u64)
    }
}

fn load(conn: &Rc<Handle>, table: &str) -> Result<Vec<Vec<String>>, StorageError> {
    // The primary key of a table without rowid is the table itself and has no row here.
    let mut stmt = Stmt::trusted(
        conn,
        "SELECT m.name, x.name FROM sqlite_schema m, pragma_index_xinfo(m.name) x \
         WHERE m.type = 'index' AND m.tbl_name = ?1 COLLATE NOCASE AND x.key ORDER BY m.rowid",
    )?;
    stmt.bind_text(1, table.as_bytes())?;
    let mut indexes: Vec<Vec<String>> = Vec::new();
    let mut current: Vec<u8> = Vec::new();
    while stmt.step()? {
        let ValueRef::Text(index) = stmt.value(0) else {
            continue;
        };
        if current != index || indexes.is_empty() {
            current = index.to_vec();
            indexes.push(Vec::new());
        }
        if let (ValueRef::Text(column), Some(columns)) = (stmt.value(1), indexes.last_mut()) {
            columns.push(String::from_utf8_lossy(column).into_owned());
        }
    }
    Ok(indexes)
}
