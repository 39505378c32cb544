//! The writer's thread: batches to disk, then gates.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use celld_core::{Lsn, SessionId};

use crate::disk::DiskFile;
use crate::error::{LogFailed, OpenError};
use crate::file::{FRAMES_AT, Frame, Header, stride_of};
use crate::index::{FileNo, Index, Place};
use crate::node_log::Options;
use crate::shared::{Gate, OnFailed, Queued, Shared, run_gate};

/// Faults that the crash tests plant, to prove that they would find them.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    None,
    /// Opens gates before the flush.
    ProveBeforeSync,
    /// Does not flush the name of a new file.
    SkipDirSync,
}

pub(crate) struct WriterConfig {
    pub dir: PathBuf,
    pub session: SessionId,
    pub generation: u64,
    pub options: Options,
}

pub(crate) struct Writer {
    config: WriterConfig,
    session_dir: PathBuf,
    last_seq: u64,
    last_lsn: u64,
    current: Current,
    /// One batch as it goes to disk; kept for its allocation.
    buffer: Vec<u8>,
    places: Vec<Place>,
    opened: Vec<Gate>,
}

/// The file that is being written.
struct Current {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    no: FileNo,
    salt: u64,
    position: u64,
    capacity: u64,
    /// Up to here the file's blocks were written at least once.
    zeroed_to: u64,
}

impl Writer {
    /// Makes the session's directory and first file.
    pub fn begin(config: WriterConfig, index: &mut Index) -> Result<Self, OpenError> {
        let session_dir = config.dir.join(config.session.to_string());
        let disk = &*config.options.disk;
        let made = disk
            .make_dir(&session_dir)
            .and_then(|()| disk.sync_dir(&config.dir))
            .and_then(|()| {
                config
                    .dir
                    .parent()
                    .map_or(Ok(()), |parent| disk.sync_dir(parent))
            });
        made.map_err(|error| LogFailed::disk(&session_dir, "created", error))?;
        let fresh = Fresh::create(
            &config,
            &session_dir,
            1,
            Lsn::new(1),
            config.options.file_bytes,
        )?;
        let current = fresh.begin(index);
        let (buffer, places, opened) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self {
            config,
            session_dir,
            last_seq: 1,
            last_lsn: 0,
            current,
            buffer,
            places,
            opened,
        })
    }

    /// Starts the thread.
    pub fn start(mut self, shared: Arc<Shared>, on_failed: OnFailed) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("celld-log".into())
            .spawn(move || {
                let why = match self.run(&shared) {
                    Ok(()) => LogFailed::Closed,
                    Err(failed) => failed,
                };
                shared.fail(why);
                // A handle may have failed the log meanwhile: the first reason counts.
                let reason = shared.gates.lock().failed.clone();
                match reason {
                    None | Some(LogFailed::Closed) => {}
                    Some(failed) => on_failed(failed),
                }
            })
    }

    fn run(&mut self, shared: &Shared) -> Result<(), LogFailed> {
        let mut taken = Vec::new();
        while shared.take_waiting(&mut taken) {
            let mut rest = &taken[..];
            while !rest.is_empty() {
                let (batch, behind) = rest.split_at(self.fitting(rest));
                if batch.is_empty() {
                    self.roll(&rest[0], shared)?;
                    continue;
                }
                self.write(batch, shared)?;
                self.remove_dead_files(shared);
                rest = behind;
            }
            taken.clear();
        }
        self.remove_everything_if_unneeded(shared);
        Ok(())
    }

    /// How many of the records make the next batch; 0 when not even one fits into the file.
    fn fitting(&self, records: &[Queued]) -> usize {
        let room = self.current.capacity - self.current.position;
        let mut bytes = 0;
        let fits = |(n, record): &(usize, &Queued)| {
            bytes += stride_of(record.payload_length.into());
            bytes <= room && (*n == 0 || bytes <= self.config.options.batch_max_bytes)
        };
        records.iter().enumerate().take_while(fits).count()
    }

    /// One write, one flush, then the gates.
    fn write(&mut self, batch: &[Queued], shared: &Shared) -> Result<(), LogFailed> {
        let length = self.encode(batch);
        self.zero_ahead(length);
        let last = Lsn::new(self.last_lsn + batch.len() as u64);
        #[cfg(test)]
        if self.config.options.sabotage == Sabotage::ProveBeforeSync {
            self.open_gates(last, shared);
        }
        let begun = Instant::now();
        let current = &mut self.current;
        let failed = |doing, error| LogFailed::disk(&current.path, doing, error);
        let written = current.file.write_at(&self.buffer, current.position);
        written.map_err(|error| failed("written", error))?;
        let flushed = current.file.sync();
        flushed.map_err(|error| failed("flushed", error))?;
        let spent = begun.elapsed();
        current.position += length;
        self.last_lsn = last.get();
        {
            let mut index = shared.index.lock();
            for (queued, place) in batch.iter().zip(&self.places) {
                index.note(&queued.record, *place);
            }
        }
        let payload: u64 = batch
            .iter()
            .map(|queued| u64::from(queued.payload_length))
            .sum();
        shared.backlog_bytes.fetch_sub(payload, Ordering::Relaxed);
        {
            let mut stats = shared.stats.lock();
            stats.records += batch.len() as u64;
            stats.bytes += length;
            stats.batches += 1;
            stats.flush_total += spent;
        }
        self.open_gates(last, shared);
        Ok(())
    }

    /// Fills `buffer` and `places`; the batch's length.
    fn encode(&mut self, batch: &[Queued]) -> u64 {
        self.buffer.clear();
        self.buffer
            .shrink_to(2 * self.config.options.batch_max_bytes as usize);
        self.places.clear();
        let batch_first = Lsn::new(self.last_lsn + 1);
        let mut lsn = batch_first;
        for queued in batch {
            let frame = Frame {
                payload_length: queued.payload_length,
                // The head is a part of the payload, whose length fits.
                head_length: queued.head.len() as u32,
                lsn,
                batch_first,
                payload_crc: queued.payload_crc,
            };
            let offset = self.buffer.len();
            self.places.push(Place {
                file: self.current.no,
                offset: self.current.position + offset as u64,
                length: queued.payload_length,
                lsn,
            });
            self.buffer.extend(frame.encode(self.current.salt));
            self.buffer.extend(&queued.head);
            self.buffer.extend(queued.record.segment());
            self.buffer.resize(offset + frame.stride() as usize, 0);
            lsn = lsn.next();
        }
        self.buffer.len() as u64
    }

    /// Adds zeros behind a small batch that reaches blocks which were never written: turning
    /// those into written ones is metadata, and one flush of it serves many batches.
    fn zero_ahead(&mut self, length: u64) {
        let end = self.current.position + length;
        if end <= self.current.zeroed_to {
            return;
        }
        let step = self.config.options.zero_ahead_bytes;
        let target = if length < step {
            end.next_multiple_of(step).min(self.current.capacity)
        } else {
            end
        };
        self.buffer
            .resize((target - self.current.position) as usize, 0);
        self.current.zeroed_to = target;
    }

    /// Opens what waits up to `durable`, and only then publishes that position: whoever finds it
    /// proven already must not overtake a gate that is just being opened.
    fn open_gates(&mut self, durable: Lsn, shared: &Shared) {
        loop {
            let mut gates = shared.gates.lock();
            self.opened.extend(gates.queue.take_due(durable));
            if self.opened.is_empty() {
                // Nothing is due, so this yields no gate.
                drop(gates.queue.prove(durable));
                shared.durable.store(durable.get(), Ordering::Release);
                return;
            }
            drop(gates);
            for gate in self.opened.drain(..) {
                run_gate(gate, Ok(()));
            }
        }
    }

    /// Begins the next file. Everything before it is durable: recovery relies on that.
    fn roll(&mut self, first: &Queued, shared: &Shared) -> Result<(), LogFailed> {
        let needed = FRAMES_AT + stride_of(first.payload_length.into());
        let capacity = self.config.options.file_bytes.max(needed);
        self.last_seq += 1;
        let first_lsn = Lsn::new(self.last_lsn + 1);
        let fresh = Fresh::create(
            &self.config,
            &self.session_dir,
            self.last_seq,
            first_lsn,
            capacity,
        )?;
        self.current = fresh.begin(&mut shared.index.lock());
        Ok(())
    }

    fn remove_dead_files(&self, shared: &Shared) {
        let dead = shared.index.lock().take_dead_files(self.current.no);
        for path in dead {
            remove_file(&*self.config.options.disk, &path, Some(&self.session_dir));
        }
    }

    fn remove_everything_if_unneeded(&self, shared: &Shared) {
        if shared.gates.lock().failed.is_some() {
            return;
        }
        self.remove_dead_files(shared);
        let index = shared.index.lock();
        if index.file_count() == 1 && index.cells().next().is_none() {
            remove_file(&*self.config.options.disk, &self.current.path, None);
        }
    }
}

/// Removes a log file durably, and its directory if that is empty then and not `keep`.
///
/// Each removal is flushed before the next, so that what is left after a crash is always the
/// young end of the log. A file that stays does no harm: it is recovered again.
pub(crate) fn remove_file(disk: &dyn crate::Disk, path: &Path, keep: Option<&Path>) {
    let removed = disk
        .remove(path)
        .and_then(|()| path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir)));
    if let Err(error) = removed {
        tracing::warn!(file = %path.display(), %error, "cannot remove a log file that is not needed any more");
    }
    if let Some(dir) = path.parent()
        && Some(dir) != keep
    {
        // Fails while other files are in it.
        let _ = disk.remove_dir(dir);
    }
}

/// A file that was made and is not in the index yet.
struct Fresh {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    salt: u64,
    capacity: u64,
}

impl Fresh {
    /// Makes a file with its header, durably.
    fn create(
        config: &WriterConfig,
        session_dir: &Path,
        seq: u64,
        first_lsn: Lsn,
        capacity: u64,
    ) -> Result<Self, LogFailed> {
        let path = session_dir.join(format!("{seq:012}"));
        let failed = |error| LogFailed::disk(&path, "created", error);
        let mut salt = [0; 8];
        getrandom::fill(&mut salt).map_err(|error| failed(io::Error::other(error)))?;
        let salt = u64::from_le_bytes(salt);
        let disk = &*config.options.disk;
        let capacity = capacity.max(2 * FRAMES_AT);
        let mut file = disk.create(&path, capacity).map_err(failed)?;
        let (session, generation) = (config.session, config.generation);
        let header = Header {
            session,
            generation,
            seq,
            first_lsn,
            salt,
        };
        file.write_at(&header.encode(), 0).map_err(failed)?;
        file.sync().map_err(failed)?;
        #[cfg(test)]
        if config.options.sabotage == Sabotage::SkipDirSync {
            return Ok(Self {
                file,
                path,
                salt,
                capacity,
            });
        }
        disk.sync_dir(session_dir).map_err(failed)?;
        Ok(Self {
            file,
            path,
            salt,
            capacity,
        })
    }

    /// Makes it the file that is written.
    fn begin(self, index: &mut Index) -> Current {
        let Self {
            file,
            path,
            salt,
            capacity,
        } = self;
        let no = index.add_file(path.clone(), salt);
        Current {
            file,
            path,
            no,
            salt,
            position: FRAMES_AT,
            capacity,
            zeroed_to: FRAMES_AT,
        }
    }
}
