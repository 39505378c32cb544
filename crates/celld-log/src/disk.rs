//! What the writer asks of a file system. Tests put their own disk behind it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, FallocateFlags, fallocate};

/// A file system, as far as the log writes to it.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory; success when it is there. Not durable before its parent is flushed.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes a file of `bytes` zeros and reserves the space for them. It must not exist. Neither
    /// content nor name are durable before [`DiskFile::sync`] and [`Disk::sync_dir`].
    fn create(&self, file: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Flushes the names in a directory.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes durable what a dead process may have written to a file without a flush, and forgets
    /// what memory holds of it, so that it is read as the disk has it.
    ///
    /// A process that was killed leaves its last write in the page cache: it can be read, and a
    /// power failure would still undo it. After a failed flush the cache even holds what never
    /// reached the disk.
    fn settle(&self, file: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, file: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A file that is being written.
pub trait DiskFile: Send {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns when everything written is on stable storage. After an error nothing is known of
    /// what was written before, and trying again proves nothing.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            // The file system cannot reserve space: a later write may then find the disk full.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(bytes)?,
            Err(errno) => {
                // Leave no file that says nothing.
                let _ = fs::remove_file(path);
                return Err(errno.into());
            }
        }
        Ok(Box::new(RealFile(file)))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn settle(&self, file: &Path) -> io::Result<()> {
        let file = File::open(file)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(())
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
