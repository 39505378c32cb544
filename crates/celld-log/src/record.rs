//! What the log holds, and how a record's head is written.
//!
//! A record is a short head and, for a commit, the segment behind it. The head alone tells a
//! reader what the record is about, so that recovery need not hold segments in memory.
//!
//! | kind | head |
//! |---|---|
//! | 1 commit | cell, epoch `u64`, txid `u64`, flags `u8`, alarm `i64` (flag 1), name (flag 2) |
//! | 2 checkpointed | cell, txid `u64` |
//! | 3 deleted | cell |
//! | 4 closed | |
//!
//! A head begins with its kind (`u8`). A cell is a length (`u8`), that many bytes of its namespace,
//! and 32 bytes of its object. A name takes the rest of the head. Numbers are little-endian.

use bytes::Bytes;
use celld_core::{CellId, Epoch, NamespaceKey, ObjectId, Txid};

const COMMIT: u8 = 1;
const CHECKPOINTED: u8 = 2;
const DELETED: u8 = 3;
const CLOSED: u8 = 4;

const HAS_ALARM: u8 = 1;
const HAS_NAME: u8 = 2;

/// One commit of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Which cell.
    pub cell: CellId,
    /// Its ownership generation.
    pub epoch: Epoch,
    /// Number of this commit in the cell's history.
    pub txid: Txid,
    /// The name that the cell's id was made from, when it is known.
    pub name: Option<String>,
    /// The alarm that is set after this commit, in ms since the epoch.
    pub alarm_ms: Option<i64>,
    /// Changed pages. The log does not look inside.
    pub segment: Bytes,
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A cell committed.
    Commit(Commit),
    /// The cell record holds this cell's data up to `txid`; its commits up to there are not needed.
    Checkpointed {
        /// Which cell.
        cell: CellId,
        /// The last commit that the cell record holds.
        txid: Txid,
    },
    /// The cell and its data are to be gone. What the bucket has of it is void.
    Deleted {
        /// Which cell.
        cell: CellId,
    },
    /// The session ended in order; nothing follows.
    Closed,
}

/// Bytes that are no record's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a record of the node log: {0}")]
pub struct BadRecord(pub &'static str);

impl Record {
    /// The segment of a commit; empty for other records.
    pub fn segment(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        match self {
            Self::Commit(commit) => &commit.segment,
            _ => &NONE,
        }
    }

    /// Writes the head.
    pub fn encode_head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        match self {
            Self::Commit(commit) => {
                out.push(COMMIT);
                put_cell(&mut out, &commit.cell);
                out.extend(commit.epoch.get().to_le_bytes());
                out.extend(commit.txid.get().to_le_bytes());
                let alarm = if commit.alarm_ms.is_some() {
                    HAS_ALARM
                } else {
                    0
                };
                let name = if commit.name.is_some() { HAS_NAME } else { 0 };
                out.push(alarm | name);
                out.extend(commit.alarm_ms.iter().flat_map(|ms| ms.to_le_bytes()));
                out.extend(commit.name.iter().flat_map(|name| name.bytes()));
            }
            Self::Checkpointed { cell, txid } => {
                out.push(CHECKPOINTED);
                put_cell(&mut out, cell);
                out.extend(txid.get().to_le_bytes());
            }
            Self::Deleted { cell } => {
                out.push(DELETED);
                put_cell(&mut out, cell);
            }
            Self::Closed => out.push(CLOSED),
        }
        out
    }

    /// Reads a head. A commit comes back with an empty segment.
    pub fn decode_head(head: &[u8]) -> Result<Self, BadRecord> {
        let mut input = Input(head);
        let record = match input.byte()? {
            COMMIT => Self::Commit(decode_commit(&mut input)?),
            CHECKPOINTED => Self::Checkpointed {
                cell: input.cell()?,
                txid: Txid::new(input.number()?),
            },
            DELETED => Self::Deleted {
                cell: input.cell()?,
            },
            CLOSED => Self::Closed,
            _ => return Err(BadRecord("a kind that this celld does not know")),
        };
        if input.0.is_empty() {
            Ok(record)
        } else {
            Err(BadRecord("bytes behind its end"))
        }
    }
}

fn put_cell(out: &mut Vec<u8>, cell: &CellId) {
    let namespace = cell.namespace.as_str().as_bytes();
    // A namespace key has at most 128 bytes, so its length fits.
    out.push(namespace.len() as u8);
    out.extend(namespace);
    out.extend(cell.object.as_bytes());
}

fn decode_commit(input: &mut Input<'_>) -> Result<Commit, BadRecord> {
    let cell = input.cell()?;
    let epoch = Epoch::new(input.number()?);
    let txid = Txid::new(input.number()?);
    let flags = input.byte()?;
    if flags & !(HAS_ALARM | HAS_NAME) != 0 {
        return Err(BadRecord("flags that this celld does not know"));
    }
    let alarm_ms = if flags & HAS_ALARM != 0 {
        Some(input.number()? as i64)
    } else {
        None
    };
    let name = if flags & HAS_NAME != 0 {
        let raw = std::mem::take(&mut input.0);
        let text = std::str::from_utf8(raw).map_err(|_| BadRecord("a name that is not UTF-8"))?;
        Some(text.to_owned())
    } else {
        None
    };
    Ok(Commit {
        cell,
        epoch,
        txid,
        name,
        alarm_ms,
        segment: Bytes::new(),
    })
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BadRecord> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(BadRecord("cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadRecord> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn byte(&mut self) -> Result<u8, BadRecord> {
        Ok(self.array::<1>()?[0])
    }

    fn number(&mut self) -> Result<u64, BadRecord> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn cell(&mut self) -> Result<CellId, BadRecord> {
        let length = self.byte()?;
        let namespace = std::str::from_utf8(self.take(length.into())?)
            .ok()
            .and_then(|text| NamespaceKey::new(text).ok())
            .ok_or(BadRecord("a namespace that is not valid"))?;
        Ok(CellId {
            namespace,
            object: ObjectId::from_bytes(self.array()?),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_cell() -> impl Strategy<Value = CellId> {
        ("[a-z_-]{1,20}", any::<[u8; 32]>()).prop_map(|(namespace, object)| CellId {
            namespace: NamespaceKey::new(&namespace).unwrap(),
            object: ObjectId::from_bytes(object),
        })
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let commit = (
            any_cell(),
            any::<(u64, u64)>(),
            any::<Option<String>>(),
            any::<Option<i64>>(),
        );
        prop_oneof![
            commit.prop_map(
                |(cell, (epoch, txid), name, alarm_ms)| Record::Commit(Commit {
                    cell,
                    epoch: Epoch::new(epoch),
                    txid: Txid::new(txid),
                    name,
                    alarm_ms,
                    segment: Bytes::new(),
                })
            ),
            (any_cell(), any::<u64>()).prop_map(|(cell, txid)| Record::Checkpointed {
                cell,
                txid: Txid::new(txid)
            }),
            any_cell().prop_map(|cell| Record::Deleted { cell }),
            Just(Record::Closed),
        ]
    }

    proptest! {
        #[test]
        fn heads_round_trip(record in any_record()) {
            prop_assert_eq!(Record::decode_head(&record.encode_head()), Ok(record));
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut raw: Vec<u8>, kind in 0u8..6) {
            let _ = Record::decode_head(&raw);
            if let Some(first) = raw.first_mut() {
                *first = kind;
                if let Ok(record) = Record::decode_head(&raw) {
                    prop_assert_eq!(record.encode_head(), raw);
                }
            }
        }

        #[test]
        fn a_cut_head_is_no_other_record_of_its_kind(record in any_record(), cut in 0usize..200) {
            let head = record.encode_head();
            if cut < head.len() {
                // A name may be shortened unnoticed here: the frame's checksum guards against that.
                let named = matches!(&record, Record::Commit(Commit { name: Some(_), .. }));
                prop_assert!(named || Record::decode_head(&head[..cut]).is_err());
            }
        }
    }
}
