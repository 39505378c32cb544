//! Alarm markers: `alarms/<due minute>/<namespace>/<hexid>` for a cell whose record has an alarm.
//!
//! They let a node know at its start which cells to wake, without reading any record. A marker is
//! written before the record that it speaks of and removed after the record that no longer needs
//! it; so there may be one too many, never one too few. The record has the last word.

use bytes::Bytes;
use celld_bucket::{BadKey, Bucket, Condition, Key, PutOutcome};
use celld_core::{CellId, NamespaceKey, ObjectId, WallMs};

use super::{CellError, Store};

const MINUTE_MS: i64 = 60_000;
/// The latest minute that twelve digits can name: an alarm beyond it is due then.
const MINUTE_MAX: i64 = 999_999_999_999;

/// The minute that an alarm is listed under.
pub(crate) fn minute(alarm_ms: i64) -> i64 {
    alarm_ms.div_euclid(MINUTE_MS).clamp(0, MINUTE_MAX)
}

fn key(cell: &CellId, minute: i64) -> Result<Key, BadKey> {
    Key::new(format!(
        "alarms/{minute:012}/{}/{}",
        cell.namespace, cell.object
    ))
}

fn parse(key: &str) -> Option<(CellId, WallMs)> {
    let mut parts = key.split('/').skip(1);
    let minute: i64 = parts.next()?.parse().ok()?;
    let namespace = NamespaceKey::new(parts.next()?).ok()?;
    let object = ObjectId::from_hex(parts.next()?).ok()?;
    Some((
        CellId { namespace, object },
        WallMs::new(minute.checked_mul(MINUTE_MS)?),
    ))
}

/// Makes the marker for an alarm.
pub(super) async fn put_marker(
    store: &Store,
    cell: &CellId,
    alarm_ms: i64,
) -> Result<(), CellError> {
    let key = key(cell, minute(alarm_ms)).map_err(celld_bucket::BucketError::from)?;
    match store
        .bucket
        .put(&key, Bytes::new(), Condition::None)
        .await?
    {
        PutOutcome::Done(_) | PutOutcome::Conflict => Ok(()),
    }
}

/// Removes the marker of an alarm.
pub(crate) async fn delete_marker(
    store: &Store,
    cell: &CellId,
    alarm_ms: i64,
) -> Result<(), CellError> {
    let key = key(cell, minute(alarm_ms)).map_err(celld_bucket::BucketError::from)?;
    Ok(store.bucket.delete(&key).await?)
}

/// Tells `found` of every marker: the cell, and the beginning of the minute.
pub(crate) async fn list_markers(
    store: &Store,
    mut found: impl FnMut(CellId, WallMs),
) -> Result<(), CellError> {
    let mut after: Option<String> = None;
    loop {
        let page = store
            .bucket
            .list("alarms/", after.as_deref(), celld_bucket::LIST_MAX)
            .await?;
        for object in &page.objects {
            match parse(object.key.as_str()) {
                Some((cell, not_before)) => found(cell, not_before),
                None => tracing::warn!(key = object.key.as_str(), "not an alarm marker: ignored"),
            }
        }
        after = page
            .objects
            .last()
            .map(|object| object.key.as_str().to_owned());
        if !page.truncated || after.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_names_its_cell_and_minute() {
        let cell = CellId {
            namespace: NamespaceKey::new("shop-Counter").unwrap(),
            object: ObjectId::from_bytes([7; 32]),
        };
        for alarm_ms in [0, 59_999, 60_000, 1_800_000_012_345] {
            let key = key(&cell, minute(alarm_ms)).unwrap();
            let (parsed, not_before) = parse(key.as_str()).unwrap();
            assert_eq!(parsed, cell);
            assert!(not_before.get() <= alarm_ms && alarm_ms < not_before.get() + MINUTE_MS);
        }
        assert_eq!(minute(i64::MIN), 0);
        assert_eq!(minute(i64::MAX), MINUTE_MAX.min(i64::MAX / MINUTE_MS));
        assert_eq!(parse("alarms/x/y/z"), None);
        assert_eq!(parse("alarms/000000000001"), None);
    }
}
