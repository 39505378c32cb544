//! One file of a followed log.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use celld_core::fleet::ids::Bundled;
use celld_core::{Lsn, SessionId};

use super::{FollowError, RECORD_MAX_BYTES, RawRecord};
use crate::disk::{Disk, DiskFile};
use crate::file::{ALIGN, FRAME_BYTES, Frame, HEADER_BYTES, Header, HeaderRead, stride_of};

pub(super) use crate::file::FRAMES_AT;

/// The two places of the hint: sectors of their own.
const HINTS_AT: [u64; 2] = [1_024, 2_048];
const HINT_BYTES: usize = 28;

/// Bytes that are searched at a time.
const WINDOW_BYTES: usize = 256 << 10;

/// Bytes that a batch takes.
pub(super) fn batch_bytes(records: &[RawRecord]) -> u64 {
    let each = records
        .iter()
        .map(|record| stride_of((record.head.len() + record.segment.len()) as u64));
    each.sum()
}

/// A file that is written by this process.
pub(super) struct LogFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    salt: u64,
    first: Lsn,
    end: Lsn,
    position: u64,
    capacity: u64,
    bundled: Bundled,
    hints: usize,
    buffer: Vec<u8>,
}

impl LogFile {
    /// Makes a file for what comes after `base`, and flushes its header.
    pub(super) fn create(
        disk: &dyn Disk,
        path: &Path,
        session: SessionId,
        number: u64,
        base: Lsn,
        bytes: u64,
    ) -> io::Result<Self> {
        let mut file = disk.create(path, bytes)?;
        let salt = getrandom::u64().map_err(io::Error::other)?;
        let header = Header {
            session,
            generation: 0,
            seq: number,
            first_lsn: base.next(),
            salt,
        };
        file.write_at(&header.encode(), 0)?;
        file.sync()?;
        Ok(Self {
            file,
            path: path.to_owned(),
            salt,
            first: base.next(),
            end: base,
            position: FRAMES_AT,
            capacity: bytes,
            bundled: Bundled::default(),
            hints: 0,
            buffer: Vec::new(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.position + bytes <= self.capacity
    }

    /// One write, one flush, and before it the hint when it has moved.
    pub(super) fn append(
        &mut self,
        records: &[RawRecord],
        bundled: Bundled,
        sync: bool,
    ) -> io::Result<()> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        self.buffer.clear();
        for record in records {
            let at = self.buffer.len();
            let mut crc = crc32fast::Hasher::new();
            crc.update(&record.head);
            crc.update(&record.segment);
            let length = record.head.len() + record.segment.len();
            let frame = Frame {
                payload_length: u32::try_from(length).map_err(io::Error::other)?,
                head_length: u32::try_from(record.head.len()).map_err(io::Error::other)?,
                lsn: record.lsn,
                batch_first: first.lsn,
                payload_crc: crc.finalize(),
            };
            self.buffer.extend(frame.encode(self.salt));
            self.buffer.extend(&record.head);
            self.buffer.extend(&record.segment);
            self.buffer.resize(at + frame.stride() as usize, 0);
        }
        if bundled > self.bundled {
            let hint = encode_hint(bundled, self.salt);
            self.file.write_at(&hint, HINTS_AT[self.hints % 2])?;
            self.hints += 1;
            self.bundled = bundled;
        }
        self.file.write_at(&self.buffer, self.position)?;
        if sync {
            self.file.sync()?;
        }
        self.position += self.buffer.len() as u64;
        self.end = last.lsn;
        Ok(())
    }

    /// As a reader sees it.
    pub(super) fn as_old(&self) -> OldFile {
        OldFile {
            path: self.path.clone(),
            salt: self.salt,
            first: self.first,
            end: self.end,
            bundled: self.bundled,
        }
    }
}

/// A file that is read only.
#[derive(Clone, Debug)]
pub(super) struct OldFile {
    pub(super) path: PathBuf,
    salt: u64,
    pub(super) first: Lsn,
    /// Its last sound record; the one before `first` when there is none.
    pub(super) end: Lsn,
    pub(super) bundled: Bundled,
}

impl OldFile {
    /// Reads a file's header and finds its end; `None` when it was never written.
    pub(super) fn read(path: &Path, session: SessionId) -> Result<Option<Self>, FollowError> {
        let damaged = |why| FollowError::Damaged {
            path: path.to_owned(),
            why,
        };
        let failed = |source| FollowError::io(path, source);
        let file = File::open(path).map_err(failed)?;
        let mut raw = [0; HEADER_BYTES];
        let length = read_up_to(&file, &mut raw, 0).map_err(failed)?;
        let header = match Header::decode(&raw[..length]) {
            HeaderRead::Sound(header) => header,
            HeaderRead::Unwritten => return Ok(None),
            HeaderRead::Bad(why) => return Err(damaged(why)),
        };
        if header.session != session || header.first_lsn == Lsn::default() {
            return Err(damaged("its header is of another log than its name"));
        }
        let mut found = Self {
            path: path.to_owned(),
            salt: header.salt,
            first: header.first_lsn,
            end: Lsn::new(header.first_lsn.get() - 1),
            bundled: Bundled::default(),
        };
        for at in HINTS_AT {
            let mut hint = [0; HINT_BYTES];
            read_up_to(&file, &mut hint, at).map_err(failed)?;
            let hint = decode_hint(&hint, header.salt).unwrap_or_default();
            found.bundled = found.bundled.max(hint);
        }
        let mut end = found.end;
        let stopped_at = found.walk(&file, |frame, _| {
            end = frame.lsn;
            true
        })?;
        found.end = end;
        found.check_rest(&file, stopped_at)?;
        Ok(Some(found))
    }

    /// Adds the records after `after` up to `end`.
    pub(super) fn records(
        &self,
        after: Lsn,
        end: Lsn,
        records: &mut Vec<RawRecord>,
    ) -> Result<(), FollowError> {
        if self.end <= after || self.first > end {
            return Ok(());
        }
        let file = File::open(&self.path).map_err(|source| FollowError::io(&self.path, source))?;
        self.walk(&file, |frame, payload| {
            if frame.lsn > after && frame.lsn <= end.min(self.end) {
                let payload = Bytes::from(payload);
                records.push(RawRecord {
                    lsn: frame.lsn,
                    head: payload.slice(..frame.head_length as usize),
                    segment: payload.slice(frame.head_length as usize..),
                });
            }
            frame.lsn < end.min(self.end)
        })?;
        Ok(())
    }

    /// Tells a torn last write from damage: behind what a crash tore, no later write can be.
    fn check_rest(&self, file: &File, at: u64) -> Result<(), FollowError> {
        let failed = |source| FollowError::io(&self.path, source);
        let mut window = vec![0; WINDOW_BYTES + FRAME_BYTES];
        let mut at = at;
        loop {
            let got = read_up_to(file, &mut window, at).map_err(failed)?;
            for start in (0..got.min(WINDOW_BYTES)).step_by(ALIGN as usize) {
                let Some(raw) = window[start..got].first_chunk::<FRAME_BYTES>() else {
                    break;
                };
                let frame = Frame::decode(raw, self.salt);
                if frame.is_some_and(|frame| frame.batch_first > self.end.next()) {
                    return Err(FollowError::Damaged {
                        path: self.path.clone(),
                        why: "a record cannot be read, and later ones can",
                    });
                }
            }
            if got < window.len() {
                return Ok(());
            }
            at += WINDOW_BYTES as u64;
        }
    }

    /// Visits the sound frames in order, until `visit` says that it is enough; gives back where it
    /// stopped. They end where the last write ended, or where a crash tore it: what lies behind
    /// was never acknowledged.
    fn walk(
        &self,
        file: &File,
        mut visit: impl FnMut(&Frame, Vec<u8>) -> bool,
    ) -> Result<u64, FollowError> {
        let failed = |source| FollowError::io(&self.path, source);
        let length = file.metadata().map_err(failed)?.len();
        let (mut at, mut next) = (FRAMES_AT, self.first);
        loop {
            let mut raw = [0; FRAME_BYTES];
            if read_up_to(file, &mut raw, at).map_err(failed)? < FRAME_BYTES {
                return Ok(at);
            }
            let Some(frame) = Frame::decode(&raw, self.salt) else {
                return Ok(at);
            };
            let size = frame.payload_length as usize;
            let fits = at + frame.stride() <= length && size <= RECORD_MAX_BYTES;
            if frame.lsn != next || !fits {
                return Ok(at);
            }
            let mut payload = vec![0; size];
            let got = read_up_to(file, &mut payload, at + FRAME_BYTES as u64).map_err(failed)?;
            if got < size || crc32fast::hash(&payload) != frame.payload_crc {
                return Ok(at);
            }
            if !visit(&frame, payload) {
                return Ok(at);
            }
            at += frame.stride();
            next = next.next();
        }
    }
}

fn encode_hint(bundled: Bundled, salt: u64) -> [u8; HINT_BYTES] {
    let mut out = [0; HINT_BYTES];
    out[..8].copy_from_slice(b"bundled\0");
    out[8..16].copy_from_slice(&bundled.next_seq.to_le_bytes());
    out[16..24].copy_from_slice(&bundled.lsn.get().to_le_bytes());
    let crc = hint_crc(&out, salt);
    out[24..].copy_from_slice(&crc.to_le_bytes());
    out
}

fn decode_hint(raw: &[u8; HINT_BYTES], salt: u64) -> Option<Bundled> {
    let number = |at: usize| raw[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let crc = raw[24..].try_into().map(u32::from_le_bytes).ok()?;
    if &raw[..8] != b"bundled\0" || crc != hint_crc(raw, salt) {
        return None;
    }
    Some(Bundled {
        next_seq: number(8)?,
        lsn: Lsn::new(number(16)?),
    })
}

fn hint_crc(raw: &[u8; HINT_BYTES], salt: u64) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&salt.to_le_bytes());
    crc.update(&raw[..24]);
    crc.finalize()
}

fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
