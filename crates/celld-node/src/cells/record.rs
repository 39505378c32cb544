//! The cell record: who may write the cell, and its data up to some commit.
//!
//! `cells/<namespace>/<hexid>` holds one line of format name (`celld.cell.v1`), one line of JSON
//! (the head), and the compressed snapshot as `celld_storage` made it, to the end of the object.

use bytes::Bytes;
use celld_bucket::{BadKey, Key};
use celld_core::{CellId, Epoch, SessionId, Txid};
use serde::{Deserialize, Serialize};

const FORMAT: &str = "celld.cell.v1";
/// Longest head that is read, in bytes. A name is at most 1 MiB of script text; more is no head.
const HEAD_MAX_BYTES: usize = 2 << 20;

/// A cell record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellRecord {
    /// Ownership generation of the last writer.
    pub(crate) epoch: Epoch,
    /// The session that wrote it.
    pub(crate) session: SessionId,
    /// The last commit that `snapshot` holds.
    pub(crate) txid: Txid,
    /// The name that the cell's id was made from, when it is known.
    pub(crate) name: Option<String>,
    /// The alarm that is set, in ms since the epoch.
    pub(crate) alarm_ms: Option<i64>,
    /// Tells one write from another.
    pub(crate) token: String,
    /// The database; `None` for an empty one.
    pub(crate) snapshot: Option<Bytes>,
}

/// The object is not a record that this version understands.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Another format or version.
    #[error(
        "the cell record {key} has the format {found:?}, which this version does not know: use the celld that wrote it"
    )]
    Format {
        /// Its key.
        key: String,
        /// Its first line.
        found: String,
    },
    /// The right format, but damaged.
    #[error("the cell record {key} is damaged ({why}): restore it from a backup")]
    Damaged {
        /// Its key.
        key: String,
        /// What is wrong.
        why: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Head {
    epoch: u64,
    session: String,
    txid: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alarm_ms: Option<i64>,
    token: String,
    snapshot_bytes: Option<u64>,
}

/// The record's key.
pub(crate) fn key(cell: &CellId) -> Result<Key, BadKey> {
    Key::new(format!("cells/{}/{}", cell.namespace, cell.object))
}

impl CellRecord {
    /// The object's bytes.
    pub(crate) fn encode(&self) -> Bytes {
        let head = Head {
            epoch: self.epoch.get(),
            session: self.session.to_string(),
            txid: self.txid.get(),
            name: self.name.clone(),
            alarm_ms: self.alarm_ms,
            token: self.token.clone(),
            snapshot_bytes: self.snapshot.as_ref().map(|bytes| bytes.len() as u64),
        };
        let head = serde_json::to_string(&head).expect("numbers and strings are JSON");
        let snapshot = self.snapshot.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(FORMAT.len() + head.len() + snapshot.len() + 2);
        out.extend_from_slice(FORMAT.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(head.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(snapshot);
        Bytes::from(out)
    }

    /// Reads an object's bytes.
    pub(crate) fn decode(key: &Key, bytes: &Bytes) -> Result<Self, RecordError> {
        let damaged = |why: &str| RecordError::Damaged {
            key: key.as_str().into(),
            why: why.into(),
        };
        let format_end =
            line_end(bytes, 0, 64).ok_or_else(|| damaged("its first line has no end"))?;
        if bytes[..format_end] != *FORMAT.as_bytes() {
            return Err(RecordError::Format {
                key: key.as_str().into(),
                found: String::from_utf8_lossy(&bytes[..format_end]).into_owned(),
            });
        }
        let head_start = format_end + 1;
        let head_end = line_end(bytes, head_start, HEAD_MAX_BYTES)
            .ok_or_else(|| damaged("its head has no end"))?;
        let head: Head = serde_json::from_slice(&bytes[head_start..head_end])
            .map_err(|error| damaged(&format!("its head is not JSON as expected: {error}")))?;
        let rest = bytes.slice(head_end + 1..);
        if rest.len() as u64 != head.snapshot_bytes.unwrap_or(0) {
            return Err(damaged(
                "its snapshot has another length than its head says",
            ));
        }
        Ok(Self {
            epoch: Epoch::new(head.epoch),
            session: SessionId::from_hex(&head.session)
                .ok_or_else(|| damaged("its session is not 32 hex digits"))?,
            txid: Txid::new(head.txid),
            name: head.name,
            alarm_ms: head.alarm_ms,
            token: head.token,
            snapshot: head.snapshot_bytes.map(|_| rest),
        })
    }
}

fn line_end(bytes: &[u8], from: usize, max: usize) -> Option<usize> {
    let rest = &bytes[from..];
    rest.iter()
        .take(max)
        .position(|byte| *byte == b'\n')
        .map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> CellRecord {
        CellRecord {
            epoch: Epoch::new(3),
            session: SessionId::from_random(7),
            txid: Txid::new(9),
            name: Some("a \"name\"\nof two lines".into()),
            alarm_ms: Some(-5),
            token: "t".into(),
            snapshot: Some(Bytes::from_static(b"\n\0bytes")),
        }
    }

    fn at() -> Key {
        Key::new("cells/n/00").unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let record = sample();
        assert_eq!(CellRecord::decode(&at(), &record.encode()).unwrap(), record);
        let bare = CellRecord {
            name: None,
            alarm_ms: None,
            snapshot: None,
            ..sample()
        };
        assert_eq!(CellRecord::decode(&at(), &bare.encode()).unwrap(), bare);
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let error =
            CellRecord::decode(&at(), &Bytes::from_static(b"celld.cell.v2\nwhatever")).unwrap_err();
        assert!(error.to_string().contains("celld.cell.v2"), "{error}");
    }

    #[test]
    fn a_cut_record_is_refused() {
        let whole = sample().encode();
        for length in 0..whole.len() {
            assert!(
                CellRecord::decode(&at(), &whole.slice(..length)).is_err(),
                "{length}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes: Vec<u8>, flip in 0usize..200, with: u8) {
            let _ = CellRecord::decode(&at(), &Bytes::from(bytes));
            let mut near = sample().encode().to_vec();
            let at_byte = flip % near.len();
            near[at_byte] = with;
            let _ = CellRecord::decode(&at(), &Bytes::from(near));
        }
    }
}
