//! Which records of which files each cell still needs. Pure: no I/O.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use celld_core::{CellId, Epoch, Lsn, NamespaceKey, Txid};

use crate::record::{Commit, Record};

/// A log file, numbered by age over all sessions of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileNo(pub u32);

/// Where one commit lies in the log. Read its segment with [`crate::NodeLog::read_segment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef {
    pub(crate) file: FileNo,
    pub(crate) length: u32,
    pub(crate) offset: u64,
    pub(crate) lsn: Lsn,
    txid: Txid,
}

impl RecordRef {
    /// Number of the commit.
    pub fn txid(&self) -> Txid {
        self.txid
    }

    /// Length of its segment and a few bytes about it.
    pub fn bytes(&self) -> u64 {
        u64::from(self.length)
    }
}

/// What the log knows of one cell since its cell record was last written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellTail {
    /// Epoch of the last commit.
    pub epoch: Epoch,
    /// Last commit; 0 when there is none behind a deletion.
    pub txid: Txid,
    /// The name that the cell's id was made from, when it is known.
    pub name: Option<Arc<str>>,
    /// The alarm that is set after the last commit, in ms since the epoch.
    pub alarm_ms: Option<i64>,
    /// The cell was deleted before `records`: what the bucket has of it is void.
    pub deleted: bool,
    /// Its commits, oldest first.
    pub records: Vec<RecordRef>,
}

/// Commits between a snapshot and the rest of the log are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node log lacks commit {missing} of the cell: its record in the bucket ends at {have}")]
pub struct TailGap {
    /// The last commit before the gap.
    pub have: Txid,
    /// The first one that is missing.
    pub missing: Txid,
}

impl CellTail {
    /// The commits to apply to a snapshot that was taken at `txid`, oldest first: empty when the
    /// snapshot holds them all. Give 0 where [`CellTail::deleted`] voids the snapshot.
    pub fn after(&self, txid: Txid) -> Result<&[RecordRef], TailGap> {
        let begin = self.records.partition_point(|record| record.txid <= txid);
        let rest = &self.records[begin..];
        let mut have = txid;
        for record in rest {
            if record.txid != have.next() {
                return Err(TailGap {
                    have,
                    missing: have.next(),
                });
            }
            have = record.txid;
        }
        Ok(rest)
    }
}

#[derive(Debug, Default)]
struct Entry {
    epoch: Epoch,
    txid: Txid,
    name: Option<Arc<str>>,
    alarm_ms: Option<i64>,
    deleted_in: Option<FileNo>,
    records: Vec<RecordRef>,
    /// Sum of the records' lengths.
    bytes: u64,
}

impl Entry {
    /// The oldest file that this cell needs.
    fn holds(&self) -> Option<FileNo> {
        self.deleted_in
            .into_iter()
            .chain(self.records.first().map(|record| record.file))
            .min()
    }

    fn push(&mut self, record: RecordRef) {
        self.bytes += record.bytes();
        self.records.push(record);
    }

    fn drop_records(&mut self, range: std::ops::Range<usize>) {
        self.bytes -= self
            .records
            .drain(range)
            .map(|record| record.bytes())
            .sum::<u64>();
    }
}

#[derive(Debug)]
struct FileEntry {
    path: PathBuf,
    salt: u64,
    /// Cells whose oldest needed record is in this file.
    holders: usize,
}

/// All cells' tails, and the files that they hold.
#[derive(Debug, Default)]
pub(crate) struct Index {
    cells: HashMap<CellId, Entry>,
    files: BTreeMap<FileNo, FileEntry>,
    next_file: u32,
    /// One copy of each namespace's text, as records bring their own.
    namespaces: HashSet<NamespaceKey>,
    /// Bytes of records that cells need.
    live_bytes: u64,
}

/// Where a record was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub file: FileNo,
    pub offset: u64,
    pub length: u32,
    pub lsn: Lsn,
}

impl Index {
    /// Adds a file that is younger than all others.
    pub fn add_file(&mut self, path: PathBuf, salt: u64) -> FileNo {
        let file = FileNo(self.next_file);
        self.next_file += 1;
        self.files.insert(
            file,
            FileEntry {
                path,
                salt,
                holders: 0,
            },
        );
        file
    }

    /// Path and salt of a file that is still there.
    pub fn file(&self, file: FileNo) -> Option<(&Path, u64)> {
        self.files
            .get(&file)
            .map(|entry| (entry.path.as_path(), entry.salt))
    }

    /// Takes in a record, in log order.
    pub fn note(&mut self, record: &Record, place: Place) {
        match record {
            Record::Commit(commit) => self.commit(commit, place),
            Record::Checkpointed { cell, txid } => self.checkpointed(cell, *txid),
            Record::Deleted { cell } => {
                let cell = self.intern(cell);
                self.change(&cell, |entry| {
                    let epoch = entry.epoch;
                    *entry = Entry {
                        epoch,
                        deleted_in: Some(place.file),
                        ..Entry::default()
                    };
                });
            }
            Record::Closed => {}
        }
    }

    fn commit(&mut self, commit: &Commit, place: Place) {
        let cell = self.intern(&commit.cell);
        self.change(&cell, |entry| {
            // A commit number that comes again replaces what it forks off: the later owner began
            // from a state without those commits.
            let kept = entry
                .records
                .partition_point(|record| record.txid < commit.txid);
            entry.drop_records(kept..entry.records.len());
            entry.push(RecordRef {
                file: place.file,
                length: place.length,
                offset: place.offset,
                lsn: place.lsn,
                txid: commit.txid,
            });
            entry.epoch = commit.epoch;
            entry.txid = commit.txid;
            entry.alarm_ms = commit.alarm_ms;
            if let Some(name) = commit.name.as_deref()
                && entry.name.as_deref() != Some(name)
            {
                entry.name = Some(name.into());
            }
        });
    }

    /// Drops a cell's records up to `txid`, and the mark of a deletion.
    pub fn checkpointed(&mut self, cell: &CellId, txid: Txid) {
        if self.cells.contains_key(cell) {
            self.change(cell, |entry| {
                entry.deleted_in = None;
                entry.drop_records(0..entry.records.partition_point(|record| record.txid <= txid));
            });
        }
    }

    /// Changes one entry and keeps the counts of holders and bytes right.
    fn change(&mut self, cell: &CellId, act: impl FnOnce(&mut Entry)) {
        let entry = self.cells.entry(cell.clone()).or_default();
        let (held, bytes) = (entry.holds(), entry.bytes);
        act(entry);
        let holds = entry.holds();
        self.live_bytes = self.live_bytes - bytes + entry.bytes;
        if holds.is_none() {
            self.cells.remove(cell);
        }
        if held != holds {
            if let Some(file) = held.and_then(|file| self.files.get_mut(&file)) {
                file.holders -= 1;
            }
            if let Some(file) = holds.and_then(|file| self.files.get_mut(&file)) {
                file.holders += 1;
            }
        }
    }

    /// A cell's tail, unless its cell record holds everything.
    pub fn tail(&self, cell: &CellId) -> Option<CellTail> {
        self.cells.get(cell).map(|entry| CellTail {
            epoch: entry.epoch,
            txid: entry.txid,
            name: entry.name.clone(),
            alarm_ms: entry.alarm_ms,
            deleted: entry.deleted_in.is_some(),
            records: entry.records.clone(),
        })
    }

    /// All cells that have a tail, in no order.
    pub fn cells(&self) -> impl Iterator<Item = &CellId> {
        self.cells.keys()
    }

    /// Alarms of all cells that have a tail, in no order.
    pub fn alarms(&self) -> impl Iterator<Item = (&CellId, Option<i64>)> {
        self.cells
            .iter()
            .map(|(cell, entry)| (cell, entry.alarm_ms))
    }

    /// Up to `limit` of the cells that keep the oldest file from being removed.
    pub fn holders(&self, limit: usize) -> Vec<CellId> {
        let Some(oldest) = self.files.keys().next() else {
            return Vec::new();
        };
        let holds = |(_, entry): &(&CellId, &Entry)| entry.holds() == Some(*oldest);
        self.cells
            .iter()
            .filter(holds)
            .take(limit)
            .map(|(cell, _)| cell.clone())
            .collect()
    }

    /// Takes out the oldest files that no cell needs, up to `current`, which is being written.
    ///
    /// Only from the old end: so the mark of a checkpoint or a deletion outlives the commits that
    /// it speaks of, and no gap in the log is ever in order.
    pub fn take_dead_files(&mut self, current: FileNo) -> Vec<PathBuf> {
        let mut dead = Vec::new();
        while let Some(first) = self.files.first_entry()
            && first.get().holders == 0
            && *first.key() < current
        {
            dead.push(first.remove().path);
        }
        dead
    }

    /// How many files there are.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Bytes of records that cells need.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    fn intern(&mut self, cell: &CellId) -> CellId {
        let namespace = match self.namespaces.get(&cell.namespace) {
            Some(known) => known.clone(),
            None => {
                self.namespaces.insert(cell.namespace.clone());
                cell.namespace.clone()
            }
        };
        CellId {
            namespace,
            object: cell.object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use celld_core::ObjectId;
    use proptest::prelude::*;

    fn cell(n: u8) -> CellId {
        CellId {
            namespace: NamespaceKey::new("ns").unwrap(),
            object: ObjectId::from_bytes([n; 32]),
        }
    }

    fn commit(n: u8, txid: u64) -> Record {
        let alarm_ms = Some(txid as i64);
        let (epoch, name, segment) = (Epoch::new(1), None, Bytes::new());
        Record::Commit(Commit {
            cell: cell(n),
            epoch,
            txid: Txid::new(txid),
            name,
            alarm_ms,
            segment,
        })
    }

    fn place(file: FileNo, offset: u64) -> Place {
        Place {
            file,
            offset,
            length: 10,
            lsn: Lsn::new(offset),
        }
    }

    fn txids(index: &Index, n: u8) -> Vec<u64> {
        index
            .tail(&cell(n))
            .map(|tail| tail.records.iter().map(|r| r.txid.get()).collect())
            .unwrap_or_default()
    }

    #[test]
    fn files_go_oldest_first_and_only_when_no_cell_needs_them() {
        let mut index = Index::default();
        let files: Vec<_> = (0..4)
            .map(|n| index.add_file(format!("{n}").into(), 0))
            .collect();
        index.note(&commit(1, 1), place(files[0], 1));
        index.note(&commit(2, 1), place(files[1], 2));
        index.note(&commit(1, 2), place(files[2], 3));
        assert_eq!(index.holders(9), [cell(1)]);
        index.checkpointed(&cell(2), Txid::new(1));
        assert!(
            index.take_dead_files(files[3]).is_empty(),
            "the first file is needed"
        );
        index.checkpointed(&cell(1), Txid::new(1));
        assert_eq!(
            index.take_dead_files(files[3]),
            [PathBuf::from("0"), "1".into()]
        );
        assert_eq!((txids(&index, 1), index.live_bytes()), (vec![2], 10));
        index.checkpointed(&cell(1), Txid::new(2));
        assert_eq!(
            index.take_dead_files(files[2]),
            Vec::<PathBuf>::new(),
            "the current file stays"
        );
        assert_eq!(
            (
                index.cells().count(),
                index.live_bytes(),
                index.file_count()
            ),
            (0, 0, 2)
        );
    }

    #[test]
    fn a_deletion_voids_what_was_and_is_kept_until_it_is_done() {
        let mut index = Index::default();
        let file = index.add_file("a".into(), 0);
        let next = index.add_file("b".into(), 0);
        index.note(&commit(1, 1), place(file, 1));
        index.note(&Record::Deleted { cell: cell(1) }, place(file, 2));
        assert!(index.tail(&cell(1)).unwrap().deleted);
        assert_eq!(txids(&index, 1), Vec::<u64>::new());
        assert!(index.take_dead_files(next).is_empty());
        index.note(&commit(1, 1), place(next, 3));
        let tail = index.tail(&cell(1)).unwrap();
        assert_eq!(
            (tail.deleted, tail.after(Txid::new(0)).unwrap().len()),
            (true, 1)
        );
        index.checkpointed(&cell(1), Txid::new(1));
        assert_eq!(index.take_dead_files(next).len(), 1);
    }

    #[test]
    fn a_tail_follows_a_snapshot_without_a_gap() {
        let mut index = Index::default();
        let file = index.add_file("a".into(), 0);
        for txid in 4..=6 {
            index.note(&commit(1, txid), place(file, txid));
        }
        let tail = index.tail(&cell(1)).unwrap();
        let after = |txid| tail.after(Txid::new(txid)).map(<[_]>::len);
        assert_eq!(
            (after(3), after(5), after(6), after(9)),
            (Ok(3), Ok(1), Ok(0), Ok(0))
        );
        assert_eq!(
            after(2),
            Err(TailGap {
                have: Txid::new(2),
                missing: Txid::new(3)
            })
        );
    }

    #[test]
    fn numbers_that_come_again_replace_the_fork() {
        let mut index = Index::default();
        let file = index.add_file("a".into(), 0);
        for txid in [1, 2, 3, 2] {
            index.note(&commit(1, txid), place(file, txid));
        }
        assert_eq!(
            (txids(&index, 1), index.tail(&cell(1)).unwrap().alarm_ms),
            (vec![1, 2], Some(2))
        );
    }

    proptest! {
        /// Against a model that keeps everything in plain lists.
        #[test]
        fn counts_of_holders_and_bytes_agree_with_a_recount(steps in proptest::collection::vec((0u8..4, 0u8..5, 1u64..6), 0..80)) {
            let mut index = Index::default();
            let mut file = index.add_file("f".into(), 0);
            for (n, (what, who, txid)) in steps.into_iter().enumerate() {
                match what {
                    0 => file = index.add_file("f".into(), 0),
                    1 => index.checkpointed(&cell(who), Txid::new(txid)),
                    2 if txid == 1 => index.note(&Record::Deleted { cell: cell(who) }, place(file, n as u64)),
                    _ => index.note(&commit(who, txid), place(file, n as u64)),
                }
                for (no, entry) in &index.files {
                    let count = index.cells.values().filter(|cell| cell.holds() == Some(*no)).count();
                    prop_assert_eq!(entry.holders, count);
                }
                let bytes: u64 = index.cells.values().flat_map(|cell| &cell.records).map(RecordRef::bytes).sum();
                prop_assert_eq!(index.live_bytes(), bytes);
                index.take_dead_files(file);
                let oldest = index.files.keys().next().copied().unwrap();
                prop_assert!(index.cells.values().all(|cell| cell.holds().unwrap() >= oldest));
            }
        }
    }
}
