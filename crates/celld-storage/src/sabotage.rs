//! Planted faults: damage that looks like sound data, for tests that must notice it.

use bytes::Bytes;

use crate::format::{PAGE, SegmentPages, read_segment, write_segment};

/// Number of pages in a segment; 0 when it is damaged.
pub fn page_count(segment: &[u8]) -> usize {
    read_segment(segment, 0).map_or(0, |segment| segment.numbers.len())
}

/// The segment without its page at position `index`, with checksums that fit.
pub fn drop_page(segment: &[u8], index: usize) -> Option<Bytes> {
    let mut whole = read_segment(segment, 0).ok()?;
    if index >= whole.numbers.len() {
        return None;
    }
    whole.numbers.remove(index);
    whole.contents.drain(index * PAGE..(index + 1) * PAGE);
    let (bytes, _) = write_segment(&SegmentPages {
        txid: whole.txid,
        before: whole.before,
        db_pages: whole.db_pages,
        full: false,
        numbers: &whole.numbers,
        contents: &whole.contents,
    });
    Some(bytes)
}
