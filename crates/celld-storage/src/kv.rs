//! Keys and values: opaque bytes under text keys, ordered by the keys' UTF-8 bytes.

use crate::cell::{CellDb, Fixed};
use crate::cursor::{CursorEnd, RowSink};
use crate::error::StorageError;
use crate::sql::SqlOutcome;
use crate::stmt::{Stmt, ValueRef};

/// Which keys to list, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListOptions<'a> {
    /// First key, inclusive.
    pub start: Option<&'a str>,
    /// First key, exclusive. With `start` as well, the later bound holds.
    pub start_after: Option<&'a str>,
    /// Last key, exclusive.
    pub end: Option<&'a str>,
    /// Only keys that begin so.
    pub prefix: Option<&'a str>,
    /// From the last key to the first.
    pub reverse: bool,
    /// Most entries.
    pub limit: Option<u64>,
}

impl ListOptions<'_> {
    /// Bounds of the range as bytes: first key inclusive, end exclusive.
    fn bounds(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let after = self.start_after.map(|key| {
            let mut next = key.as_bytes().to_vec();
            next.push(0);
            next
        });
        let start = self.start.map(|key| key.as_bytes().to_vec());
        let prefix = self.prefix.map(|key| key.as_bytes().to_vec());
        let first = [after, start, prefix.clone()]
            .into_iter()
            .flatten()
            .max()
            .unwrap_or_default();
        let end = self.end.map(|key| key.as_bytes().to_vec());
        let past = prefix.and_then(after_prefix);
        (first, [end, past].into_iter().flatten().min())
    }
}

/// The first byte string after all that begin with `prefix`.
fn after_prefix(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < 0xff {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

impl CellDb {
    fn check_key(&self, key: &str) -> Result<(), StorageError> {
        if self.options.sqlite_api || key.len() <= self.options.kv_key_max_bytes {
            return Ok(());
        }
        Err(StorageError::KeyTooLong {
            limit_bytes: self.options.kv_key_max_bytes,
            size_bytes: key.len(),
        })
    }

    /// Reads a value.
    pub fn kv_get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StorageError> {
        self.kv_get_with(key, <[u8]>::to_vec)
    }

    /// Reads a value in place.
    pub fn kv_get_with<R>(
        &mut self,
        key: &str,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StorageError> {
        self.check_key(key)?;
        self.run_fixed(
            Fixed::KvGet,
            |stmt| stmt.bind_text(1, key.as_bytes()),
            |stmt| match stmt.value(0) {
                ValueRef::Blob(bytes) | ValueRef::Text(bytes) => read(bytes),
                _ => read(&[]),
            },
        )
    }

    /// Writes a value.
    pub fn kv_put(&mut self, key: &str, value: &[u8]) -> Result<(), StorageError> {
        self.check_key(key)?;
        if !self.options.sqlite_api && value.len() > self.options.kv_value_max_bytes {
            return Err(StorageError::ValueTooLong {
                limit_bytes: self.options.kv_value_max_bytes,
                size_bytes: value.len(),
            });
        }
        self.ensure_transaction()?;
        let bind = |stmt: &mut Stmt| {
            stmt.bind_text(1, key.as_bytes())?;
            stmt.bind_blob(2, value)
        };
        self.run_fixed(Fixed::KvPut, bind, |_| ()).map(|_| ())
    }

    /// Deletes a key. True when it was there.
    pub fn kv_delete(&mut self, key: &str) -> Result<bool, StorageError> {
        self.check_key(key)?;
        self.ensure_transaction()?;
        let before = self.opened()?.conn.total_changes();
        self.run_fixed(
            Fixed::KvDelete,
            |stmt| stmt.bind_text(1, key.as_bytes()),
            |_| (),
        )?;
        Ok(self.opened()?.conn.total_changes() > before)
    }

    /// Lists keys and values in the order of the keys' UTF-8 bytes.
    pub fn kv_list(
        &mut self,
        list: &ListOptions<'_>,
    ) -> Result<Vec<(String, Vec<u8>)>, StorageError> {
        #[derive(Default)]
        struct Collect(Vec<(String, Vec<u8>)>);
        impl RowSink for Collect {
            fn text(&mut self, value: &str) {
                self.0.push((value.to_owned(), Vec::new()));
            }
            fn blob(&mut self, value: &[u8]) {
                if let Some(entry) = self.0.last_mut() {
                    entry.1 = value.to_vec();
                }
            }
            fn null(&mut self) {}
            fn integer(&mut self, _: i64) {}
            fn real(&mut self, _: f64) {}
        }
        let mut all = Collect::default();
        let outcome = self.kv_cursor(list)?;
        if let Some(cursor) = outcome.cursor {
            while !self.cursor_next(cursor, usize::MAX, &mut all)?.done {}
        }
        Ok(all.0)
    }

    /// Lists lazily: a cursor whose rows have two columns, the key (text) and the value (blob).
    pub fn kv_cursor(&mut self, list: &ListOptions<'_>) -> Result<SqlOutcome, StorageError> {
        let (first, end) = list.bounds();
        let sql = match (end.is_some(), list.reverse) {
            (false, false) => "SELECT key, value FROM _cf_KV WHERE key >= ?1 ORDER BY key LIMIT ?2",
            (false, true) => {
                "SELECT key, value FROM _cf_KV WHERE key >= ?1 ORDER BY key DESC LIMIT ?2"
            }
            (true, false) => {
                "SELECT key, value FROM _cf_KV WHERE key >= ?1 AND key < ?3 ORDER BY key LIMIT ?2"
            }
            (true, true) => {
                "SELECT key, value FROM _cf_KV WHERE key >= ?1 AND key < ?3 ORDER BY key DESC LIMIT ?2"
            }
        };
        let limit = list
            .limit
            .map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        self.trusted_cursor(sql, |stmt| {
            stmt.bind_text(1, &first)?;
            stmt.bind_i64(2, limit)?;
            end.as_deref().map_or(Ok(()), |end| stmt.bind_text(3, end))
        })
    }

    /// Removes everything that the script made: keys, tables, indexes, views, triggers, virtual
    /// tables; whole or not at all. It is a part of the implicit transaction. The alarm goes
    /// only with `and_alarm`. Open cursors end.
    pub fn delete_all(&mut self, and_alarm: bool) -> Result<(), StorageError> {
        if self.depth() > 0 {
            return Err(StorageError::DeleteAllInTransaction);
        }
        self.cursors.clear(CursorEnd::Deleted);
        let depth = self.begin_nested()?;
        match self.drop_everything(and_alarm) {
            Ok(()) => self.release_nested(depth)?,
            Err(error) => {
                self.rollback_nested(depth)?;
                return Err(error);
            }
        }
        self.shrink_at_commit();
        Ok(())
    }

    fn drop_everything(&mut self, and_alarm: bool) -> Result<(), StorageError> {
        self.run_trusted("PRAGMA defer_foreign_keys=ON; DELETE FROM _cf_KV")?;
        // Triggers and views first, so that nothing refers to what is gone; virtual tables
        // before plain ones, because they drop their own shadow tables.
        let order = "SELECT type, name FROM sqlite_master \
            WHERE type IN ('trigger', 'view', 'table') AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' \
            AND name <> 'sqlite_sequence' \
            ORDER BY type = 'table', type = 'view', sql NOT LIKE 'CREATE VIRTUAL%' LIMIT 1";
        loop {
            let mut stmt = Stmt::trusted(&self.opened()?.conn, order)?;
            if !stmt.step().map_err(|error| self.failed(error))? {
                break;
            }
            let (ValueRef::Text(kind), ValueRef::Text(name)) = (stmt.value(0), stmt.value(1))
            else {
                break;
            };
            let kind = String::from_utf8_lossy(kind);
            let name = String::from_utf8_lossy(name).replace('"', "\"\"");
            let drop = format!("DROP {kind} \"{name}\"");
            stmt.reset();
            self.run_trusted(&drop)?;
        }
        // What the script does next in this transaction is checked at once again.
        self.run_trusted("PRAGMA defer_foreign_keys=OFF")?;
        self.opened()?.conn.forget_last_insert();
        if and_alarm {
            self.set_alarm(None)?;
        }
        Ok(())
    }

    fn run_trusted(&mut self, sql: &str) -> Result<(), StorageError> {
        match self.opened()?.conn.run_trusted(sql) {
            Err(StorageError::Sql(error)) => Err(self.failed(error)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_sibling() {
        assert_eq!(after_prefix(b"ab".to_vec()), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(vec![1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(vec![0xff]), None);
        assert_eq!(after_prefix(Vec::new()), None);
    }
}
