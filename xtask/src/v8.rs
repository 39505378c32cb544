//! `cargo xtask v8`: V8's static library, in the place where the `v8` crate looks for it.
//!
//! The crate's build script takes the library from Cargo's cache when it is there, without any
//! environment variable. So everything here ends in one file in that cache, and plain
//! `cargo build` works ever after. The sources, in this order:
//!
//! 1. Cargo's cache itself;
//! 2. a directory named by `RUSTY_V8_MIRROR`;
//! 3. an earlier compilation, or the release that the crate would download;
//! 4. compilation from the crate's own source.

mod download;
mod library;
mod mirror;
pub mod source;

use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};

use library::Library;
use source::Stage;

/// Where the library can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Mirror,
    Download,
    Source,
}

impl FromStr for Origin {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "mirror" => Ok(Self::Mirror),
            "download" => Ok(Self::Download),
            "source" => Ok(Self::Source),
            other => bail!("--from takes mirror, download or source, not '{other}'"),
        }
    }
}

/// Runs the task with its arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut from, mut until, mut check) = (None, Stage::Compile, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || {
            rest.next()
                .with_context(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--from" => from = Some(value()?.parse::<Origin>()?),
            "--until" => until = value()?.parse()?,
            "--check" => check = true,
            other => bail!("`cargo xtask v8` does not know '{other}'; see `cargo xtask help`"),
        }
    }
    let library = Library::wanted()?;
    match from {
        None => provide(&library)?,
        Some(Origin::Mirror) => mirror::take(&library)?
            .then_some(())
            .context("RUSTY_V8_MIRROR names no directory that holds the library")?,
        Some(Origin::Download) => download::take(&library)?,
        Some(Origin::Source) => source::build(&library, until)?,
    }
    if check {
        println!("{}", library.describe_cached()?);
    }
    Ok(())
}

/// Makes sure that the library is there. Silent when it is.
pub fn ensure() -> Result<()> {
    provide(&Library::wanted()?)
}

fn provide(library: &Library) -> Result<()> {
    if library.is_cached()? || mirror::take(library)? || source::take_earlier(library)? {
        return Ok(());
    }
    let Err(download_error) = download::take(library) else {
        return Ok(());
    };
    eprintln!("V8's library could not be downloaded: {download_error:#}");
    source::build(library, Stage::Compile).map_err(|error| {
        anyhow!(
            "V8's library is missing and could not be compiled: {error:#}\n\
             What helps: a network that reaches the release page of the v8 crate; or a copy of\n\
             {} in a directory that RUSTY_V8_MIRROR names.",
            library.file_name()
        )
    })
}
