//! A cell with its history, and ways to look into a database file from outside.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use celld_core::Txid;
use celld_storage::{
    CellDb, CursorId, Image, OpenOptions, RowSink, SqlOutcome, SqlValue, StorageError,
};

/// A cell in a directory of its own, with every segment it made.
pub struct Cell {
    pub db: CellDb,
    pub segments: Vec<Bytes>,
    pub dir: tempfile::TempDir,
}

impl Cell {
    pub fn new() -> Self {
        Self::with(OpenOptions::default())
    }

    pub fn with(options: OpenOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = CellDb::create(&dir.path().join("cell"), options, Image::default()).unwrap();
        Self {
            db,
            segments: Vec::new(),
            dir,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("cell")
    }

    /// Commits and keeps the segment. True when there was one.
    pub fn commit(&mut self) -> bool {
        match self.db.commit().unwrap() {
            Some(committed) => {
                assert_eq!(committed.txid, self.db.txid());
                assert_eq!(
                    celld_storage::segment_txid(&committed.segment),
                    Some(committed.txid)
                );
                self.segments.push(committed.segment);
                true
            }
            None => false,
        }
    }

    pub fn run(&mut self, sql: &str) -> Result<Vec<Vec<SqlValue>>, StorageError> {
        self.run_with(sql, &[])
    }

    pub fn run_with(
        &mut self,
        sql: &str,
        bindings: &[SqlValue],
    ) -> Result<Vec<Vec<SqlValue>>, StorageError> {
        let outcome = self.db.sql_exec(sql, bindings)?;
        self.rest(&outcome)
    }

    pub fn rest(&mut self, outcome: &SqlOutcome) -> Result<Vec<Vec<SqlValue>>, StorageError> {
        let mut rows = Rows::default();
        if let Some(cursor) = outcome.cursor {
            while !self.db.cursor_next(cursor, 3, &mut rows)?.done {}
        }
        Ok(rows.0)
    }

    pub fn next(&mut self, cursor: CursorId) -> Result<(Vec<SqlValue>, bool), StorageError> {
        let mut rows = Rows::default();
        let step = self.db.cursor_next(cursor, 1, &mut rows)?;
        Ok((rows.0.pop().unwrap_or_default(), step.done))
    }

    /// The message of the error that `sql` gives.
    pub fn error(&mut self, sql: &str) -> String {
        match self.run(sql) {
            Ok(rows) => panic!("{sql} gave {rows:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// Builds the cell again from a snapshot and the segments made so far.
    pub fn restored(&self, snapshot: Option<&[u8]>) -> Restored {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("again");
        let image = Image {
            snapshot,
            tail: &self.segments,
            txid: self.db.txid(),
        };
        let db = CellDb::create(&path, OpenOptions::default(), image).unwrap();
        Restored {
            db,
            path,
            _dir: dir,
        }
    }
}

pub struct Restored {
    pub db: CellDb,
    pub path: PathBuf,
    _dir: tempfile::TempDir,
}

/// Collects rows.
#[derive(Default)]
pub struct Rows(pub Vec<Vec<SqlValue>>);

impl Rows {
    fn push(&mut self, value: SqlValue) {
        self.0.last_mut().expect("a row has begun").push(value);
    }
}

impl RowSink for Rows {
    fn begin_row(&mut self, columns: usize) {
        self.0.push(Vec::with_capacity(columns));
    }
    fn null(&mut self) {
        self.push(SqlValue::Null);
    }
    fn integer(&mut self, value: i64) {
        self.push(SqlValue::Integer(value));
    }
    fn real(&mut self, value: f64) {
        self.push(SqlValue::Real(value));
    }
    fn text(&mut self, value: &str) {
        self.push(SqlValue::Text(value.to_owned()));
    }
    fn blob(&mut self, value: &[u8]) {
        self.push(SqlValue::Blob(value.to_vec()));
    }
}

/// Every row of every table of a closed database file, read by SQLite itself after an integrity
/// check. The file is copied, so that looking does not change it.
pub fn dump(path: &Path) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    std::fs::copy(path, &copy).unwrap();
    let conn = rusqlite::Connection::open(&copy).unwrap();
    let check: String = conn
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    let mut out = vec![format!("integrity: {check}")];
    let mut tables = conn
        .prepare("SELECT name, type, sql, rootpage FROM sqlite_master ORDER BY type, name")
        .unwrap();
    let mut names = Vec::new();
    let mut rows = tables.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        out.push(format!("{row:?}"));
        let sql: Option<String> = row.get(2).unwrap();
        if row.get::<_, String>(1).unwrap() == "table"
            && !sql.unwrap_or_default().starts_with("CREATE VIRTUAL")
        {
            names.push(row.get::<_, String>(0).unwrap());
        }
    }
    for name in names {
        let quoted = name.replace('"', "\"\"");
        let mut stmt = conn
            .prepare(&format!("SELECT * FROM \"{quoted}\""))
            .unwrap();
        let mut rows = stmt.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            out.push(format!("{name}: {row:?}"));
        }
    }
    out
}

pub fn txid(raw: u64) -> Txid {
    Txid::new(raw)
}
