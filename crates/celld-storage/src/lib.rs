//! One cell's SQLite database: KV and SQL, alarms, transactions, commit capture, snapshot, restore.
//!
//! [`CellDb`] is synchronous and belongs to one thread at a time. Its file is scratch: a commit
//! is durable once the segment that [`CellDb::commit`] answers is in the node log, and
//! [`CellDb::create`] builds the file again from a snapshot and the segments after it.
//!
//! Nothing here knows about networks, buckets or clocks.

mod accounting;
mod authorizer;
mod cache;
mod capture;
mod cell;
mod conn;
mod cursor;
mod error;
mod format;
mod image;
mod kv;
mod math;
mod options;
#[doc(hidden)]
pub mod sabotage;
mod sql;
mod stmt;
mod template;
mod transaction;

pub use cell::{CellDb, Committed};
pub use conn::{InterruptHandle, ProgressHook};
pub use cursor::{CursorId, CursorStep, RowSink};
pub use error::{SqlError, StorageError};
pub use format::{PAGE_SIZE, SEGMENT_VERSION, SNAPSHOT_VERSION, segment_txid};
pub use image::Image;
pub use kv::ListOptions;
pub use options::OpenOptions;
pub use sql::SqlOutcome;
pub use stmt::SqlValue;
pub use transaction::Depth;
