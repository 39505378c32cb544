//! SQL of a cell.

use celld_storage::{CursorId, RowSink, SqlValue};
use deno_core::{OpState, op2, v8};
use deno_error::JsErrorBox;

use super::storage::with_db;
use crate::state::HostState;

/// Rows that come with the answer of an execution. One: a cursor is live, so rows must not be
/// read before they are asked for; and one is all that most lookups need.
const FIRST_ROWS: usize = 1;

/// Writes rows as V8 values, one after the other.
struct Values<'a, 's, 'i> {
    scope: &'a mut v8::PinScope<'s, 'i>,
    values: Vec<v8::Local<'s, v8::Value>>,
}

impl RowSink for Values<'_, '_, '_> {
    fn null(&mut self) {
        self.values.push(v8::null(self.scope).into());
    }
    // Integers reach scripts as doubles, as on Cloudflare.
    fn integer(&mut self, value: i64) {
        self.values
            .push(v8::Number::new(self.scope, value as f64).into());
    }
    fn real(&mut self, value: f64) {
        self.values.push(v8::Number::new(self.scope, value).into());
    }
    fn text(&mut self, value: &str) {
        self.values.push(super::text(self.scope, value));
    }
    fn blob(&mut self, value: &[u8]) {
        let store = v8::ArrayBuffer::new_backing_store_from_vec(value.to_vec()).make_shared();
        self.values
            .push(v8::ArrayBuffer::with_backing_store(self.scope, &store).into());
    }
}

fn binding(scope: &mut v8::PinScope<'_, '_>, value: v8::Local<v8::Value>) -> SqlValue {
    if value.is_null_or_undefined() {
        SqlValue::Null
    } else if value.is_number() {
        SqlValue::Real(value.number_value(scope).unwrap_or(f64::NAN))
    } else if let Ok(view) = v8::Local::<v8::ArrayBufferView>::try_from(value) {
        let mut copy = vec![0; view.byte_length()];
        view.copy_contents(&mut copy);
        SqlValue::Blob(copy)
    } else {
        SqlValue::Text(super::to_text(scope, value))
    }
}

fn array<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    values: &[v8::Local<'s, v8::Value>],
) -> v8::Local<'s, v8::Value> {
    v8::Array::new_with_elements(scope, values).into()
}

/// Runs SQL: `[cursor (0: all rows are here), columns, values, rows read, rows written]`.
#[op2]
pub fn op_sql_exec<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut OpState,
    slot: u32,
    #[string] sql: &str,
    bindings: v8::Local<v8::Array>,
) -> Result<v8::Local<'s, v8::Array>, JsErrorBox> {
    let values: Vec<SqlValue> = (0..bindings.length())
        .filter_map(|index| {
            let value = bindings.get_index(scope, index)?;
            Some(binding(scope, value))
        })
        .collect();
    let mut rows = Values {
        scope,
        values: Vec::new(),
    };
    let (outcome, cursor, read, written) = with_db(state, slot, |db| {
        let outcome = db.sql_exec(sql, &values)?;
        let Some(cursor) = outcome.cursor else {
            let counts = (outcome.rows_read, outcome.rows_written);
            return Ok((outcome, None, counts.0, counts.1));
        };
        let step = db.cursor_next(cursor, FIRST_ROWS, &mut rows)?;
        Ok((
            outcome,
            (!step.done).then_some(cursor),
            step.rows_read,
            step.rows_written,
        ))
    })?;
    let Values { scope, values } = rows;
    let names: Vec<_> = outcome
        .columns
        .iter()
        .map(|name| super::text(scope, name))
        .collect();
    let parts = [
        v8::Number::new(scope, cursor.map_or(0.0, to_number)).into(),
        array(scope, &names),
        array(scope, &values),
        v8::Number::new(scope, read as f64).into(),
        v8::Number::new(scope, written as f64).into(),
    ];
    Ok(v8::Array::new_with_elements(scope, &parts))
}

/// More rows: `[values, done, rows read, rows written]`.
#[op2]
pub fn op_sql_next<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut OpState,
    slot: u32,
    cursor: f64,
    max_rows: u32,
) -> Result<v8::Local<'s, v8::Array>, JsErrorBox> {
    let mut rows = Values {
        scope,
        values: Vec::new(),
    };
    let step = with_db(state, slot, |db| {
        db.cursor_next(from_number(cursor), max_rows as usize, &mut rows)
    })?;
    let Values { scope, values } = rows;
    let parts = [
        array(scope, &values),
        v8::Boolean::new(scope, step.done).into(),
        v8::Number::new(scope, step.rows_read as f64).into(),
        v8::Number::new(scope, step.rows_written as f64).into(),
    ];
    Ok(v8::Array::new_with_elements(scope, &parts))
}

/// Rows read and written by a cursor that is still open.
#[op2]
pub fn op_sql_counts(
    state: &mut OpState,
    slot: u32,
    cursor: f64,
) -> Result<(f64, f64), JsErrorBox> {
    struct Nothing;
    impl RowSink for Nothing {
        fn null(&mut self) {}
        fn integer(&mut self, _: i64) {}
        fn real(&mut self, _: f64) {}
        fn text(&mut self, _: &str) {}
        fn blob(&mut self, _: &[u8]) {}
    }
    let step = with_db(state, slot, |db| {
        db.cursor_next(from_number(cursor), 0, &mut Nothing)
    })?;
    Ok((step.rows_read as f64, step.rows_written as f64))
}

/// Ends a cursor that no script can reach.
#[op2(fast)]
pub fn op_sql_close(state: &mut OpState, slot: u32, cursor: f64) {
    let state = state.borrow_mut::<HostState>();
    if let Some(db) = state.cell_of(slot).and_then(|cell| cell.db.as_mut()) {
        db.cursor_close(from_number(cursor));
    }
}

/// Size of the database in bytes, without free pages.
#[op2(fast)]
pub fn op_sql_size(state: &mut OpState, slot: u32) -> Result<f64, JsErrorBox> {
    with_db(state, slot, |db| db.database_size().map(|size| size as f64))
}

/// Cursor numbers are passed as doubles: the generation in the high half would have to exceed
/// 2^21 before one could not be told from another.
pub(super) fn to_number(cursor: CursorId) -> f64 {
    // One is added so that no cursor is 0, which stands for "no rows are left".
    (cursor.to_raw() + 1) as f64
}

pub(super) fn from_number(number: f64) -> CursorId {
    CursorId::from_raw((number as u64).wrapping_sub(1))
}
