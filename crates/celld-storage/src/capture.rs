//! Finds the pages that a commit changed: the new frames at the end of the WAL.
//!
//! A WAL is a header of 32 bytes and then frames of 24 + page size bytes. The frame header
//! begins with the page number and, in a commit's last frame, the size of the database in
//! pages; both big-endian. Within the commit the last frame of a page wins.

use std::rc::Rc;

use celld_core::Txid;
use rusqlite::ffi;

use crate::conn::Handle;
use crate::error::{SqlError, StorageError};
use crate::format::PAGE;

const WAL_HEADER: u64 = 32;
const FRAME_HEADER: usize = 24;
const FRAME: usize = FRAME_HEADER + PAGE;
/// Frames that are read at once, to bound the buffer of large commits.
const READ_FRAMES: u32 = 64;

/// Pages of one or more commits.
#[derive(Default)]
pub(crate) struct Pages {
    /// Rising.
    pub numbers: Vec<u32>,
    /// In the order of `numbers`.
    pub contents: Vec<u8>,
    /// Size of the database after the commit, in pages.
    pub db_pages: u32,
}

fn broken(what: String) -> StorageError {
    SqlError {
        code: ffi::SQLITE_CORRUPT,
        message: format!("cannot capture a commit: {what}"),
        critical: true,
    }
    .into()
}

/// Reads frames `from..to` (counted from 0) of the WAL.
pub(crate) fn read_frames(
    conn: &Rc<Handle>,
    from: u32,
    to: u32,
    txid: Txid,
) -> Result<Pages, StorageError> {
    if from >= to {
        return Err(broken(format!(
            "txid {txid} has no frames between {from} and {to}"
        )));
    }
    let mut frames: Vec<(u32, u32)> = Vec::with_capacity((to - from) as usize);
    let mut raw = vec![0u8; (to - from).min(READ_FRAMES) as usize * FRAME];
    let mut contents = Vec::with_capacity((to - from) as usize * PAGE);
    let mut db_pages = 0;
    let mut at = from;
    while at < to {
        let count = (to - at).min(READ_FRAMES);
        let raw = &mut raw[..count as usize * FRAME];
        conn.read_wal(WAL_HEADER + u64::from(at) * FRAME as u64, raw)?;
        for (index, frame) in raw.chunks_exact(FRAME).enumerate() {
            let number = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
            db_pages = u32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]);
            frames.push((number, at - from + index as u32));
            contents.extend_from_slice(&frame[FRAME_HEADER..]);
        }
        at += count;
    }
    if db_pages == 0 {
        return Err(broken(format!(
            "the last frame of txid {txid} is not a commit"
        )));
    }
    Ok(arrange(frames, contents, db_pages))
}

/// Sorts by page and keeps the last frame of each page that the database still has.
fn arrange(mut frames: Vec<(u32, u32)>, contents: Vec<u8>, db_pages: u32) -> Pages {
    let ready = frames.windows(2).all(|pair| pair[0].0 < pair[1].0)
        && frames.last().is_none_or(|last| last.0 <= db_pages);
    if ready {
        let numbers = frames.into_iter().map(|(number, _)| number).collect();
        return Pages {
            numbers,
            contents,
            db_pages,
        };
    }
    frames.sort_unstable();
    let mut pages = Pages {
        db_pages,
        ..Pages::default()
    };
    for (index, &(number, slot)) in frames.iter().enumerate() {
        let newer = frames.get(index + 1).is_some_and(|next| next.0 == number);
        if newer || number > db_pages {
            continue;
        }
        pages.numbers.push(number);
        let start = slot as usize * PAGE;
        pages
            .contents
            .extend_from_slice(&contents[start..start + PAGE]);
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(fill: u8) -> Vec<u8> {
        vec![fill; PAGE]
    }

    #[test]
    fn the_last_frame_of_a_page_wins_and_cut_pages_go() {
        let contents = [page(1), page(2), page(3), page(4)].concat();
        let frames = vec![(3, 0), (1, 1), (3, 2), (9, 3)];
        let pages = arrange(frames, contents, 3);
        assert_eq!(pages.numbers, [1, 3]);
        assert_eq!(pages.contents, [page(2), page(3)].concat());
    }
}
