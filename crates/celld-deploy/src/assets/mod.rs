//! Static files on their way into a deployment: which files there are, and what they contain.

mod content_type;
mod ignore;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::{AssetsConfig, Code, ConfigErrors, Severity, Warning};
use crate::manifest::{AssetFile, Assets, BlobHash};
use ignore::IgnoreRules;

/// Most files that a project may serve, as on Cloudflare.
pub const FILES_MAX: usize = 20_000;

/// Largest file, in bytes, as on Cloudflare.
pub const FILE_MAX_BYTES: u64 = 25 << 20;

/// Most directories that are looked into: links can make few look like many.
const DIRS_MAX: usize = 20_000;

/// Largest `.assetsignore`, in bytes.
const IGNORE_MAX_BYTES: u64 = 1 << 20;

/// Names that are never served, wherever they are.
const NEVER: &[&str] = &["node_modules", ".git", ".wrangler", ".celld", ".DS_Store"];

/// The files of a project's `assets.directory`.
#[derive(Clone, Debug)]
pub struct Collected {
    /// What the manifest says about them.
    pub assets: Assets,
    /// Where each file of `assets.files` lies, in the same order.
    pub sources: Vec<PathBuf>,
    /// Files that decide what is served without being served themselves.
    pub controls: Vec<PathBuf>,
    /// What the author should know.
    pub warnings: Vec<Warning>,
}

/// Lists and hashes the files. Blocks on I/O, and reads every file once.
///
/// # Errors
/// What cannot be served: unreadable or too large files, too many of them, links that leave the
/// directory. Each error names the file.
pub fn collect(config: &AssetsConfig) -> Result<Collected, ConfigErrors> {
    let root = std::fs::canonicalize(&config.directory)
        .map_err(|error| error.to_string())
        .and_then(|root| match root.is_dir() {
            true => Ok(root),
            false => Err("it is not a directory".to_owned()),
        });
    let root = root.map_err(|why| {
        let message = format!(
            "the directory of static assets {} cannot be read: {why}",
            config.directory.display()
        );
        let help = "correct `assets.directory`, which is relative to the configuration file, or run the build that makes it";
        error(config, message, help)
    })?;
    let ignore_file = root.join(".assetsignore");
    let rules = read_ignore_rules(&ignore_file).map_err(|why| {
        error(
            config,
            format!("{}: {why}", ignore_file.display()),
            "correct the file, or remove it",
        )
    })?;
    let mut walk = Walk {
        config,
        rules,
        files: BTreeMap::new(),
        dirs: 0,
        controls: vec![ignore_file],
        warnings: Vec::new(),
        root,
    };
    let root = walk.root.clone();
    walk.directory(&root, "", &mut vec![root.clone()])?;
    let mut files = Vec::with_capacity(walk.files.len());
    let mut sources = Vec::with_capacity(walk.files.len());
    for (path, source) in walk.files {
        let bytes = read(&source).map_err(|why| file_error(config, &source, &why))?;
        files.push(AssetFile {
            content_type: content_type::of(&path).map(str::to_owned),
            sha256: BlobHash::of(&bytes),
            bytes: bytes.len() as u64,
            path,
        });
        sources.push(source);
    }
    Ok(Collected {
        assets: Assets {
            html_handling: config.html_handling,
            not_found_handling: config.not_found_handling,
            run_worker_first: config.run_worker_first,
            files,
        },
        sources,
        controls: walk.controls,
        warnings: walk.warnings,
    })
}

/// Reads a file that may be served.
///
/// # Errors
/// It cannot be read or is larger than [`FILE_MAX_BYTES`].
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, String> {
    let handle = std::fs::File::open(file).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    handle
        .take(FILE_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20));
    }
    Ok(bytes)
}

struct Walk<'a> {
    config: &'a AssetsConfig,
    root: PathBuf,
    rules: IgnoreRules,
    /// Path in URLs to file, in order.
    files: BTreeMap<String, PathBuf>,
    dirs: usize,
    controls: Vec<PathBuf>,
    warnings: Vec<Warning>,
}

impl Walk<'_> {
    /// Takes in what lies below `dir`, whose path from the root is `below`. `above` are the real
    /// paths of the directories on the way here, by which a link back to one of them is noticed.
    fn directory(
        &mut self,
        dir: &Path,
        below: &str,
        above: &mut Vec<PathBuf>,
    ) -> Result<(), ConfigErrors> {
        self.dirs += 1;
        if self.dirs > DIRS_MAX {
            return Err(self.too_many("directories", DIRS_MAX));
        }
        let fail = |why: std::io::Error| file_error(self.config, dir, &why.to_string());
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(fail)? {
            entries.push(entry.map_err(fail)?.path());
        }
        entries.sort();
        for entry in entries {
            self.entry(&entry, below, above)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        entry: &Path,
        below: &str,
        above: &mut Vec<PathBuf>,
    ) -> Result<(), ConfigErrors> {
        let Some(name) = entry.file_name().and_then(|name| name.to_str()) else {
            return Err(file_error(self.config, entry, "its name is not UTF-8"));
        };
        if NEVER.contains(&name) {
            return Ok(());
        }
        let path = if below.is_empty() {
            name.to_owned()
        } else {
            format!("{below}/{name}")
        };
        let fail = |why: std::io::Error| file_error(self.config, entry, &why.to_string());
        let real = std::fs::canonicalize(entry).map_err(fail)?;
        let meta = std::fs::metadata(&real).map_err(fail)?;
        if self.rules.ignores(&path, meta.is_dir()) || self.is_control(entry, &path) {
            return Ok(());
        }
        if !real.starts_with(&self.root) {
            return Err(file_error(
                self.config,
                entry,
                "it is a link that leaves the directory",
            ));
        }
        if meta.is_dir() {
            if above.contains(&real) {
                return Err(file_error(
                    self.config,
                    entry,
                    "it is a link to a directory that holds it",
                ));
            }
            above.push(real);
            let taken = self.directory(entry, &path, above);
            above.pop();
            return taken;
        }
        if !meta.is_file() {
            return Err(file_error(
                self.config,
                entry,
                "it is neither a file nor a directory",
            ));
        }
        if meta.len() > FILE_MAX_BYTES {
            let why = format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20);
            return Err(file_error(self.config, entry, &why));
        }
        if path == "_worker.js" {
            return Err(file_error(
                self.config,
                entry,
                "it looks like the code of a Pages project, which would become public",
            ));
        }
        if self.files.len() >= FILES_MAX {
            return Err(self.too_many("files", FILES_MAX));
        }
        self.files.insert(format!("/{path}"), real);
        Ok(())
    }

    /// Files that are never served: they steer the serving, or hold secrets of development.
    fn is_control(&mut self, entry: &Path, path: &str) -> bool {
        if matches!(path, "_headers" | "_redirects") {
            self.controls.push(entry.to_owned());
            let message =
                format!("`{path}` among the static assets is not applied by this version of celld");
            let help = "set headers and redirect in the Worker, with `run_worker_first`".to_owned();
            let finding =
                self.config
                    .origin
                    .finding(Severity::Warning, Code::NoEffect, message, help);
            self.warnings.push(Warning(finding));
            return true;
        }
        path == ".assetsignore" || path == ".dev.vars" || path.starts_with(".dev.vars.")
    }

    fn too_many(&self, what: &str, most: usize) -> ConfigErrors {
        let message = format!(
            "{} holds more than {most} {what} to serve",
            self.config.directory.display()
        );
        error(
            self.config,
            message,
            "list what is not to be served in `.assetsignore`",
        )
    }
}

fn read_ignore_rules(file: &Path) -> Result<IgnoreRules, String> {
    let handle = match std::fs::File::open(file) {
        Ok(handle) => handle,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(IgnoreRules::default());
        }
        Err(error) => return Err(error.to_string()),
    };
    let mut text = String::new();
    handle
        .take(IGNORE_MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > IGNORE_MAX_BYTES {
        return Err(format!("it is larger than {IGNORE_MAX_BYTES} bytes"));
    }
    IgnoreRules::parse(&text)
}

fn file_error(config: &AssetsConfig, file: &Path, why: &str) -> ConfigErrors {
    let message = format!(
        "the static asset {} cannot be served: {why}",
        file.display()
    );
    error(
        config,
        message,
        "change or remove it, or list it in `.assetsignore`",
    )
}

fn error(config: &AssetsConfig, message: String, help: &str) -> ConfigErrors {
    let finding = config
        .origin
        .finding(Severity::Error, Code::File, message, help.to_owned());
    ConfigErrors {
        errors: vec![finding],
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
