//! The trait, and what goes in and out of it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::key::{BadKey, Key};

/// What a bucket operation returns, in time.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, BucketError>>;

/// Identifies one write of one object. Two writes of equal bytes have different tags.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Etag(Arc<str>);

impl Etag {
    /// Wraps a store's own tag.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The tag as the store wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// An object as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its whole content.
    pub bytes: Bytes,
    /// Which write it comes from.
    pub etag: Etag,
}

/// When a [`Bucket::put`] may take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    None,
    /// Only when there is no object of that key.
    IfAbsent,
    /// Only when the object is still the one of this write.
    IfMatch(Etag),
}

/// The verdict on a [`Bucket::put`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum PutOutcome {
    /// The object is stored durably; this is its tag.
    Done(Etag),
    /// The condition did not hold; nothing was changed.
    Conflict,
}

/// One object of a [`Listing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Its key.
    pub key: Key,
    /// Its content's length, in bytes.
    pub size: u64,
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In ascending byte order of their keys.
    pub objects: Vec<ListedObject>,
    /// There are more: ask again with the last key as `start_after`.
    pub truncated: bool,
}

/// An object store. All clones of a handle, in all processes, see one state.
///
/// Reads see every completed write (read-after-write), and a put is seen whole or not at all.
/// Dropping a future does not undo what it may have begun: treat it as an ambiguous failure.
pub trait Bucket: Send + Sync + fmt::Debug + 'static {
    /// Reads a whole object; `None` when there is none.
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Object>>;

    /// Reads bytes `range.start..range.end` of an object; `None` when there is none.
    ///
    /// The answer is shorter where the object ends earlier, and empty behind its end. Content is
    /// not checked against damage, as the whole of it is not read.
    fn get_range<'a>(&'a self, key: &'a Key, range: Range<u64>) -> Answer<'a, Option<Bytes>>;

    /// Stores an object durably, replacing any of that key, if `condition` holds.
    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        condition: Condition,
    ) -> Answer<'a, PutOutcome>;

    /// Removes an object; success when there is none.
    fn delete<'a>(&'a self, key: &'a Key) -> Answer<'a, ()>;

    /// Lists keys that begin with `prefix` and come after `start_after`, in byte order: at most
    /// `limit`, and at most [`crate::LIST_MAX`]. A `prefix` may end within a segment.
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        start_after: Option<&'a str>,
        limit: usize,
    ) -> Answer<'a, Listing>;
}

impl<B: Bucket + ?Sized> Bucket for Arc<B> {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Object>> {
        (**self).get(key)
    }
    fn get_range<'a>(&'a self, key: &'a Key, range: Range<u64>) -> Answer<'a, Option<Bytes>> {
        (**self).get_range(key, range)
    }
    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        condition: Condition,
    ) -> Answer<'a, PutOutcome> {
        (**self).put(key, bytes, condition)
    }
    fn delete<'a>(&'a self, key: &'a Key) -> Answer<'a, ()> {
        (**self).delete(key)
    }
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        start_after: Option<&'a str>,
        limit: usize,
    ) -> Answer<'a, Listing> {
        (**self).list(prefix, start_after, limit)
    }
}

/// The operations of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`Bucket::get`]
    Get,
    /// [`Bucket::get_range`]
    GetRange,
    /// [`Bucket::put`]
    Put,
    /// [`Bucket::delete`]
    Delete,
    /// [`Bucket::list`]
    List,
}

impl Operation {
    /// Every operation, in the order of the enum.
    pub const ALL: [Operation; 5] = [
        Self::Get,
        Self::GetRange,
        Self::Put,
        Self::Delete,
        Self::List,
    ];

    /// Lower-case name, as metrics and messages use it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetRange => "get_range",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What stands behind a failure.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The key or prefix is not valid; nothing was asked of the store.
    #[error(transparent)]
    BadKey(#[from] BadKey),

    /// It failed for certain: nothing was changed, and trying again is safe.
    #[error("bucket {operation} of {key:?} failed, nothing was changed: {cause}")]
    Definite {
        /// What was tried.
        operation: Operation,
        /// The key or prefix.
        key: String,
        /// What went wrong.
        cause: Cause,
    },

    /// It may have been applied or may yet be. Read the object back before deciding anything.
    #[error(
        "bucket {operation} of {key:?} failed and may have been applied, read it back: {cause}"
    )]
    Ambiguous {
        /// What was tried.
        operation: Operation,
        /// The key or prefix.
        key: String,
        /// What went wrong.
        cause: Cause,
    },

    /// The stored object is not what a bucket wrote.
    #[error(
        "bucket object {key:?} is damaged ({what} in {place}): restore it from a backup, or delete it if it can be spared"
    )]
    Damaged {
        /// The object.
        key: Key,
        /// What is wrong.
        what: &'static str,
        /// Where it lies.
        place: String,
    },
}

impl BucketError {
    /// True when the operation may have been applied.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Ambiguous { .. })
    }
}
