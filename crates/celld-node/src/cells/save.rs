//! From a host, or from record and log, to a new record.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use celld_bucket::{Bucket, BucketError, Condition, Etag, Key, PutOutcome};
use celld_core::{CellId, Epoch, Lsn, Txid};
use celld_storage::{CellDb, Image, OpenOptions, StorageError};

use super::image::{Loaded, load};
use super::marker;
use super::record::{self, CellRecord};
use super::{CellError, Store, blocking, remove_database};

/// What is known of a cell's record in the bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    /// Which write it comes from; `None` when there is no record.
    pub(crate) etag: Option<Etag>,
    /// Its ownership generation.
    pub(crate) epoch: Epoch,
    /// Its alarm, and so its marker.
    pub(crate) alarm_ms: Option<i64>,
}

/// A cell's state to be written.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    /// Ownership generation of the residence.
    pub(crate) epoch: Epoch,
    /// The last commit that `snapshot` holds.
    pub(crate) txid: Txid,
    /// The name that the cell's id was made from, when it is known.
    pub(crate) name: Option<String>,
    /// The alarm that is set.
    pub(crate) alarm_ms: Option<i64>,
    /// Compressed snapshot.
    pub(crate) snapshot: Option<Bytes>,
}

/// Writes a cell's record in place of `base`, with its marker, and tells the log.
pub(crate) async fn save(
    store: &Store,
    cell: &CellId,
    base: &Base,
    fresh: Fresh,
) -> Result<Base, CellError> {
    let key = record::key(cell).map_err(BucketError::from)?;
    let (old, new) = (
        base.alarm_ms.map(marker::minute),
        fresh.alarm_ms.map(marker::minute),
    );
    if let Some(alarm_ms) = fresh.alarm_ms
        && old != new
    {
        marker::put_marker(store, cell, alarm_ms).await?;
    }
    let record = CellRecord {
        epoch: fresh.epoch,
        session: store.session,
        txid: fresh.txid,
        name: fresh.name,
        alarm_ms: fresh.alarm_ms,
        token: token(),
        snapshot: fresh.snapshot,
    };
    let etag = write(store, &key, base, &record).await?;
    store.log.checkpointed(cell, record.txid);
    if let Some(alarm_ms) = base.alarm_ms
        && old != new
        && let Err(error) = marker::delete_marker(store, cell, alarm_ms).await
    {
        // A marker too many costs one look at the record.
        tracing::warn!(%cell, %error, "cannot remove an alarm marker");
    }
    Ok(Base {
        etag: Some(etag),
        epoch: record.epoch,
        alarm_ms: record.alarm_ms,
    })
}

/// Writes the record; an answer in doubt is settled by reading back.
async fn write(
    store: &Store,
    key: &Key,
    base: &Base,
    record: &CellRecord,
) -> Result<Etag, CellError> {
    let condition = match &base.etag {
        Some(etag) => Condition::IfMatch(etag.clone()),
        None => Condition::IfAbsent,
    };
    let failure = match store.bucket.put(key, record.encode(), condition).await {
        Ok(PutOutcome::Done(etag)) => return Ok(etag),
        Ok(PutOutcome::Conflict) => CellError::Conflict {
            key: key.as_str().into(),
        },
        Err(error) if error.is_ambiguous() => error.into(),
        Err(error) => return Err(error.into()),
    };
    match store.bucket.get(key).await? {
        Some(object) if CellRecord::decode(key, &object.bytes)?.token == record.token => {
            Ok(object.etag)
        }
        _ => Err(failure),
    }
}

/// Builds a cell's database from record and log, and writes its record. `residence` is the
/// generation of a cell that is resident meanwhile.
pub(crate) async fn compact(
    store: &Store,
    cell: &CellId,
    settled: Lsn,
    residence: Option<Epoch>,
) -> Result<Base, CellError> {
    let Loaded {
        base,
        epoch,
        txid,
        name,
        alarm_ms,
        snapshot,
        tail,
    } = load(store, cell, settled).await?;
    let path = scratch_path(store);
    let snapshot = blocking(move || {
        let image = Image {
            snapshot: snapshot.as_deref(),
            tail: &tail,
            txid,
        };
        Ok(rebuild(&path, image)?)
    })
    .await?;
    let epoch = residence.unwrap_or(epoch);
    let fresh = Fresh {
        epoch,
        txid,
        name,
        alarm_ms,
        snapshot: Some(snapshot),
    };
    save(store, cell, &base, fresh).await
}

/// The snapshot of an image, by way of a database at `path`, which is gone afterwards.
fn rebuild(path: &Path, image: Image<'_>) -> Result<Bytes, StorageError> {
    let build = || {
        let mut db = CellDb::create(path, OpenOptions::default(), image)?;
        let (_, snapshot) = db.snapshot()?;
        db.destroy()?;
        Ok(snapshot)
    };
    let built = build();
    if built.is_err() {
        remove_database(path);
    }
    built
}

fn scratch_path(store: &Store) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    store.scratch.join(format!(
        "compact-{}.sqlite",
        NEXT.fetch_add(1, Ordering::Relaxed)
    ))
}

fn token() -> String {
    let mut bits = [0u8; 16];
    match getrandom::fill(&mut bits) {
        Ok(()) => format!("{:032x}", u128::from_le_bytes(bits)),
        // Without randomness a token still differs from every other of this process.
        Err(_) => {
            static NEXT: AtomicU64 = AtomicU64::new(1);
            format!(
                "{}-{}",
                std::process::id(),
                NEXT.fetch_add(1, Ordering::Relaxed)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_cannot_be_rebuilt_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("compact-1.sqlite");
        let sound = Image::default();
        assert!(rebuild(&path, sound).is_ok());
        let damaged = Image {
            tail: &[Bytes::from_static(b"no segment")],
            ..Image::default()
        };
        assert!(rebuild(&path, damaged).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
