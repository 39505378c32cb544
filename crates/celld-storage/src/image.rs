//! Data from outside and to outside: building the working file, and snapshots of it.

use std::fs::{File, OpenOptions as FileOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use celld_core::Txid;

use crate::capture;
use crate::cell::CellDb;
use crate::error::StorageError;
use crate::format::{self, Chain, PAGE, Segment, Snapshot};
use crate::template;

/// Where a cell's data comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Image<'a> {
    /// The newest snapshot, if there is one.
    pub snapshot: Option<&'a [u8]>,
    /// Segments after it, in order. Those that the snapshot holds already are skipped.
    pub tail: &'a [Bytes],
    /// Transaction with which the data must end; 0 for a cell that has never committed.
    pub txid: Txid,
}

impl CellDb {
    /// The whole database as of the last commit, compressed; uncommitted writes are not in it.
    pub fn snapshot(&mut self) -> Result<(Txid, Bytes), StorageError> {
        let file = self.file()?;
        let (pages, db_pages) = self.overlay(&file)?;
        let path = &self.path;
        let read = |first: u32, into: &mut [u8]| read_pages(path, &file, &pages, first, into);
        let data = format::write_snapshot(self.txid, self.chain, db_pages, read)?;
        Ok((self.txid, data))
    }

    fn file(&self) -> Result<File, StorageError> {
        File::open(&self.path).map_err(|source| self.io("open", source))
    }

    pub(crate) fn io(&self, action: &'static str, source: std::io::Error) -> StorageError {
        StorageError::Io {
            action,
            path: self.path.clone(),
            source,
        }
    }

    /// Committed pages that are in the WAL but not yet in the file, and the database's size.
    fn overlay(&self, file: &File) -> Result<(capture::Pages, u32), StorageError> {
        if let Some(open) = &self.open
            && open.captured_frames > 0
        {
            let pages = capture::read_frames(&open.conn, 0, open.captured_frames, self.txid)?;
            let db_pages = pages.db_pages;
            return Ok((pages, db_pages));
        }
        let bytes = file
            .metadata()
            .map_err(|source| self.io("measure", source))?
            .len();
        let db_pages = u32::try_from(bytes / PAGE as u64).unwrap_or(u32::MAX);
        Ok((capture::Pages::default(), db_pages))
    }

    /// Every page, after the WAL has `frames` frames.
    pub(crate) fn whole(&mut self, frames: u32) -> Result<capture::Pages, StorageError> {
        debug_assert_eq!(
            self.open.as_ref().map(|open| open.captured_frames),
            Some(frames)
        );
        let file = self.file()?;
        let (pages, db_pages) = self.overlay(&file)?;
        let mut contents = vec![0; db_pages as usize * PAGE];
        read_pages(&self.path, &file, &pages, 1, &mut contents)?;
        Ok(capture::Pages {
            numbers: (1..=db_pages).collect(),
            contents,
            db_pages,
        })
    }
}

/// Reads pages from the file, with those of `newer` in their place.
fn read_pages(
    path: &Path,
    file: &File,
    newer: &capture::Pages,
    first: u32,
    into: &mut [u8],
) -> Result<(), StorageError> {
    let io = |source| StorageError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    };
    let mut at = u64::from(first - 1) * PAGE as u64;
    let mut rest = &mut *into;
    while !rest.is_empty() {
        let got = file.read_at(rest, at).map_err(io)?;
        if got == 0 {
            // Pages beyond the file's end are in the WAL, or were never written.
            rest.fill(0);
            break;
        }
        at += got as u64;
        rest = &mut rest[got..];
    }
    let end = first + (into.len() / PAGE) as u32;
    let from = newer.numbers.partition_point(|&number| number < first);
    for (index, &number) in newer.numbers.iter().enumerate().skip(from) {
        if number >= end {
            break;
        }
        let to = (number - first) as usize * PAGE;
        into[to..to + PAGE].copy_from_slice(&newer.contents[index * PAGE..(index + 1) * PAGE]);
    }
    Ok(())
}

/// Removes a WAL that lies beside the file.
pub(crate) fn remove_wal(path: &Path) -> Result<(), StorageError> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    match std::fs::remove_file(&wal) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(StorageError::Io {
            action: "remove",
            path: wal.into(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Writes the file for `image`. Answers where its history ends.
pub(crate) fn restore(path: &Path, image: &Image<'_>) -> Result<(Txid, Chain), StorageError> {
    let io = |source| StorageError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    };
    remove_wal(path)?;
    let file = FileOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(io)?;
    let write = |first: u32, pages: &[u8]| {
        file.write_all_at(pages, u64::from(first - 1) * PAGE as u64)
            .map_err(io)
    };
    let (mut txid, mut chain, mut db_pages) = (Txid::new(0), Chain::default(), 0);
    match image.snapshot {
        Some(data) => {
            let snapshot = Snapshot::open(data)?;
            for chunk in snapshot.chunks() {
                let (first, pages) = chunk?;
                write(first, &pages)?;
            }
            (txid, chain, db_pages) = (snapshot.txid, snapshot.chain, snapshot.db_pages);
        }
        None if image.tail.is_empty() => write(1, template::image()?)?,
        None => {}
    }
    for (index, data) in image.tail.iter().enumerate() {
        if format::segment_txid(data).is_some_and(|older| older <= txid) {
            continue;
        }
        let segment = format::read_segment(data, index)?;
        check_follows(&segment, index, txid, chain)?;
        for (number, page) in segment
            .numbers
            .iter()
            .zip(segment.contents.chunks_exact(PAGE))
        {
            write(*number, page)?;
        }
        if segment.db_pages != db_pages {
            db_pages = segment.db_pages;
            let bytes = u64::from(db_pages) * PAGE as u64;
            file.set_len(bytes).map_err(io)?;
        }
        (txid, chain) = (segment.txid, segment.after);
    }
    if txid != image.txid {
        return Err(StorageError::WrongEnd {
            found: txid,
            expected: image.txid,
        });
    }
    Ok((txid, chain))
}

/// Checks that a segment continues the history that ends with `txid` and `chain`.
fn check_follows(
    segment: &Segment,
    index: usize,
    txid: Txid,
    chain: Chain,
) -> Result<(), StorageError> {
    let what = if segment.txid != txid.next() {
        format!("it follows txid {txid}: segments between them are missing")
    } else if segment.before != chain {
        format!("it belongs to another history than txid {txid} before it")
    } else if txid == Txid::new(0) && !segment.full {
        "it begins the history but does not hold every page".into()
    } else {
        return Ok(());
    };
    Err(StorageError::DamagedSegment {
        index,
        txid: Some(segment.txid),
        what,
    })
}
