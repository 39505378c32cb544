//! Buckets: object stores with conditional create, conditional overwrite and ranged reads.
//!
//! Start with [`open_url`]; everything else speaks to the [`Bucket`] that it returns. A bucket
//! knows nothing about cells: keys and bytes only. [`Counted`] wraps any bucket and counts what
//! is asked of it. With the feature `testing` there are a memory bucket whose faults a test
//! scripts, and the contract that every bucket must keep.
//!
//! ```
//! # use celld_bucket::{Condition, Key, PutOutcome, open_url};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let url = format!("file://{}", dir.path().display());
//! let bucket = open_url(&url)?;
//! let key = Key::new("deploy/chat/current")?;
//! if let Some(current) = bucket.get(&key).await? {
//!     let moved = bucket.put(&key, "v2".into(), Condition::IfMatch(current.etag)).await?;
//!     assert_ne!(moved, PutOutcome::Conflict, "someone else has moved the pointer");
//! }
//! # Ok(())
//! # }
//! ```

mod bucket;
mod counted;
mod key;
mod local;
mod url;

#[cfg(feature = "testing")]
pub mod testing;

pub use bucket::{
    Answer, Bucket, BucketError, Cause, Condition, Etag, ListedObject, Listing, Object, Operation,
    PutOutcome,
};
pub use counted::{Count, Counted, Outcome};
pub use key::{BadKey, Key};
pub use local::{LocalBucket, OpenError};
pub use url::{BucketUrl, BucketUrlError, open_url};

/// Most keys that one [`Bucket::list`] returns, whatever its caller asks for.
pub const LIST_MAX: usize = 1_000;
