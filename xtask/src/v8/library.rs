//! Which library is wanted, what its file is called, and how a candidate is checked.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::shell;

/// Where the `v8` crate's build script downloads from. Part of the name in Cargo's cache.
const RELEASES: &str = "https://github.com/denoland/rusty_v8/releases/download";
/// What the feature set of `deno_core` adds to the file's name.
const FEATURES: &str = "_simdutf";
/// SHA-256 of libraries that this project was tested with: version, target, hash.
const KNOWN: &[(&str, &str, &str)] = &[(
    "150.4.0",
    "x86_64-unknown-linux-gnu",
    "540309891dc2c4963860ff7d6ce7e0a69c35b986ce0eb95046e4fc2491f3e830",
)];

/// One prebuilt library: a version of V8 for a target.
#[derive(Clone, Debug)]
pub struct Library {
    version: String,
    target: &'static str,
}

impl Library {
    /// The library that `Cargo.lock` asks for, on this machine.
    pub fn wanted() -> Result<Self> {
        let path = shell::root().join("Cargo.lock");
        let lock =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let version = locked_version(&lock, "v8").context("Cargo.lock names no package v8")?;
        Ok(Self {
            version,
            target: host_target()?,
        })
    }

    /// Version of the `v8` crate.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The name of the compressed library, as releases and mirrors use it.
    pub fn file_name(&self) -> String {
        format!("librusty_v8{FEATURES}_release_{}.a.gz", self.target)
    }

    /// The address that the crate's build script would download.
    pub fn address(&self) -> String {
        format!("{RELEASES}/v{}/{}", self.version, self.file_name())
    }

    /// The file in Cargo's cache that the build script prefers to a download.
    pub fn cache_file(&self) -> Result<PathBuf> {
        let name: String = self
            .address()
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '_'
                }
            })
            .collect();
        Ok(shell::cargo_home()?.join(".rusty_v8").join(name))
    }

    /// True when Cargo's cache holds the library. Looks at the first bytes only; [`Self::adopt`]
    /// reads a file through before it gets there.
    pub fn is_cached(&self) -> Result<bool> {
        let path = self.cache_file()?;
        let mut start = [0; 2];
        match File::open(&path).and_then(|mut file| file.read_exact(&mut start)) {
            Ok(()) => Ok(start == GZIP_MAGIC || start == ARCHIVE_MAGIC[..2]),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Checks a candidate and puts a copy of it into Cargo's cache, whole or not at all.
    pub fn adopt(&self, candidate: &Path) -> Result<()> {
        let hash = check_archive(candidate)?;
        match self.verdict(&hash) {
            Verdict::Known => eprintln!("V8 {}: checksum as expected.", self.version),
            Verdict::Different => eprintln!(
                "V8 {}: this is not the library that the project was tested with (SHA-256 {hash}).",
                self.version
            ),
            Verdict::NoneListed => {}
        }
        let place = self.cache_file()?;
        let folder = place
            .parent()
            .context("the cache file has a parent folder")?;
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let unfinished = place.with_extension(format!("new-{}", std::process::id()));
        let copied =
            copy_synced(candidate, &unfinished).and_then(|()| fs::rename(&unfinished, &place));
        if let Err(error) = copied {
            // Best effort: the error itself matters more than the leftover.
            let _ = fs::remove_file(&unfinished);
            return Err(error)
                .with_context(|| format!("copying V8's library to {}", place.display()));
        }
        eprintln!("V8 {}: library at {}", self.version, place.display());
        Ok(())
    }

    /// Reads the cached file through and says what it is.
    pub fn describe_cached(&self) -> Result<String> {
        let path = self.cache_file()?;
        let hash = check_archive(&path)?;
        let verdict = match self.verdict(&hash) {
            Verdict::Known => "the library that the project was tested with",
            Verdict::Different => "not the library that the project was tested with",
            Verdict::NoneListed => "no checksum is listed for this version and target",
        };
        Ok(format!(
            "{}\nSHA-256 {hash}\nwhole; {verdict}",
            path.display()
        ))
    }

    fn verdict(&self, hash: &str) -> Verdict {
        let mut listed = KNOWN
            .iter()
            .filter(|(version, target, _)| *version == self.version && *target == self.target)
            .peekable();
        if listed.peek().is_none() {
            return Verdict::NoneListed;
        }
        if listed.any(|(_, _, known)| *known == hash) {
            Verdict::Known
        } else {
            Verdict::Different
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Known,
    Different,
    NoneListed,
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ARCHIVE_MAGIC: &[u8] = b"!<arch>\n";

/// Reads a compressed library to its end: gzip's own checksum tells a cut or damaged file.
/// Returns the SHA-256 of the compressed bytes.
fn check_archive(path: &Path) -> Result<String> {
    let damaged = || {
        format!(
            "{} is damaged or not a compressed static library",
            path.display()
        )
    };
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut hashed = HashingReader {
        inner: io::BufReader::new(file),
        hash: Sha256::new(),
    };
    let mut decoder = GzDecoder::new(&mut hashed);
    let mut start = [0; ARCHIVE_MAGIC.len()];
    decoder.read_exact(&mut start).with_context(damaged)?;
    if start != ARCHIVE_MAGIC {
        bail!(damaged());
    }
    io::copy(&mut decoder, &mut io::sink()).with_context(damaged)?;
    // What follows the compressed stream belongs to the hash as well.
    io::copy(&mut hashed, &mut io::sink())?;
    Ok(hex::encode(hashed.hash.finalize()))
}

struct HashingReader<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

/// Copies contents only: the source may lie read-only, and the copy must not.
fn copy_synced(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = File::create(to)?;
    io::copy(&mut File::open(from)?, &mut target)?;
    target.flush()?;
    target.sync_all()
}

/// The version of a package in the text of a `Cargo.lock`.
pub fn locked_version(lock: &str, package: &str) -> Option<String> {
    let wanted = format!("name = \"{package}\"");
    let mut lines = lock.lines();
    lines.find(|line| *line == wanted)?;
    let version = lines
        .next()?
        .strip_prefix("version = \"")?
        .strip_suffix('"')?;
    Some(version.to_owned())
}

fn host_target() -> Result<&'static str> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Ok("x86_64-unknown-linux-gnu"),
        ("linux", "aarch64") => Ok("aarch64-unknown-linux-gnu"),
        (os, arch) => {
            bail!("celld builds on Linux (x86-64, and untested ARM64), not on {os} {arch}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Library {
        Library {
            version: "150.4.0".to_owned(),
            target: "x86_64-unknown-linux-gnu",
        }
    }

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn the_cache_file_is_named_by_the_whole_address() {
        let file = library().cache_file().expect("a home directory");
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert_eq!(
            name,
            "https___github_com_denoland_rusty_v8_releases_download_v150_4_0_\
             librusty_v8_simdutf_release_x86_64_unknown_linux_gnu_a_gz"
        );
    }

    #[test]
    fn the_version_is_read_from_the_lock_file() {
        let lock = "[[package]]\nname = \"v8-extra\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"v8\"\nversion = \"150.4.0\"\n";
        assert_eq!(locked_version(lock, "v8").as_deref(), Some("150.4.0"));
        assert_eq!(locked_version(lock, "v9"), None);
    }

    #[test]
    fn a_whole_archive_passes_and_a_cut_one_does_not() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("lib.a.gz");
        let mut content = ARCHIVE_MAGIC.to_vec();
        content.extend((0..100_000u32).flat_map(u32::to_le_bytes));
        let whole = compressed(&content);
        fs::write(&path, &whole).expect("write");
        assert_eq!(
            check_archive(&path).expect("whole"),
            hex::encode(Sha256::digest(&whole))
        );

        fs::write(&path, &whole[..whole.len() - 1]).expect("write");
        assert!(check_archive(&path).is_err());
        fs::write(&path, compressed(b"not an archive at all")).expect("write");
        assert!(check_archive(&path).is_err());
        fs::write(&path, b"").expect("write");
        assert!(check_archive(&path).is_err());
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("lib.a.gz");
        let mut content = ARCHIVE_MAGIC.to_vec();
        content.extend((0..50_000u32).flat_map(u32::to_le_bytes));
        let mut bytes = compressed(&content);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        fs::write(&path, bytes).expect("write");
        assert!(check_archive(&path).is_err());
    }

    #[test]
    fn the_listed_checksum_is_told_from_others() {
        assert_eq!(library().verdict(KNOWN[0].2), Verdict::Known);
        assert_eq!(library().verdict("00"), Verdict::Different);
        let newer = Library {
            version: "151.0.0".to_owned(),
            target: "x86_64-unknown-linux-gnu",
        };
        assert_eq!(newer.verdict(KNOWN[0].2), Verdict::NoneListed);
    }
}
