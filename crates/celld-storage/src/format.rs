//! The two durable forms of a cell's data: segments (the pages that one commit changed) and
//! snapshots (the whole database after a commit). All numbers are little-endian.
//!
//! Segment, version 1:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `CLSG` |
//! | 2 | version |
//! | 2 | flags: bit 0 = holds every page of the database |
//! | 4 | page size |
//! | 4 | database size after the commit, in pages |
//! | 8 | txid |
//! | 8 | chain value before the commit |
//! | 8 | chain value after it |
//! | 4 | number of pages |
//! | 4 | length of the compressed pages |
//! | 4·n | page numbers, rising, from 1 |
//! | … | the pages, one LZ4 block |
//! | 4 | CRC-32 of everything before |
//!
//! Snapshot, version 1:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `CLSN` |
//! | 2 | version |
//! | 2 | flags, 0 |
//! | 4 | page size |
//! | 4 | database size in pages |
//! | 8 | txid |
//! | 8 | chain value |
//! | 4 | pages per chunk |
//! | 4 | number of chunks |
//! | 8·n | per chunk: compressed length, CRC-32 of the compressed bytes |
//! | 4 | CRC-32 of everything before |
//! | … | the chunks, one LZ4 block each |
//!
//! A chunk can be fetched and checked alone, so a large snapshot may be read in ranges.
//!
//! The chain value ties a commit to everything before it: a segment of another history, a
//! missing one or a repeated one does not fit.

use bytes::Bytes;
use celld_core::Txid;

use crate::error::StorageError;

/// Bytes in a page of a cell's database.
pub const PAGE_SIZE: u32 = 4096;
/// [`PAGE_SIZE`] as an index.
pub(crate) const PAGE: usize = PAGE_SIZE as usize;
/// Version of segments that this build writes and reads.
pub const SEGMENT_VERSION: u16 = 1;
/// Version of snapshots that this build writes and reads.
pub const SNAPSHOT_VERSION: u16 = 1;
/// Pages that a snapshot compresses together.
pub(crate) const CHUNK_PAGES: u32 = 64;

const SEGMENT_MAGIC: &[u8; 4] = b"CLSG";
const SNAPSHOT_MAGIC: &[u8; 4] = b"CLSN";
const FLAG_FULL: u16 = 1;
const SEGMENT_HEADER: usize = 48;
const SNAPSHOT_HEADER: usize = 40;
/// 1 TiB. Far above any limit of a cell, and far from overflow.
const PAGES_MAX: u32 = 1 << 28;
/// LZ4 cannot do better than this, so a larger claim is a lie that would only cost memory.
const LZ4_RATIO_MAX: usize = 255;

/// A running value that depends on every commit so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain(u64);

impl Chain {
    fn after(self, txid: Txid, crc: u32) -> Self {
        // The finalizer of splitmix64: every input bit reaches every output bit.
        let mut x = self.0 ^ (u64::from(crc) << 32 | u64::from(crc)) ^ txid.get().rotate_left(17);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self(x ^ (x >> 31))
    }
}

/// What is needed to write a segment.
pub(crate) struct SegmentPages<'a> {
    pub txid: Txid,
    pub before: Chain,
    /// Database size after the commit.
    pub db_pages: u32,
    /// Every page of the database is here, so the segment can begin a history.
    pub full: bool,
    /// Page numbers, rising.
    pub numbers: &'a [u32],
    /// Contents, in the same order.
    pub contents: &'a [u8],
}

/// Builds a segment. Answers the bytes and the chain value after it.
pub(crate) fn write_segment(pages: &SegmentPages<'_>) -> (Bytes, Chain) {
    debug_assert_eq!(pages.numbers.len() * PAGE, pages.contents.len());
    let body_at = SEGMENT_HEADER + 4 * pages.numbers.len();
    let most = lz4_flex::block::get_maximum_output_size(pages.contents.len());
    let mut out = vec![0u8; body_at + most + 4];
    let packed = lz4_flex::block::compress_into(pages.contents, &mut out[body_at..body_at + most])
        .expect("the buffer has the largest size that LZ4 can need");
    for (slot, number) in out[SEGMENT_HEADER..body_at]
        .chunks_exact_mut(4)
        .zip(pages.numbers)
    {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    let crc = crc32fast::hash(&out[SEGMENT_HEADER..body_at + packed]);
    let after = pages.before.after(pages.txid, crc);
    let mut head = Writer(&mut out[..SEGMENT_HEADER]);
    head.put(SEGMENT_MAGIC);
    head.put(&SEGMENT_VERSION.to_le_bytes());
    head.put(&(if pages.full { FLAG_FULL } else { 0 }).to_le_bytes());
    head.put(&PAGE_SIZE.to_le_bytes());
    head.put(&pages.db_pages.to_le_bytes());
    head.put(&pages.txid.get().to_le_bytes());
    head.put(&pages.before.0.to_le_bytes());
    head.put(&after.0.to_le_bytes());
    head.put(&(pages.numbers.len() as u32).to_le_bytes());
    head.put(&(packed as u32).to_le_bytes());
    let end = body_at + packed;
    let sum = crc32fast::hash(&out[..end]);
    out[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    out.truncate(end + 4);
    if out.capacity() > 2 * out.len() {
        out.shrink_to_fit();
    }
    (out.into(), after)
}

/// A segment that was read and checked.
#[derive(Debug)]
pub(crate) struct Segment {
    pub txid: Txid,
    pub before: Chain,
    pub after: Chain,
    pub db_pages: u32,
    pub full: bool,
    pub numbers: Vec<u32>,
    pub contents: Vec<u8>,
}

/// Reads the transaction number of a segment without checking the rest.
pub fn segment_txid(data: &[u8]) -> Option<Txid> {
    if data.get(..4)? != SEGMENT_MAGIC {
        return None;
    }
    let raw = data.get(16..24)?.try_into().ok()?;
    Some(Txid::new(u64::from_le_bytes(raw)))
}

/// Reads and checks a segment; `index` is its place in the tail, for messages.
pub(crate) fn read_segment(data: &[u8], index: usize) -> Result<Segment, StorageError> {
    let txid = segment_txid(data);
    let bad = |what: String| StorageError::DamagedSegment { index, txid, what };
    let mut head = Reader { data, at: 0 };
    let short = || bad(format!("it ends after {} bytes", data.len()));
    if head.take(4).ok_or_else(short)? != SEGMENT_MAGIC {
        return Err(bad("it does not begin with CLSG".into()));
    }
    let version = head.u16().ok_or_else(short)?;
    if version != SEGMENT_VERSION {
        return Err(StorageError::UnknownFormat {
            what: "segment",
            found: version,
            known: SEGMENT_VERSION,
        });
    }
    check_trailing_crc(data).map_err(bad)?;
    let mut fields = || {
        Some((
            head.u16()?,
            head.u32()?,
            head.u32()?,
            head.u64()?,
            head.u64()?,
            head.u64()?,
            head.u32()? as usize,
            head.u32()? as usize,
        ))
    };
    let (flags, page_size, db_pages, txid_raw, before, after, count, packed) =
        fields().ok_or_else(short)?;
    if page_size != PAGE_SIZE {
        return Err(bad(format!(
            "pages have {page_size} bytes instead of {PAGE_SIZE}"
        )));
    }
    if flags & !FLAG_FULL != 0 {
        return Err(bad(format!("unknown flags {flags:#x}")));
    }
    // Sizes are checked against the bytes that are there before anything is allocated for them.
    let expected = SEGMENT_HEADER as u64 + 4 * count as u64 + packed as u64 + 4;
    if expected != data.len() as u64 {
        return Err(bad(format!(
            "it has {} bytes, but its header describes {expected}",
            data.len()
        )));
    }
    let numbers: Vec<u32> = head
        .take(4 * count)
        .ok_or_else(short)?
        .chunks_exact(4)
        .map(|raw| u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]))
        .collect();
    let rising = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    let within =
        numbers.first().is_none_or(|&n| n >= 1) && numbers.last().is_none_or(|&n| n <= db_pages);
    if !rising || !within || db_pages == 0 || db_pages > PAGES_MAX {
        return Err(bad(
            "its page numbers are out of order or beyond the database's end".into(),
        ));
    }
    let full = flags & FLAG_FULL != 0;
    if full && count != db_pages as usize {
        return Err(bad(format!(
            "it claims to hold all {db_pages} pages, but holds {count}"
        )));
    }
    let packed = head.take(packed).ok_or_else(short)?;
    let contents = unpack(packed, count * PAGE).map_err(bad)?;
    let segment = Segment {
        txid: Txid::new(txid_raw),
        before: Chain(before),
        after: Chain(after),
        db_pages,
        full,
        numbers,
        contents,
    };
    let crc = crc32fast::hash(&data[SEGMENT_HEADER..data.len() - 4]);
    if segment.before.after(segment.txid, crc) != segment.after {
        return Err(bad("its chain value does not fit its pages".into()));
    }
    Ok(segment)
}

fn check_trailing_crc(data: &[u8]) -> Result<(), String> {
    let Some((rest, sum)) = data.split_last_chunk::<4>() else {
        return Err(format!("it ends after {} bytes", data.len()));
    };
    if crc32fast::hash(rest) != u32::from_le_bytes(*sum) {
        return Err("its checksum does not match its bytes".into());
    }
    Ok(())
}

fn unpack(packed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    if size > packed.len().saturating_mul(LZ4_RATIO_MAX) {
        return Err(format!("{} bytes cannot unpack to {size}", packed.len()));
    }
    let mut out = vec![0u8; size];
    match lz4_flex::block::decompress_into(packed, &mut out) {
        Ok(n) if n == size => Ok(out),
        Ok(n) => Err(format!("its pages unpack to {n} bytes instead of {size}")),
        Err(error) => Err(format!("its pages do not unpack: {error}")),
    }
}

/// Writes a snapshot, chunk by chunk. `read(first, into)` fills in the pages from `first` on.
pub(crate) fn write_snapshot(
    txid: Txid,
    chain: Chain,
    db_pages: u32,
    mut read: impl FnMut(u32, &mut [u8]) -> Result<(), StorageError>,
) -> Result<Bytes, StorageError> {
    let chunks = db_pages.div_ceil(CHUNK_PAGES) as usize;
    let body_at = SNAPSHOT_HEADER + 8 * chunks + 4;
    let mut out = vec![0u8; body_at];
    let mut raw = vec![0u8; db_pages.min(CHUNK_PAGES) as usize * PAGE];
    for chunk in 0..chunks {
        let first = chunk as u32 * CHUNK_PAGES;
        let pages = (db_pages - first).min(CHUNK_PAGES) as usize;
        let raw = &mut raw[..pages * PAGE];
        read(first + 1, raw)?;
        let at = out.len();
        out.resize(at + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
        let packed = lz4_flex::block::compress_into(raw, &mut out[at..])
            .expect("the buffer has the largest size that LZ4 can need");
        out.truncate(at + packed);
        let crc = crc32fast::hash(&out[at..]);
        let mut entry =
            Writer(&mut out[SNAPSHOT_HEADER + 8 * chunk..SNAPSHOT_HEADER + 8 * chunk + 8]);
        entry.put(&(packed as u32).to_le_bytes());
        entry.put(&crc.to_le_bytes());
    }
    let mut head = Writer(&mut out[..SNAPSHOT_HEADER]);
    head.put(SNAPSHOT_MAGIC);
    head.put(&SNAPSHOT_VERSION.to_le_bytes());
    head.put(&0u16.to_le_bytes());
    head.put(&PAGE_SIZE.to_le_bytes());
    head.put(&db_pages.to_le_bytes());
    head.put(&txid.get().to_le_bytes());
    head.put(&chain.0.to_le_bytes());
    head.put(&CHUNK_PAGES.to_le_bytes());
    head.put(&(chunks as u32).to_le_bytes());
    let sum = crc32fast::hash(&out[..body_at - 4]);
    out[body_at - 4..body_at].copy_from_slice(&sum.to_le_bytes());
    out.shrink_to_fit();
    Ok(out.into())
}

/// A snapshot whose header was read and checked; its chunks are checked as they are read.
#[derive(Debug)]
pub(crate) struct Snapshot<'a> {
    pub txid: Txid,
    pub chain: Chain,
    pub db_pages: u32,
    chunk_pages: u32,
    chunks: Vec<(&'a [u8], u32)>,
}

impl<'a> Snapshot<'a> {
    /// Reads and checks header and index.
    pub fn open(data: &'a [u8]) -> Result<Self, StorageError> {
        let bad = |what: String| StorageError::DamagedSnapshot { what };
        let short = || bad(format!("it ends after {} bytes", data.len()));
        let mut head = Reader { data, at: 0 };
        if head.take(4).ok_or_else(short)? != SNAPSHOT_MAGIC {
            return Err(bad("it does not begin with CLSN".into()));
        }
        let version = head.u16().ok_or_else(short)?;
        if version != SNAPSHOT_VERSION {
            return Err(StorageError::UnknownFormat {
                what: "snapshot",
                found: version,
                known: SNAPSHOT_VERSION,
            });
        }
        let mut fields = || {
            Some((
                head.u16()?,
                head.u32()?,
                head.u32()?,
                head.u64()?,
                head.u64()?,
                head.u32()?,
                head.u32()?,
            ))
        };
        let (flags, page_size, db_pages, txid, chain, chunk_pages, chunks) =
            fields().ok_or_else(short)?;
        if flags != 0 || page_size != PAGE_SIZE || !(1..=4096).contains(&chunk_pages) {
            return Err(bad(format!(
                "its header has flags {flags:#x}, pages of {page_size} bytes and chunks of {chunk_pages} pages"
            )));
        }
        if db_pages == 0 || db_pages > PAGES_MAX || chunks != db_pages.div_ceil(chunk_pages) {
            return Err(bad(format!("{chunks} chunks do not make {db_pages} pages")));
        }
        let index = head.take(8 * chunks as usize).ok_or_else(short)?;
        check_trailing_crc(
            data.get(..SNAPSHOT_HEADER + index.len() + 4)
                .ok_or_else(short)?,
        )
        .map_err(|what| bad(format!("header: {what}")))?;
        head.take(4);
        let mut list = Vec::with_capacity(chunks as usize);
        for entry in index.chunks_exact(8) {
            let mut entry = Reader { data: entry, at: 0 };
            let (len, crc) = entry.u32().zip(entry.u32()).ok_or_else(short)?;
            list.push((head.take(len as usize).ok_or_else(short)?, crc));
        }
        if head.at != data.len() {
            return Err(bad(format!(
                "{} bytes follow its end",
                data.len() - head.at
            )));
        }
        Ok(Self {
            txid: Txid::new(txid),
            chain: Chain(chain),
            db_pages,
            chunk_pages,
            chunks: list,
        })
    }

    /// Unpacks the chunks in order: number of the first page, and the contents.
    pub fn chunks(&self) -> impl Iterator<Item = Result<(u32, Vec<u8>), StorageError>> + '_ {
        self.chunks
            .iter()
            .enumerate()
            .map(|(index, (packed, crc))| {
                let bad = |what: String| StorageError::DamagedSnapshot {
                    what: format!("chunk {index}: {what}"),
                };
                if crc32fast::hash(packed) != *crc {
                    return Err(bad("its checksum does not match its bytes".into()));
                }
                let first = index as u32 * self.chunk_pages;
                let pages = (self.db_pages - first).min(self.chunk_pages) as usize;
                Ok((first + 1, unpack(packed, pages * PAGE).map_err(bad)?))
            })
    }
}

struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = rest;
    }
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let got = self.data.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(got)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment() -> Vec<u8> {
        let numbers = [1, 4, 9];
        let contents: Vec<u8> = (0..3 * PAGE).map(|i| (i / 50) as u8).collect();
        let (bytes, _) = write_segment(&SegmentPages {
            txid: Txid::new(7),
            before: Chain(5),
            db_pages: 9,
            full: false,
            numbers: &numbers,
            contents: &contents,
        });
        bytes.to_vec()
    }

    fn snapshot() -> Vec<u8> {
        let fill = |first: u32, into: &mut [u8]| {
            into.iter_mut()
                .enumerate()
                .for_each(|(i, byte)| *byte = (i / 99) as u8 ^ first as u8);
            Ok(())
        };
        write_snapshot(Txid::new(7), Chain(5), 70, fill)
            .expect("reading cannot fail")
            .to_vec()
    }

    #[test]
    fn what_is_written_is_read() {
        let read = read_segment(&segment(), 0).expect("it is sound");
        assert_eq!(
            (read.txid, read.before, read.db_pages),
            (Txid::new(7), Chain(5), 9)
        );
        assert_eq!(read.numbers, [1, 4, 9]);
        let data = snapshot();
        let read = Snapshot::open(&data).expect("it is sound");
        let chunks: Vec<_> = read
            .chunks()
            .map(|chunk| chunk.expect("it is sound").0)
            .collect();
        assert_eq!((read.db_pages, chunks), (70, vec![1, 65]));
    }

    proptest! {
        /// Lies under a checksum that fits: no panic, no allocation beyond what the bytes allow.
        #[test]
        fn resealed_damage_does_no_harm(at in 0..60usize, value: u8, cut in 0..40usize) {
            let mut data = segment();
            data.truncate(data.len() - cut);
            let end = data.len() - 4;
            data[at] = value;
            let sum = crc32fast::hash(&data[..end]);
            data[end..].copy_from_slice(&sum.to_le_bytes());
            let _ = read_segment(&data, 0);

            let mut data = snapshot();
            data.truncate(data.len() - cut);
            data[at] = value;
            let body = SNAPSHOT_HEADER + 16;
            let sum = crc32fast::hash(&data[..body]);
            data[body..body + 4].copy_from_slice(&sum.to_le_bytes());
            if let Ok(snapshot) = Snapshot::open(&data) {
                let _ = snapshot.chunks().count();
            }
        }
    }
}
