//! V8's library compiled from the source that the `v8` crate carries, with public packages only.
//!
//! About 8 GB and, on two cores, an hour. Everything lies under the cache folder, per version:
//! a run that was interrupted goes on where it stopped, and a finished library is kept.

pub mod compiler;
mod groups;
mod packages;
mod progress;
mod toolchain;
mod tree;

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use flate2::{Compression, write::GzEncoder};

use super::library::Library;
use crate::shell;

/// CPU time that a whole build takes, in minutes.
const CPU_MINUTES: usize = 105;
/// Free disk space that a build needs, in GiB.
const DISK_GIB: u64 = 9;

/// How far a build goes; for trying the early stages without the long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Packages and sources are here.
    Fetch,
    /// The source tree is completed and the compiler folder laid out.
    Prepare,
    /// `gn` has written the build files, and the files are grouped.
    Configure,
    /// The library is compiled and in Cargo's cache.
    Compile,
}

impl FromStr for Stage {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "fetch" => Ok(Self::Fetch),
            "prepare" => Ok(Self::Prepare),
            "configure" => Ok(Self::Configure),
            "compile" => Ok(Self::Compile),
            other => bail!("--until takes fetch, prepare, configure or compile, not '{other}'"),
        }
    }
}

/// What the source of one version lacks, and where it comes from.
struct Recipe {
    /// Version of the `v8` crate.
    version: &'static str,
    /// Version of the crate `deno_core_icudata` whose ICU data fits V8's ICU.
    icu_data: &'static str,
}

const RECIPES: &[Recipe] = &[Recipe {
    version: "150.4.0",
    icu_data: "0.77.0",
}];

/// The folders of one build.
pub struct Workshop {
    /// Everything of this version.
    pub base: PathBuf,
    /// Cores to use.
    pub cores: usize,
}

impl Workshop {
    fn open(library: &Library) -> Result<Self> {
        let base = shell::cache_dir()?.join("v8").join(library.version());
        fs::create_dir_all(&base).with_context(|| format!("making {}", base.display()))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { base, cores })
    }

    /// V8's source, writable and completed.
    pub fn tree(&self) -> PathBuf {
        self.base.join("tree")
    }

    /// The compiler folder in the layout that `gn` expects.
    pub fn llvm(&self) -> PathBuf {
        self.base.join("llvm")
    }

    /// Work folder of the compiler's wrapper.
    pub fn units(&self) -> PathBuf {
        self.base.join("units")
    }

    fn finished(&self, library: &Library) -> PathBuf {
        self.base.join(library.file_name())
    }
}

/// Takes the result of an earlier build. False when there is none.
pub fn take_earlier(library: &Library) -> Result<bool> {
    let file = Workshop::open(library)?.finished(library);
    if !file.is_file() {
        return Ok(false);
    }
    library.adopt(&file)?;
    Ok(true)
}

/// Builds the library up to a stage.
pub fn build(library: &Library, until: Stage) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("compiling V8 is supported on x86-64 Linux only");
    }
    let Some(recipe) = RECIPES
        .iter()
        .find(|recipe| recipe.version == library.version())
    else {
        bail!(
            "there is no recipe for compiling V8 {}: add one to {}",
            library.version(),
            file!()
        );
    };
    let shop = Workshop::open(library)?;
    let _only_one = lock(&shop)?;
    check_disk(&shop)?;
    announce(library, &shop);

    let llvm = packages::install_compiler()?;
    let gn = packages::fetch_gn(&shop)?;
    let sources = packages::fetch_sources(&shop, recipe)?;
    if until == Stage::Fetch {
        return Ok(());
    }
    tree::prepare(&shop, &sources)?;
    toolchain::lay_out(&shop, &llvm)?;
    if until == Stage::Prepare {
        return Ok(());
    }
    configure(&shop, &llvm, &gn)?;
    if until == Stage::Configure {
        return Ok(());
    }
    progress::run_ninja(&shop, &llvm)?;
    pack(&shop, &shop.finished(library))?;
    library.adopt(&shop.finished(library))?;
    // Gigabytes of objects that nobody needs again.
    for folder in [shop.tree(), shop.units()] {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok(())
}

fn announce(library: &Library, shop: &Workshop) {
    let minutes = CPU_MINUTES.div_ceil(shop.cores);
    eprintln!(
        "Compiling V8 {} from source in {}.\n\
         This takes about {minutes} minutes on {} cores and is done once per version; interrupt it at\n\
         any time, the next run goes on from there.",
        library.version(),
        shop.base.display(),
        shop.cores
    );
}

/// Two builds in one folder would destroy each other's files.
fn lock(shop: &Workshop) -> Result<File> {
    let path = shop.base.join("build.lock");
    let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another build of V8 is running in {}", shop.base.display());
    }
    Ok(file)
}

fn check_disk(shop: &Workshop) -> Result<()> {
    if shop.tree().is_dir() {
        // A build that goes on has most of what it needs.
        return Ok(());
    }
    let text = shell::output(
        Command::new("df")
            .args(["--output=avail", "--block-size=1G"])
            .arg(&shop.base),
    )?;
    let free: Option<u64> = text
        .lines()
        .nth(1)
        .and_then(|line| line.trim().parse().ok());
    match free {
        Some(free) if free < DISK_GIB => bail!(
            "compiling V8 takes {DISK_GIB} GiB, and {} has {free} GiB free",
            shop.base.display()
        ),
        _ => Ok(()),
    }
}

fn configure(shop: &Workshop, llvm: &packages::Llvm, gn: &Path) -> Result<()> {
    let python = shell::find_program("python3").context("python3 was not found")?;
    let arguments = toolchain::gn_arguments(shop, llvm);
    let mut command = Command::new(gn);
    command.current_dir(shop.tree());
    command.arg(format!("--script-executable={}", python.display()));
    command
        .args(["gen", "out"])
        .arg(format!("--args={arguments}"));
    // V8's scripts must not leave compiled Python in the tree, nor find another build's settings.
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("DEPOT_TOOLS_WIN_TOOLCHAIN", "0");
    shell::output(&mut command)?;
    let commands = shell::output(
        Command::new("ninja")
            .args(["-C", "out", "-t", "commands", "rusty_v8"])
            .current_dir(shop.tree()),
    )?;
    let made = groups::write(&commands, &shop.units())?;
    eprintln!(
        "{} files are compiled in {} groups.",
        made.files, made.groups
    );
    Ok(())
}

/// Strips and compresses the archive.
fn pack(shop: &Workshop, place: &Path) -> Result<()> {
    let archive = shop.base.join("librusty_v8.a");
    fs::copy(shop.tree().join("out/obj/librusty_v8.a"), &archive)
        .context("the build made no librusty_v8.a")?;
    shell::run(Command::new("strip").arg("--strip-debug").arg(&archive))?;
    let unfinished = place.with_extension("new");
    let mut encoder = GzEncoder::new(
        BufWriter::new(File::create(&unfinished)?),
        Compression::default(),
    );
    io::copy(&mut BufReader::new(File::open(&archive)?), &mut encoder)?;
    encoder.finish()?.flush()?;
    fs::rename(&unfinished, place)?;
    fs::remove_file(&archive)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locked_version_has_a_recipe() {
        let library = Library::wanted().expect("the checkout has a lock file");
        assert!(
            RECIPES
                .iter()
                .any(|recipe| recipe.version == library.version())
        );
    }

    #[test]
    fn stages_are_ordered_and_named() {
        assert!(Stage::Fetch < Stage::Compile);
        assert_eq!(
            "configure".parse::<Stage>().expect("a stage"),
            Stage::Configure
        );
        assert!("link".parse::<Stage>().is_err());
    }
}
