//! Cursors: statements that stand on a row, and rows that wait for their reader.

use std::sync::Arc;

use crate::accounting::Counts;
use crate::cell::CellDb;
use crate::error::StorageError;
use crate::stmt::{SqlValue, Stmt, ValueRef};

/// Names a cursor. One that is finished or closed is never mistaken for a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CursorId(u64);

/// Bits of a cursor's number that count the uses of its slot.
const GENERATION_BITS: u32 = 20;

fn next_generation(generation: u32) -> u32 {
    (generation + 1) & ((1 << GENERATION_BITS) - 1)
}

impl CursorId {
    /// The raw number, below 2^53, so that a script engine can carry it.
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

/// Where a cursor's rows come from.
pub(crate) enum Source {
    /// The statement stands on a row.
    Live {
        stmt: Stmt,
        /// Its row was sent already. A row is left only when the next one is asked for, so that
        /// the reader decides what happens in between.
        sent: bool,
        /// Where it goes when it is done.
        text: Option<Box<str>>,
    },
    /// Rows that a writing statement returned: it has to end before the transaction can.
    Buffered {
        values: std::vec::IntoIter<SqlValue>,
    },
}

/// A cursor.
pub(crate) struct Cursor {
    pub source: Source,
    pub columns: Arc<[String]>,
    pub counts: Counts,
}

impl Cursor {
    fn is_live(&self) -> bool {
        matches!(self.source, Source::Live { .. })
    }
}

/// The cell's cursors.
#[derive(Default)]
pub(crate) struct Cursors {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

/// Why a cursor ended before its last row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CursorEnd {
    /// It finished, or somebody closed it or the database.
    #[default]
    Closed,
    /// `deleteAll()` took its data away.
    Deleted,
    /// It kept the WAL from being emptied for too long.
    TooOld,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    /// Why the cursor of the generation before ended.
    last_end: CursorEnd,
    cursor: Option<Cursor>,
}

impl Cursors {
    /// Number of open cursors that hold a running statement.
    pub fn live(&self) -> usize {
        let open = self.slots.iter().filter_map(|slot| slot.cursor.as_ref());
        open.filter(|cursor| cursor.is_live()).count()
    }

    /// Ends all cursors.
    pub fn clear(&mut self, why: CursorEnd) {
        for index in 0..self.slots.len() {
            self.end(index, why);
        }
    }

    /// Ends those that hold a running statement.
    pub fn end_live(&mut self, why: CursorEnd) {
        for index in 0..self.slots.len() {
            if matches!(&self.slots[index].cursor, Some(cursor) if cursor.is_live()) {
                self.end(index, why);
            }
        }
    }

    fn end(&mut self, index: usize, why: CursorEnd) -> Option<Cursor> {
        let slot = self.slots.get_mut(index)?;
        let cursor = slot.cursor.take()?;
        slot.generation = next_generation(slot.generation);
        slot.last_end = why;
        self.free.push(index);
        Some(cursor)
    }

    pub fn add(&mut self, cursor: Cursor) -> CursorId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.cursor = Some(cursor);
        CursorId::new(index, slot.generation)
    }

    fn get(&mut self, id: CursorId) -> Result<&mut Cursor, StorageError> {
        let Some(slot) = self.slots.get_mut(id.index()) else {
            return Err(StorageError::CursorInvalid);
        };
        match &mut slot.cursor {
            Some(cursor) if slot.generation == id.generation() => Ok(cursor),
            _ if slot.generation == next_generation(id.generation()) => Err(match slot.last_end {
                CursorEnd::Closed => StorageError::CursorInvalid,
                CursorEnd::Deleted => StorageError::CursorDeleted,
                CursorEnd::TooOld => StorageError::CursorTooOld,
            }),
            _ => Err(StorageError::CursorInvalid),
        }
    }

    fn take(&mut self, id: CursorId) -> Option<Cursor> {
        self.get(id).ok()?;
        self.end(id.index(), CursorEnd::Closed)
    }
}

impl CellDb {
    /// Hands up to `max_rows` rows to `sink`, and stays on the last one. When it answers `done`, or an error, the cursor
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
            match &mut cursor.source {
                Source::Live { stmt, sent, .. } => {
                    if *sent {
                        match stmt.step() {
                            Ok(more) => done = !more,
                            Err(error) => failure = Some(error),
                        }
                        cursor.counts.scan(stmt);
                    }
                    if done || failure.is_some() {
                        break;
                    }
                    cursor.counts.returned += u64::from(*sent);
                    *sent = true;
                    sink.begin_row(cursor.columns.len());
                    for column in 0..stmt.column_count() {
                        stmt.value(column).send(sink);
                    }
                }
                Source::Buffered { values } => {
                    done = values.len() == 0;
                    if done {
                        break;
                    }
                    sink.begin_row(cursor.columns.len());
                    for value in values.by_ref().take(cursor.columns.len()) {
                        value.as_ref().send(sink);
                    }
                }
            }
            if !sink.end_row() {
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
        if let Some(Cursor {
            source: Source::Live { stmt, text, .. },
            ..
        }) = self.cursors.take(id)
        {
            self.give_back(stmt, text);
        }
    }
}

impl SqlValue {
    pub(crate) fn heap_bytes(&self) -> usize {
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
    pub(crate) fn to_owned(self) -> SqlValue {
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
