//! The database that every cell begins with, built once per process.

use std::sync::OnceLock;

use crate::conn::{Handle, InterruptHandle};
use crate::error::{SqlError, StorageError};
use crate::options::OpenOptions;

/// Tables of the engine. The alarm is row 1 of `_cf_METADATA`, in milliseconds since 1970.
const SCHEMA: &str = "PRAGMA page_size=4096;\
    CREATE TABLE _cf_KV (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;\
    CREATE TABLE _cf_METADATA (key INTEGER PRIMARY KEY, value BLOB);";

/// The bytes of an empty cell's database file.
pub(crate) fn image() -> Result<&'static [u8], StorageError> {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(image) = IMAGE.get() {
        return Ok(image);
    }
    let built = build()?;
    Ok(IMAGE.get_or_init(|| built))
}

fn build() -> Result<Vec<u8>, StorageError> {
    let conn = Handle::open(None, &OpenOptions::default(), &InterruptHandle::default())?;
    conn.run_trusted(SCHEMA)?;
    let mut image = conn.serialize().ok_or_else(|| SqlError {
        code: rusqlite::ffi::SQLITE_NOMEM,
        message: "out of memory: SQLITE_NOMEM".into(),
        critical: true,
    })?;
    // Bytes 18 and 19 of the header say which journal the file needs: 2 is the WAL.
    image[18] = 2;
    image[19] = 2;
    Ok(image)
}
