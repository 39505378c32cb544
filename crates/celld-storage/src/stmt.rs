//! A compiled statement: the safe wrapper around `sqlite3_stmt`.
//!
//! A [`Stmt`] owns its statement and a reference to its connection. Values of a row borrow the
//! statement, and stepping needs it mutably, so a value cannot be read after the row is gone.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use rusqlite::ffi;

use crate::authorizer::Traits;
use crate::conn::Handle;
use crate::error::{SqlError, StorageError};

/// A value that goes into a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// SQL NULL.
    Null,
    /// 64-bit integer.
    Integer(i64),
    /// Double. (Workers scripts bind every number as one.)
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// A value of a row, borrowed from the statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// 64-bit integer.
    Integer(i64),
    /// Double.
    Real(f64),
    /// Text; may hold bytes that are not UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

/// SQL text as SQLite wants it: NUL-terminated, so that it needs no copy of its own. At a NUL
/// inside SQLite stops, and the rest counts as a further statement, which is none.
pub(crate) struct SqlText(Vec<u8>);

impl SqlText {
    pub fn new(sql: &str) -> Self {
        let mut bytes = Vec::with_capacity(sql.len() + 1);
        bytes.extend_from_slice(sql.as_bytes());
        bytes.push(0);
        Self(bytes)
    }
}

/// A compiled statement.
pub(crate) struct Stmt {
    raw: *mut ffi::sqlite3_stmt,
    conn: Rc<Handle>,
    /// One of the engine's own.
    pub trusted: bool,
    columns: Option<(c_int, Arc<[String]>)>,
    pub traits: Traits,
}

impl Drop for Stmt {
    fn drop(&mut self) {
        // SAFETY: this wrapper is the statement's only owner, and its connection is open
        // because `conn` holds it.
        unsafe { ffi::sqlite3_finalize(self.raw) };
    }
}

impl Stmt {
    /// Compiles the first statement of `text` from byte `start`. Answers it (`None` when only
    /// space and comments were left) and where the rest begins.
    pub fn compile(
        conn: &Rc<Handle>,
        text: &SqlText,
        start: usize,
        trusted: bool,
    ) -> Result<(Option<Self>, usize), StorageError> {
        let hooks = &conn.hooks;
        hooks.traits.take();
        let rest = &text.0[start..];
        let mut raw = ptr::null_mut();
        let mut tail = ptr::null();
        let before = hooks.trusted.replace(trusted);
        // SAFETY: `rest` ends with a NUL byte and outlives the call; its length counts the NUL.
        let rc = unsafe {
            ffi::sqlite3_prepare_v3(
                conn.raw(),
                rest.as_ptr().cast(),
                c_int::try_from(rest.len()).unwrap_or(c_int::MAX),
                if trusted {
                    ffi::SQLITE_PREPARE_PERSISTENT
                } else {
                    0
                },
                &mut raw,
                &mut tail,
            )
        };
        hooks.trusted.set(before);
        if rc != ffi::SQLITE_OK {
            if hooks.traits.borrow().controls_transaction {
                return Err(StorageError::TransactionStatement);
            }
            let mut error = conn.error(rc);
            // A statement that compiles to too much code ends so; nothing was executed.
            error.critical &= rc != ffi::SQLITE_NOMEM;
            return Err(error.into());
        }
        let end = (tail as usize).saturating_sub(rest.as_ptr() as usize);
        let end = if end == 0 {
            text.0.len() - 1
        } else {
            start + end
        };
        if raw.is_null() {
            return Ok((None, end));
        }
        // SAFETY: `raw` is a statement that was just compiled.
        let readonly = unsafe { ffi::sqlite3_stmt_readonly(raw) != 0 };
        let mut traits = hooks.traits.take();
        traits.needs_transaction |= !readonly;
        let stmt = Self {
            raw,
            conn: conn.clone(),
            trusted,
            columns: None,
            traits,
        };
        Ok((Some(stmt), end))
    }

    /// Compiles one statement of the engine's own.
    pub fn trusted(conn: &Rc<Handle>, sql: &str) -> Result<Self, StorageError> {
        let text = SqlText::new(sql);
        let (stmt, _) = Self::compile(conn, &text, 0, true)?;
        stmt.ok_or(StorageError::NoStatement)
    }

    /// Number of parameters (the largest number, for `?N`).
    pub fn parameter_count(&self) -> usize {
        // SAFETY: `raw` is a live statement.
        usize::try_from(unsafe { ffi::sqlite3_bind_parameter_count(self.raw) }).unwrap_or(0)
    }

    /// Binds a value to parameter `index`, counted from 1. The bytes are copied.
    pub fn bind(&mut self, index: usize, value: &SqlValue) -> Result<(), SqlError> {
        match value {
            SqlValue::Null => self.bind_null(index),
            SqlValue::Integer(value) => self.bind_i64(index, *value),
            SqlValue::Real(value) => self.bind_f64(index, *value),
            SqlValue::Text(value) => self.bind_text(index, value.as_bytes()),
            SqlValue::Blob(value) => self.bind_blob(index, value),
        }
    }

    fn bound(&self, rc: c_int) -> Result<(), SqlError> {
        self.conn.check(rc)
    }

    /// Binds NULL.
    pub fn bind_null(&mut self, index: usize) -> Result<(), SqlError> {
        // SAFETY: `raw` is a live statement; a wrong index is an error code, not undefined.
        let rc = unsafe { ffi::sqlite3_bind_null(self.raw, index as c_int) };
        self.bound(rc)
    }

    /// Binds an integer.
    pub fn bind_i64(&mut self, index: usize, value: i64) -> Result<(), SqlError> {
        // SAFETY: as in `bind_null`.
        let rc = unsafe { ffi::sqlite3_bind_int64(self.raw, index as c_int, value) };
        self.bound(rc)
    }

    /// Binds a double.
    pub fn bind_f64(&mut self, index: usize, value: f64) -> Result<(), SqlError> {
        // SAFETY: as in `bind_null`.
        let rc = unsafe { ffi::sqlite3_bind_double(self.raw, index as c_int, value) };
        self.bound(rc)
    }

    /// Binds text. The bytes need not be UTF-8 (bounds of key ranges are not).
    pub fn bind_text(&mut self, index: usize, text: &[u8]) -> Result<(), SqlError> {
        // SAFETY: as in `bind_null`; SQLITE_TRANSIENT makes SQLite copy the bytes at once, and
        // the pointer is never null, even for an empty slice.
        let rc = unsafe {
            ffi::sqlite3_bind_text64(
                self.raw,
                index as c_int,
                text.as_ptr().cast(),
                text.len() as u64,
                ffi::SQLITE_TRANSIENT(),
                ffi::SQLITE_UTF8 as _,
            )
        };
        self.bound(rc)
    }

    /// Binds bytes.
    pub fn bind_blob(&mut self, index: usize, bytes: &[u8]) -> Result<(), SqlError> {
        // SAFETY: as in `bind_text`.
        let rc = unsafe {
            ffi::sqlite3_bind_blob64(
                self.raw,
                index as c_int,
                bytes.as_ptr().cast(),
                bytes.len() as u64,
                ffi::SQLITE_TRANSIENT(),
            )
        };
        self.bound(rc)
    }

    /// Moves to the next row; false at the end.
    pub fn step(&mut self) -> Result<bool, SqlError> {
        // A schema change makes SQLite compile the statement again, which asks the authorizer.
        self.conn.hooks.trusted.set(self.trusted);
        // SAFETY: `raw` is a live statement of an open connection, and `&mut self` means that
        // no borrowed value of the current row is left.
        let rc = unsafe { ffi::sqlite3_step(self.raw) };
        self.conn.hooks.trusted.set(false);
        match rc {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            _ => Err(self.conn.error(rc)),
        }
    }

    /// Ends the run and forgets the bindings, so that nothing stays pinned.
    pub fn reset(&mut self) {
        // SAFETY: `raw` is a live statement. The code repeats the last step's error, which the
        // caller has seen.
        unsafe {
            ffi::sqlite3_reset(self.raw);
            ffi::sqlite3_clear_bindings(self.raw);
        }
    }

    /// Number of columns in a row.
    pub fn column_count(&self) -> usize {
        // SAFETY: `raw` is a live statement.
        usize::try_from(unsafe { ffi::sqlite3_column_count(self.raw) }).unwrap_or(0)
    }

    /// Names of the columns. Kept, and made anew when SQLite had to compile the statement again.
    pub fn columns(&mut self) -> Arc<[String]> {
        let compiled = self.status(ffi::SQLITE_STMTSTATUS_REPREPARE);
        if let Some((at, names)) = &self.columns
            && *at == compiled
        {
            return names.clone();
        }
        let names: Arc<[String]> = (0..self.column_count())
            .map(|index| {
                // SAFETY: `raw` is live and `index` in range; the text (null when memory ran
                // out) is copied before any other call.
                unsafe {
                    let name = ffi::sqlite3_column_name(self.raw, index as c_int);
                    if name.is_null() {
                        String::new()
                    } else {
                        CStr::from_ptr(name).to_string_lossy().into_owned()
                    }
                }
            })
            .collect();
        self.columns = Some((compiled, names.clone()));
        names
    }

    /// The current row's value in a column, counted from 0.
    pub fn value(&self, column: usize) -> ValueRef<'_> {
        let column = column as c_int;
        // SAFETY: `raw` is live; out of range or without a row, SQLite answers NULL. The type
        // is asked first and only the matching accessor is called, so no conversion moves the
        // bytes, which stay valid until the next step, reset or finalize: all need `&mut self`
        // or ownership.
        unsafe {
            match ffi::sqlite3_column_type(self.raw, column) {
                ffi::SQLITE_INTEGER => {
                    ValueRef::Integer(ffi::sqlite3_column_int64(self.raw, column))
                }
                ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_column_double(self.raw, column)),
                ffi::SQLITE_TEXT => {
                    let data = ffi::sqlite3_column_text(self.raw, column);
                    ValueRef::Text(self.bytes(data.cast(), column))
                }
                ffi::SQLITE_BLOB => {
                    let data = ffi::sqlite3_column_blob(self.raw, column);
                    ValueRef::Blob(self.bytes(data.cast(), column))
                }
                _ => ValueRef::Null,
            }
        }
    }

    /// The current row's value in a column, if it is an integer.
    pub fn integer(&self, column: usize) -> Option<i64> {
        match self.value(column) {
            ValueRef::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// # Safety
    /// `data` is null or what the accessor for `column`'s own type answered just before.
    unsafe fn bytes(&self, data: *const u8, column: c_int) -> &[u8] {
        // SAFETY: `raw` is live; sqlite3_column_bytes gives the length of what `data` points at.
        unsafe {
            let len = ffi::sqlite3_column_bytes(self.raw, column);
            match usize::try_from(len) {
                Ok(len) if len > 0 && !data.is_null() => std::slice::from_raw_parts(data, len),
                _ => &[],
            }
        }
    }

    /// A counter of the statement, since the last [`Stmt::take_status`].
    pub fn status(&self, counter: c_int) -> c_int {
        // SAFETY: `raw` is live.
        unsafe { ffi::sqlite3_stmt_status(self.raw, counter, 0) }
    }

    /// Reads a counter and sets it back to zero.
    pub fn take_status(&mut self, counter: c_int) -> c_int {
        // SAFETY: `raw` is live.
        unsafe { ffi::sqlite3_stmt_status(self.raw, counter, 1) }
    }
}
