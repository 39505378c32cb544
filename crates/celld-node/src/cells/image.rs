//! From record and log to what a host needs to take a cell in.

use bytes::Bytes;
use celld_bucket::{Bucket, BucketError};
use celld_core::{AlarmFound, CellId, Epoch, Lsn, Txid, WallMs};
use celld_log::{CellTail, ReadError};

use super::record::{self, CellRecord};
use super::save::Base;
use super::{CellError, Store, blocking};

/// Tries to read record and tail when a checkpoint comes in between.
const TRIES: usize = 3;

/// A cell's data.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The record as it was found; the next write is conditional on it.
    pub(crate) base: Base,
    /// Ownership generation for the coming residence.
    pub(crate) epoch: Epoch,
    /// The last commit that `snapshot` and `tail` hold.
    pub(crate) txid: Txid,
    /// The name that the cell's id was made from, when it is known.
    pub(crate) name: Option<String>,
    /// The alarm that is set.
    pub(crate) alarm_ms: Option<i64>,
    /// Compressed snapshot.
    pub(crate) snapshot: Option<Bytes>,
    /// Segments after it.
    pub(crate) tail: Vec<Bytes>,
}

/// Reads a cell. `settled` is its last commit of this session: the log is read once that is in it.
pub(crate) async fn load(store: &Store, cell: &CellId, settled: Lsn) -> Result<Loaded, CellError> {
    until_durable(store, settled).await?;
    for _ in 1..TRIES {
        match load_once(store, cell).await {
            Err(CellError::Log(ReadError::Gone { .. })) => {}
            other => return other,
        }
    }
    load_once(store, cell).await
}

async fn load_once(store: &Store, cell: &CellId) -> Result<Loaded, CellError> {
    // In this order: what a checkpoint takes out of the tail is in a record that is read later.
    let tail = store.log.tail(cell);
    let (base, record) = fetch(store, cell).await?;
    let Some(tail) = tail else {
        return Ok(from_record(base, record));
    };
    let void = tail.deleted;
    let have = record
        .as_ref()
        .filter(|_| !void)
        .map_or(Txid::default(), |record| record.txid);
    let after = tail.after(have)?.to_vec();
    let log = store.log.clone();
    let segments = blocking(move || {
        after
            .iter()
            .map(|at| log.read_segment(at).map_err(CellError::from))
            .collect::<Result<Vec<_>, _>>()
    })
    .await?;
    Ok(merge(base, record.filter(|_| !void), tail, segments))
}

fn from_record(base: Base, record: Option<CellRecord>) -> Loaded {
    let epoch = base.epoch.next();
    match record {
        Some(record) => Loaded {
            base,
            epoch,
            txid: record.txid,
            name: record.name,
            alarm_ms: record.alarm_ms,
            snapshot: record.snapshot,
            tail: Vec::new(),
        },
        None => Loaded {
            base,
            epoch,
            txid: Txid::default(),
            name: None,
            alarm_ms: None,
            snapshot: None,
            tail: Vec::new(),
        },
    }
}

/// Where the log goes further than the record, it has the last word.
fn merge(base: Base, record: Option<CellRecord>, tail: CellTail, segments: Vec<Bytes>) -> Loaded {
    let epoch = base.epoch.max(tail.epoch).next();
    let from_record = from_record(base, record);
    if segments.is_empty() && !tail.deleted {
        return Loaded {
            epoch,
            ..from_record
        };
    }
    Loaded {
        epoch,
        txid: from_record.txid.max(tail.txid),
        name: tail.name.map(|name| name.to_string()).or(from_record.name),
        alarm_ms: tail.alarm_ms,
        tail: segments,
        ..from_record
    }
}

/// Reads a record, and what a later write of it must be conditional on.
async fn fetch(store: &Store, cell: &CellId) -> Result<(Base, Option<CellRecord>), CellError> {
    let key = record::key(cell).map_err(BucketError::from)?;
    let Some(object) = store.bucket.get(&key).await? else {
        return Ok((Base::default(), None));
    };
    let record = CellRecord::decode(&key, &object.bytes)?;
    let base = Base {
        etag: Some(object.etag),
        epoch: record.epoch,
        alarm_ms: record.alarm_ms,
    };
    Ok((base, Some(record)))
}

/// Reads the alarm that a cold cell has set.
pub(crate) async fn read_alarm(store: &Store, cell: &CellId) -> Result<AlarmFound, CellError> {
    let tail = store.log.tail(cell);
    let (_, record) = fetch(store, cell).await?;
    let have = record
        .as_ref()
        .map_or(Txid::default(), |record| record.txid);
    let alarm_ms = match tail {
        Some(tail) if tail.deleted || tail.txid > have => tail.alarm_ms,
        _ => record.and_then(|record| record.alarm_ms),
    };
    Ok(alarm_ms.map_or(AlarmFound::Nothing, |ms| AlarmFound::At(WallMs::new(ms))))
}

/// Waits until everything up to `lsn` is in the log.
async fn until_durable(store: &Store, lsn: Lsn) -> Result<(), CellError> {
    if lsn <= store.log.durable() {
        return Ok(());
    }
    let (done, wait) = tokio::sync::oneshot::channel();
    store.log.when_durable(
        lsn,
        Box::new(move |result| {
            let _ = done.send(result);
        }),
    );
    match wait.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failed)) => Err(CellError::LogFailed(failed.to_string())),
        Err(_) => Err(CellError::Ending),
    }
}
