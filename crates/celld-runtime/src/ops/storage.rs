//! Key-value storage, alarms and transactions of a cell.

use std::cell::RefCell;
use std::rc::Rc;

use celld_storage::{CellDb, ListOptions, RowSink, StorageError};
use deno_core::{OpState, op2, v8};
use deno_error::JsErrorBox;

use super::clone;
use crate::exchange::reply;
use crate::state::{CallAnswer, Cell, HostState};

/// Turns a storage failure into what the script sees; a critical one also resets the cell.
pub(super) fn failure(state: &mut HostState, slot: u32, error: StorageError) -> JsErrorBox {
    let text = error.to_string();
    if error.is_critical() {
        let reset = crate::exchange::EventError::reset(text.clone());
        state.resets.push((slot, reset));
    }
    match error {
        StorageError::KeyTooLong { .. } | StorageError::ValueTooLong { .. } => {
            JsErrorBox::range_error(text)
        }
        _ => JsErrorBox::generic(text),
    }
}

/// The database of an instance, opened if need be. The turn's end will look at the cell.
pub(super) fn with_db<T>(
    state: &mut OpState,
    slot: u32,
    work: impl FnOnce(&mut CellDb) -> Result<T, StorageError>,
) -> Result<T, JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let code = state.config.code.clone();
    let watched = state.watched.clone();
    let Some(cell) = state.cell_of(slot) else {
        return Err(JsErrorBox::generic(
            "Cannot access storage because object has moved to a different machine.",
        ));
    };
    let outcome = match open(cell, &code) {
        Ok(db) => {
            if let Some(watched) = &watched {
                watched.sql_begins(db.interrupt_handle());
            }
            let outcome = work(db);
            if let Some(watched) = &watched {
                watched.sql_ended();
            }
            outcome
        }
        Err(error) => Err(error),
    };
    state.touch(slot);
    outcome.map_err(|error| failure(state, slot, error))
}

/// Opens a cell's database from the image that it came with.
pub fn open<'c>(
    cell: &'c mut Cell,
    code: &crate::api::WorkerCode,
) -> Result<&'c mut CellDb, StorageError> {
    if cell.db.is_none() {
        let sqlite_api = code
            .classes
            .iter()
            .find(|class| class.namespace == cell.image.cell.namespace)
            .is_none_or(|class| class.sqlite);
        let options = celld_storage::OpenOptions {
            sqlite_api,
            ..Default::default()
        };
        let image = celld_storage::Image {
            snapshot: cell.image.snapshot.as_deref(),
            tail: &cell.image.tail,
            txid: cell.image.txid,
        };
        let db = CellDb::create(&cell.image.database, options, image)?;
        // The image has served: the file holds its contents from here on.
        cell.image.snapshot = None;
        cell.image.tail = Vec::new();
        cell.db = Some(db);
    }
    Ok(cell.db.as_mut().expect("opened above"))
}

/// What a script sees of a value that cannot be read.
fn unreadable(key: &str, size_bytes: usize) -> JsErrorBox {
    JsErrorBox::generic(format!(
        "The value stored under the key {key:?} cannot be read: its {size_bytes} bytes are not those of a serialized value. Overwrite or delete the key."
    ))
}

/// A value; undefined when the key is missing.
#[op2]
pub fn op_kv_get<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut OpState,
    slot: u32,
    #[string] key: &str,
) -> Result<v8::Local<'s, v8::Value>, JsErrorBox> {
    let found = with_db(state, slot, |db| {
        db.kv_get_with(key, |bytes| {
            clone::deserialize(scope, bytes).ok_or_else(|| unreadable(key, bytes.len()))
        })
    })?;
    match found {
        Some(value) => value,
        None => Ok(v8::undefined(scope).into()),
    }
}

/// Stores a value. `refuse` throws for what cannot be stored.
#[op2(nofast, reentrant)]
pub fn op_kv_put<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: Rc<RefCell<OpState>>,
    slot: u32,
    #[string] key: String,
    value: v8::Local<'s, v8::Value>,
    refuse: v8::Local<'s, v8::Function>,
) -> Result<(), JsErrorBox> {
    match clone::serialize(scope, value, refuse) {
        Some(bytes) => with_db(&mut state.borrow_mut(), slot, |db| db.kv_put(&key, &bytes)),
        // The exception is on its way.
        None => Ok(()),
    }
}

/// Stores keys and values, given in turn: all of them, or none when one cannot be serialized.
#[op2(nofast, reentrant)]
pub fn op_kv_put_many<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: Rc<RefCell<OpState>>,
    slot: u32,
    entries: v8::Local<'s, v8::Array>,
    refuse: v8::Local<'s, v8::Function>,
) -> Result<(), JsErrorBox> {
    let mut all = Vec::with_capacity(entries.length() as usize / 2);
    for index in (0..entries.length()).step_by(2) {
        let (Some(key), Some(value)) = (
            entries.get_index(scope, index),
            entries.get_index(scope, index + 1),
        ) else {
            return Ok(());
        };
        let key = super::to_text(scope, key);
        let Some(bytes) = clone::serialize(scope, value, refuse) else {
            return Ok(());
        };
        all.push((key, bytes));
    }
    with_db(&mut state.borrow_mut(), slot, |db| {
        all.iter()
            .try_for_each(|(key, bytes)| db.kv_put(key, bytes))
    })
}

/// Removes a key; true when it was there.
#[op2(fast)]
pub fn op_kv_delete(
    state: &mut OpState,
    slot: u32,
    #[string] key: &str,
) -> Result<bool, JsErrorBox> {
    with_db(state, slot, |db| db.kv_delete(key))
}

/// Which keys to list, as a script's options say it. `limit` 0 means none.
type Range = (
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    bool,
    u32,
);

fn list_options((start, start_after, end, prefix, reverse, limit): &Range) -> ListOptions<'_> {
    ListOptions {
        start: start.as_deref(),
        start_after: start_after.as_deref(),
        end: end.as_deref(),
        prefix: prefix.as_deref(),
        reverse: *reverse,
        limit: (*limit > 0).then_some(u64::from(*limit)),
    }
}

/// Makes keys and values of the rows of a list.
struct Entries<'a, 's, 'i> {
    scope: &'a mut v8::PinScope<'s, 'i>,
    flat: Vec<v8::Local<'s, v8::Value>>,
    key: String,
    failure: Option<JsErrorBox>,
}

impl<'a, 's, 'i> Entries<'a, 's, 'i> {
    fn new(scope: &'a mut v8::PinScope<'s, 'i>) -> Self {
        Self {
            scope,
            flat: Vec::new(),
            key: String::new(),
            failure: None,
        }
    }

    fn finish(self) -> Result<v8::Local<'s, v8::Array>, JsErrorBox> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(v8::Array::new_with_elements(self.scope, &self.flat)),
        }
    }
}

impl RowSink for Entries<'_, '_, '_> {
    fn text(&mut self, key: &str) {
        key.clone_into(&mut self.key);
        self.flat.push(super::text(self.scope, key));
    }
    fn blob(&mut self, value: &[u8]) {
        match clone::deserialize(self.scope, value) {
            Some(value) => self.flat.push(value),
            None => self.failure = Some(unreadable(&self.key, value.len())),
        }
    }
    fn null(&mut self) {
        self.failure = Some(unreadable(&self.key, 0));
    }
    fn integer(&mut self, _: i64) {
        self.null();
    }
    fn real(&mut self, _: f64) {
        self.null();
    }
    fn end_row(&mut self) -> bool {
        self.failure.is_none()
    }
}

/// Keys and values in turn.
#[op2]
#[allow(clippy::too_many_arguments)]
pub fn op_kv_list<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut OpState,
    slot: u32,
    #[string] start: Option<String>,
    #[string] start_after: Option<String>,
    #[string] end: Option<String>,
    #[string] prefix: Option<String>,
    reverse: bool,
    limit: u32,
) -> Result<v8::Local<'s, v8::Array>, JsErrorBox> {
    let range = (start, start_after, end, prefix, reverse, limit);
    let mut entries = Entries::new(scope);
    with_db(state, slot, |db| {
        let Some(cursor) = db.kv_cursor(&list_options(&range))?.cursor else {
            return Ok(());
        };
        db.cursor_next(cursor, usize::MAX, &mut entries)?;
        // Without effect on one that has come to its end.
        db.cursor_close(cursor);
        Ok(())
    })?;
    entries.finish()
}

/// Lists lazily: the number of a cursor, 0 when nothing is there.
#[op2]
#[allow(clippy::too_many_arguments)]
pub fn op_kv_list_open(
    state: &mut OpState,
    slot: u32,
    #[string] start: Option<String>,
    #[string] start_after: Option<String>,
    #[string] end: Option<String>,
    #[string] prefix: Option<String>,
    reverse: bool,
    limit: u32,
) -> Result<f64, JsErrorBox> {
    let range = (start, start_after, end, prefix, reverse, limit);
    let outcome = with_db(state, slot, |db| db.kv_cursor(&list_options(&range)))?;
    Ok(outcome.cursor.map_or(0.0, super::sql::to_number))
}

/// The next key and value of a list; nothing at its end.
#[op2]
pub fn op_kv_list_next<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut OpState,
    slot: u32,
    cursor: f64,
) -> Result<v8::Local<'s, v8::Array>, JsErrorBox> {
    let mut entries = Entries::new(scope);
    with_db(state, slot, |db| {
        db.cursor_next(super::sql::from_number(cursor), 1, &mut entries)
    })?;
    entries.finish()
}

/// Removes everything, the alarm included.
#[op2(fast)]
pub fn op_kv_delete_all(state: &mut OpState, slot: u32) -> Result<(), JsErrorBox> {
    let keeps_alarm = state.borrow::<HostState>().config.code.lacks_flag(
        "2026-02-24",
        "delete_all_deletes_alarm",
        "delete_all_preserves_alarm",
    );
    with_db(state, slot, |db| db.delete_all(!keeps_alarm))?;
    if !keeps_alarm && let Some(cell) = state.borrow_mut::<HostState>().cell_of(slot) {
        cell.alarm_changed = cell.alarm_running.is_some();
    }
    Ok(())
}

/// The alarm's time in ms since the epoch; -1 when none is set. An alarm whose handler runs
/// counts as none, until the handler sets another.
#[op2(fast)]
pub fn op_alarm_get(state: &mut OpState, slot: u32) -> Result<f64, JsErrorBox> {
    if let Some(cell) = state.borrow_mut::<HostState>().cell_of(slot)
        && cell.alarm_running.is_some()
        && !cell.alarm_changed
    {
        return Ok(-1.0);
    }
    let at = with_db(state, slot, CellDb::get_alarm)?;
    Ok(at.map_or(-1.0, |at| at as f64))
}

/// Sets the alarm; -1 clears it.
#[op2(fast)]
pub fn op_alarm_set(state: &mut OpState, slot: u32, at: f64) -> Result<(), JsErrorBox> {
    with_db(state, slot, |db| {
        db.set_alarm((at >= 0.0).then_some(at as i64))
    })?;
    if let Some(cell) = state.borrow_mut::<HostState>().cell_of(slot) {
        cell.alarm_changed = cell.alarm_running.is_some();
    }
    Ok(())
}

/// Begins a nested transaction and returns its depth. Before one that may span turns, what was
/// written is committed: outputs made inside wait for that, not for the transaction's end, so
/// that a transaction may wait for an answer from outside.
#[op2(fast)]
pub fn op_storage_nest(state: &mut OpState, slot: u32, spans: bool) -> Result<u32, JsErrorBox> {
    if spans {
        let host = state.borrow_mut::<HostState>();
        if let Err(error) = host.begin_spanning(slot) {
            host.resets.push((slot, error.clone()));
            return Err(JsErrorBox::generic(error.message));
        }
    }
    with_db(state, slot, CellDb::begin_nested)
}

/// Keeps what a nested transaction did.
#[op2(fast)]
pub fn op_storage_release(state: &mut OpState, slot: u32, depth: u32) -> Result<(), JsErrorBox> {
    let outcome = with_db(state, slot, |db| db.release_nested(depth));
    state.borrow_mut::<HostState>().end_spanning(slot);
    outcome
}

/// Undoes what a nested transaction did.
#[op2(fast)]
pub fn op_storage_rollback(state: &mut OpState, slot: u32, depth: u32) -> Result<(), JsErrorBox> {
    let outcome = with_db(state, slot, |db| db.rollback_nested(depth));
    state.borrow_mut::<HostState>().end_spanning(slot);
    outcome
}

/// Completes when everything written before is proven. Returns the number of the wait.
#[op2(fast)]
pub fn op_storage_sync(state: &mut OpState, slot: u32) -> u32 {
    let state = state.borrow_mut::<HostState>();
    let (reply, answer) = reply();
    state.emit(slot, Box::new(move |gate| reply.send(gate)));
    state.wait_for(answer, |()| CallAnswer::Done)
}
