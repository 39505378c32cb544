//! Reading what dead sessions left.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use celld_core::{Lsn, SessionId};

use crate::disk::Disk;
use crate::file::{ALIGN, FRAME_BYTES, FRAMES_AT, Frame, HEADER_BYTES, Header, HeaderRead};
use crate::index::{Index, Place, RecordRef};
use crate::record::Record;
use crate::writer::remove_file;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// What was found of dead sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Dead sessions with a log.
    pub sessions: usize,
    /// Records read.
    pub records: u64,
    /// Sessions that ended without closing their log.
    pub crashed: usize,
    /// Files that end in a write which its session did not live to see done. Nothing of it was
    /// acknowledged.
    pub torn: Vec<PathBuf>,
}

/// A log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system refused.
    #[error("cannot read the node log {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// It is no log file that this version understands.
    #[error(
        "cannot read the node log {}: it is {what}; start the celld that wrote it, or move the file away if it can be spared",
        path.display()
    )]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Acknowledged writes are missing or unreadable.
    #[error(
        "the node log {} is damaged at byte {offset}: {what}; acknowledged writes may be lost: restore the bucket directory from a backup, or move {} away to go on without them",
        path.display(), path.parent().unwrap_or(path).display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The record was checkpointed and its file removed meanwhile.
    #[error(
        "record {lsn} of the node log is gone: the cell's record in the bucket holds it, read that again"
    )]
    Gone {
        /// Its position.
        lsn: Lsn,
    },
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub index: Index,
    pub recovery: Recovery,
    pub last_generation: u64,
    /// Files whose session died while making them.
    unwritten: Vec<PathBuf>,
    /// Session directories without a file.
    empty: Vec<PathBuf>,
}

impl Logs {
    /// Removes what holds nothing.
    pub fn clear_unwritten(&mut self, disk: &dyn Disk) {
        for path in self.unwritten.drain(..) {
            remove_file(disk, &path, None);
        }
        for dir in self.empty.drain(..) {
            let _ = disk.remove_dir(&dir);
        }
    }
}

struct SessionLog {
    session: SessionId,
    generation: u64,
    files: Vec<(PathBuf, Header)>,
}

/// Reads the logs of all sessions in a directory, oldest first. Memory grows with the records
/// that cells need, not with their segments.
pub(crate) fn read_logs(dir: &Path) -> Result<Logs, ReadError> {
    let mut logs = Logs::default();
    let mut sessions: BTreeMap<u64, SessionLog> = BTreeMap::new();
    for (path, name) in entries(dir)? {
        let Some(session) = SessionId::from_hex(&name).filter(|_| path.is_dir()) else {
            continue;
        };
        let Some(found) = find_files(&path, session, &mut logs)? else {
            continue;
        };
        if let Some(other) = sessions.get(&found.generation) {
            tracing::error!(one = %other.session, other = %session, "two sessions of one generation");
            return Err(ReadError::BadFile {
                path,
                what: "of the same generation as another session's",
            });
        }
        sessions.insert(found.generation, found);
    }
    for session in sessions.into_values() {
        logs.last_generation = session.generation;
        read_session(&session, &mut logs)?;
    }
    Ok(logs)
}

fn entries(dir: &Path) -> Result<Vec<(PathBuf, String)>, ReadError> {
    let failed = |source| ReadError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut out = Vec::new();
    for item in fs::read_dir(dir).map_err(failed)? {
        let item = item.map_err(failed)?;
        if let Ok(name) = item.file_name().into_string() {
            out.push((item.path(), name));
        }
    }
    Ok(out)
}

/// Makes sure that what is going to be read is on disk: this session builds on it, so a power
/// failure must not undo it. Only a session's last file can hold what was never flushed.
pub(crate) fn settle_logs(dir: &Path, disk: &dyn Disk) -> Result<(), ReadError> {
    for (session_dir, name) in entries(dir)? {
        if SessionId::from_hex(&name).is_none() || !session_dir.is_dir() {
            continue;
        }
        let Some((_, last)) = numbered_files(&session_dir)?.pop_last() else {
            continue;
        };
        disk.settle(&last)
            .and_then(|()| disk.sync_dir(&session_dir))
            .map_err(|source| ReadError::Io { path: last, source })?;
    }
    disk.sync_dir(dir).map_err(|source| ReadError::Io {
        path: dir.to_owned(),
        source,
    })
}

/// The log files in a session's directory, by their numbers.
fn numbered_files(dir: &Path) -> Result<BTreeMap<u64, PathBuf>, ReadError> {
    let mut by_seq = BTreeMap::new();
    for (path, name) in entries(dir)? {
        if name.len() == 12
            && name.bytes().all(|b| b.is_ascii_digit())
            && let Ok(seq) = name.parse::<u64>()
        {
            by_seq.insert(seq, path);
        }
    }
    Ok(by_seq)
}

/// A session's files in order, their headers checked; `None` when it has none.
fn find_files(
    dir: &Path,
    session: SessionId,
    logs: &mut Logs,
) -> Result<Option<SessionLog>, ReadError> {
    let by_seq = numbered_files(dir)?;
    let Some(last_seq) = by_seq.keys().next_back().copied() else {
        logs.empty.push(dir.to_owned());
        return Ok(None);
    };
    let mut files: Vec<(PathBuf, Header)> = Vec::new();
    for (seq, path) in by_seq {
        let header = match read_header(&path)? {
            HeaderRead::Sound(header) => header,
            HeaderRead::Unwritten if seq == last_seq => {
                logs.unwritten.push(path);
                continue;
            }
            HeaderRead::Unwritten => return Err(damaged(&path, 0, "its header is missing")),
            HeaderRead::Bad(what) => return Err(ReadError::BadFile { path, what }),
        };
        if header.session != session || header.seq != seq {
            return Err(ReadError::BadFile {
                path,
                what: "a log file under another one's name",
            });
        }
        if let Some((_, before)) = files.last()
            && (before.seq + 1 != seq || before.generation != header.generation)
        {
            return Err(damaged(&path, 0, "the file before it is missing"));
        }
        files.push((path, header));
    }
    Ok(files
        .first()
        .map(|(_, first)| first.generation)
        .map(|generation| SessionLog {
            session,
            generation,
            files,
        }))
}

fn read_header(path: &Path) -> Result<HeaderRead, ReadError> {
    let failed = |source| ReadError::Io {
        path: path.to_owned(),
        source,
    };
    let mut raw = Vec::with_capacity(HEADER_BYTES);
    File::open(path)
        .map_err(failed)?
        .take(HEADER_BYTES as u64)
        .read_to_end(&mut raw)
        .map_err(failed)?;
    Ok(Header::decode(&raw))
}

fn damaged(path: &Path, offset: u64, what: &'static str) -> ReadError {
    ReadError::Damaged {
        path: path.to_owned(),
        offset,
        what,
    }
}

fn read_session(session: &SessionLog, logs: &mut Logs) -> Result<(), ReadError> {
    logs.recovery.sessions += 1;
    let mut closed = false;
    let mut expected: Option<Lsn> = None;
    for (n, (path, header)) in session.files.iter().enumerate() {
        if expected.is_some_and(|lsn| lsn != header.first_lsn) {
            return Err(damaged(
                path,
                0,
                "records between this file and the one before it are missing",
            ));
        }
        let file = logs.index.add_file(path.clone(), header.salt);
        let mut reader = FrameReader::open(path, header)?;
        while let Some((record, offset, length)) = reader.next()? {
            let lsn = reader.lsn;
            closed = record == Record::Closed;
            logs.index.note(
                &record,
                Place {
                    file,
                    offset,
                    length,
                    lsn,
                },
            );
            logs.recovery.records += 1;
        }
        // The file behind this one was begun when this one was durable, so its first LSN tells
        // whether anything lacks here. Behind the last one there is only what was being written.
        if n + 1 == session.files.len() && reader.check_tail()? {
            logs.recovery.torn.push(path.clone());
        }
        expected = Some(reader.lsn.next());
    }
    logs.recovery.crashed += usize::from(!closed);
    Ok(())
}

/// Reads one file's frames in order.
struct FrameReader<'a> {
    path: &'a Path,
    input: BufReader<File>,
    file_bytes: u64,
    salt: u64,
    /// Where the next frame begins.
    offset: u64,
    /// The last record that was read.
    lsn: Lsn,
}

impl<'a> FrameReader<'a> {
    fn open(path: &'a Path, header: &Header) -> Result<Self, ReadError> {
        let failed = |source| ReadError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let file_bytes = file.metadata().map_err(failed)?.len();
        let mut input = BufReader::with_capacity(CHUNK_BYTES, file);
        input.seek_relative(FRAMES_AT as i64).map_err(failed)?;
        let lsn = Lsn::new(header.first_lsn.get().saturating_sub(1));
        Ok(Self {
            path,
            input,
            file_bytes,
            salt: header.salt,
            offset: FRAMES_AT,
            lsn,
        })
    }

    /// The next record (a commit without its segment), its offset and its length; `None` where
    /// no whole record of the file follows.
    fn next(&mut self) -> Result<Option<(Record, u64, u32)>, ReadError> {
        match self.read_frame() {
            Ok(Some((frame, head))) => {
                let offset = self.offset;
                if frame.lsn != self.lsn.next() {
                    return Err(damaged(self.path, offset, "a record is out of order"));
                }
                let record =
                    Record::decode_head(&head).map_err(|bad| damaged(self.path, offset, bad.0))?;
                self.lsn = frame.lsn;
                self.offset += frame.stride();
                Ok(Some((record, offset, frame.payload_length)))
            }
            Ok(None) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(source) => Err(ReadError::Io {
                path: self.path.to_owned(),
                source,
            }),
        }
    }

    /// A frame whose checksums hold, and its head.
    fn read_frame(&mut self) -> io::Result<Option<(Frame, Vec<u8>)>> {
        let mut raw = [0; FRAME_BYTES];
        self.input.read_exact(&mut raw)?;
        let Some(frame) = Frame::decode(&raw, self.salt) else {
            return Ok(None);
        };
        // Before anything is allocated for it.
        if self.offset + frame.stride() > self.file_bytes {
            return Ok(None);
        }
        let mut head = vec![0; frame.head_length as usize];
        self.input.read_exact(&mut head)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        let mut left = (frame.payload_length - frame.head_length) as usize;
        while left > 0 {
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let count = chunk.len().min(left);
            hasher.update(&chunk[..count]);
            self.input.consume(count);
            left -= count;
        }
        let padding = frame.stride() - FRAME_BYTES as u64 - u64::from(frame.payload_length);
        self.input.seek_relative(padding as i64)?;
        Ok((hasher.finalize() == frame.payload_crc).then_some((frame, head)))
    }

    /// Judges what lies behind the last whole record. True when there are remains of a write.
    ///
    /// Remains of the write that was under way are in order: its parts reach the disk in any
    /// order. A frame of a later write is not: it was begun when the earlier one was durable.
    fn check_tail(&self) -> Result<bool, ReadError> {
        let failed = |source| ReadError::Io {
            path: self.path.to_owned(),
            source,
        };
        let mut window = vec![0; CHUNK_BYTES + FRAME_BYTES];
        let mut at = self.offset;
        let mut remains = false;
        while at < self.file_bytes {
            let count = read_up_to(self.input.get_ref(), &mut window, at).map_err(failed)?;
            let window = &window[..count];
            if window.iter().any(|byte| *byte != 0) {
                remains = true;
                self.check_window(window, at)?;
            }
            at += CHUNK_BYTES as u64;
        }
        Ok(remains)
    }

    fn check_window(&self, window: &[u8], at: u64) -> Result<(), ReadError> {
        for (n, raw) in window
            .windows(FRAME_BYTES)
            .step_by(ALIGN as usize)
            .enumerate()
        {
            let later = raw
                .first_chunk()
                .filter(|raw| raw[..4] != [0; 4])
                .and_then(|raw| Frame::decode(raw, self.salt))
                .is_some_and(|frame| frame.batch_first > self.lsn.next());
            if later {
                let what = "records lack before one that was written later";
                tracing::error!(file = %self.path.display(), later_at = at + n as u64 * ALIGN, "a hole in the node log");
                return Err(damaged(self.path, self.offset, what));
            }
        }
        Ok(())
    }
}

/// Fills the buffer from `at` on, as far as the file reaches.
fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], at + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Reads one commit's segment and checks it.
pub(crate) fn read_segment(path: &Path, salt: u64, record: &RecordRef) -> Result<Bytes, ReadError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ReadError::Gone { lsn: record.lsn },
        io::ErrorKind::UnexpectedEof => {
            damaged(path, record.offset, "the file ends within a record")
        }
        _ => ReadError::Io {
            path: path.to_owned(),
            source,
        },
    };
    let file = File::open(path).map_err(failed)?;
    let mut raw = [0; FRAME_BYTES];
    file.read_exact_at(&mut raw, record.offset)
        .map_err(failed)?;
    let frame = Frame::decode(&raw, salt)
        .filter(|frame| frame.lsn == record.lsn && frame.payload_length == record.length)
        .ok_or_else(|| {
            damaged(
                path,
                record.offset,
                "a record has changed since it was read",
            )
        })?;
    let mut payload = vec![0; frame.payload_length as usize];
    file.read_exact_at(&mut payload, record.offset + FRAME_BYTES as u64)
        .map_err(failed)?;
    if crc32fast::hash(&payload) != frame.payload_crc {
        return Err(damaged(path, record.offset, "a record's checksum is wrong"));
    }
    Ok(Bytes::from(payload).slice(frame.head_length as usize..))
}
