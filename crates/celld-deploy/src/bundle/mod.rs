//! Bundling of a Workers project, in process and without Node.js.
//!
//! [`bundle`] turns an entry file into one ES module plus the modules that module rules keep
//! apart (WebAssembly, text, data). It resolves as Wrangler does: conditions `workerd`,
//! `worker`, `browser`; main fields `browser`, `module`, `main`; `cloudflare:*` and `node:*` are
//! left to the runtime. It reads the project and writes nothing. [`watch`] tells when to
//! bundle again.

mod additional;
mod builtins;
mod decorators;
mod diagnostic;
mod engine;
mod plugin;
mod rules;
mod source;
mod translate;
mod tsconfig;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use diagnostic::{BundleErrors, Diagnostic, Excerpt, Severity};
pub use rules::ModuleRule;
pub use watch::{Changes, WatchError, Watcher, watch};

/// Largest sum of all modules of a bundle, in bytes, source maps not counted.
pub const BUNDLE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Extensions of files that hold code.
const SCRIPT_EXTENSIONS: &[&str] = &["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];

/// What to bundle and how. Paths may be relative to `project_dir`.
#[derive(Clone, Debug, Default)]
pub struct BundleOptions {
    /// The directory that holds the Wrangler configuration. Absolute, or relative to the
    /// working directory of the process.
    pub project_dir: PathBuf,
    /// The main module, `main` in the configuration.
    pub entry: PathBuf,
    /// Expressions replaced by others, as JavaScript source text on both sides.
    pub define: BTreeMap<String, String>,
    /// Import specifiers replaced by others. Relative targets start from `project_dir`.
    pub alias: BTreeMap<String, String>,
    /// Module rules of the configuration; the defaults are added behind them.
    pub rules: Vec<ModuleRule>,
    /// Take the entry as it is instead of bundling.
    pub no_bundle: bool,
    /// Add every file under `base_dir` that a rule matches.
    pub find_additional_modules: bool,
    /// Where additional modules are searched and what their names are relative to; the
    /// directory of `entry` when absent.
    pub base_dir: Option<PathBuf>,
    /// The `tsconfig.json` to use for all files; each file's nearest one when absent.
    pub tsconfig: Option<PathBuf>,
    /// Function that classic JSX calls, such as `h`.
    pub jsx_factory: Option<String>,
    /// What classic JSX takes for `<>`, such as `Fragment`.
    pub jsx_fragment: Option<String>,
    /// Shorten the code. Names of functions and classes are kept.
    pub minify: bool,
    /// The project has a `nodejs_compat` flag: Node.js modules without the `node:` prefix mean
    /// those of the runtime, also where a package of that name is installed.
    pub nodejs_compat: bool,
    /// What `process.env.NODE_ENV` reads as; `production` when absent.
    pub node_env: Option<String>,
}

/// A program ready to deploy.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Specifier of the main module; it is the first of `modules`.
    pub main: String,
    /// All modules: the main one, then the others by specifier.
    pub modules: Vec<BundledModule>,
    /// Every file that the result depends on, absolute and sorted: sources, additional modules,
    /// `package.json` and `tsconfig.json` files that took part in resolution.
    pub inputs: Vec<PathBuf>,
    /// What looks wrong but did not prevent the bundle.
    pub warnings: Vec<Diagnostic>,
}

/// One module of a [`Bundle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundledModule {
    /// Name relative to the root of the bundle, `/` between parts, no leading `./`. Importers
    /// at the root say `./` and this.
    pub specifier: String,
    /// How the runtime has to take `bytes`.
    pub kind: ModuleKind,
    /// The contents.
    pub bytes: Bytes,
    /// Source map (version 3, JSON, sources included, paths relative to the project) for
    /// JavaScript that has one.
    pub source_map: Option<Bytes>,
}

/// How the runtime takes a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ModuleKind {
    /// JavaScript with `import` and `export`.
    #[serde(rename = "esm")]
    EsModule,
    /// JavaScript with `require`; the default export is its `module.exports`.
    #[serde(rename = "cjs")]
    CommonJs,
    /// The default export is a `WebAssembly.Module`.
    #[serde(rename = "wasm")]
    CompiledWasm,
    /// The default export is a string.
    #[serde(rename = "text")]
    Text,
    /// The default export is an `ArrayBuffer`.
    #[serde(rename = "data")]
    Data,
    /// The default export is the parsed value.
    #[serde(rename = "json")]
    Json,
}

impl ModuleKind {
    /// Whether the module is JavaScript code.
    pub fn is_javascript(self) -> bool {
        matches!(self, Self::EsModule | Self::CommonJs)
    }

    /// The name that Wrangler's `rules[].type` uses.
    pub fn rule_type(self) -> &'static str {
        match self {
            Self::EsModule => "ESModule",
            Self::CommonJs => "CommonJS",
            Self::CompiledWasm => "CompiledWasm",
            Self::Text => "Text",
            Self::Data => "Data",
            Self::Json => "JSON",
        }
    }
}

/// Bundles a project.
///
/// Blocks the calling thread until done, tens of milliseconds to seconds: call it from
/// `spawn_blocking` in asynchronous code. The work runs on threads of its own, so a panic or a
/// stack of unusual depth in the bundler does not take the caller down. Equal files and options
/// give equal bytes.
///
/// # Errors
/// All errors found in the project, see [`BundleErrors`].
pub fn bundle(options: &BundleOptions) -> Result<Bundle, BundleErrors> {
    let project = Project::locate(options)?;
    let rules = rules::Rules::new(&options.rules).map_err(|errors| BundleErrors {
        errors,
        ..BundleErrors::default()
    })?;
    let mut bundle = if options.no_bundle {
        additional::without_bundling(options, &project, &rules)?
    } else {
        engine::bundle(options, &project, rules)?
    };
    bundle.inputs.sort();
    bundle.inputs.dedup();
    check_size(&bundle)?;
    Ok(bundle)
}

fn check_size(bundle: &Bundle) -> Result<(), BundleErrors> {
    let total: u64 = bundle
        .modules
        .iter()
        .map(|module| module.bytes.len() as u64)
        .sum();
    if total <= BUNDLE_MAX_BYTES {
        return Ok(());
    }
    let mut largest: Vec<_> = bundle.modules.iter().collect();
    largest.sort_by_key(|module| std::cmp::Reverse(module.bytes.len()));
    let list: Vec<String> = largest
        .iter()
        .take(5)
        .map(|module| format!("{} bytes  {}", module.bytes.len(), module.specifier))
        .collect();
    let error = Diagnostic::error(format!(
        "the modules take {total} bytes together, more than the limit of {BUNDLE_MAX_BYTES}"
    ))
    .with_hint(format!("the largest ones:\n{}", list.join("\n")));
    Err(BundleErrors {
        inputs: bundle.inputs.clone(),
        ..error.into()
    })
}

/// An error that is ours, not the user's.
fn defect(message: &str) -> Diagnostic {
    Diagnostic::error(message).with_hint(
        "this is a defect of celld, not of your program; please report it with the smallest\n\
         project that shows it",
    )
}

/// The places of a project, absolute, links resolved.
#[derive(Clone, Debug)]
struct Project {
    dir: PathBuf,
    entry: PathBuf,
    base_dir: PathBuf,
}

impl Project {
    fn locate(options: &BundleOptions) -> Result<Self, Diagnostic> {
        let dir = canonical(
            &options.project_dir,
            "the project directory",
            "give the directory that holds the Wrangler configuration",
        )?;
        let entry = canonical(
            &dir.join(&options.entry),
            "the main module",
            "correct `main` in the Wrangler configuration",
        )?;
        if !entry.is_file() {
            return Err(Diagnostic::error(format!(
                "the main module {} is not a file",
                entry.display()
            ))
            .with_hint("correct `main` in the Wrangler configuration"));
        }
        if entry.to_str().is_none() {
            return Err(Diagnostic::error(format!(
                "the path of the main module is no UTF-8 text: {}",
                entry.display()
            ))
            .with_hint("rename the directory or file whose name shows \u{fffd}"));
        }
        let extension = entry
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default();
        if !SCRIPT_EXTENSIONS.contains(&extension) {
            return Err(Diagnostic::error(format!("the main module {} is no JavaScript or TypeScript", entry.display()))
                .with_hint("`main` has to be a .js, .mjs, .jsx, .ts, .mts or .tsx file; other languages are not supported"));
        }
        let base_dir = match &options.base_dir {
            Some(base_dir) => canonical(
                &dir.join(base_dir),
                "the base directory",
                "correct `base_dir` in the Wrangler configuration",
            )?,
            None => entry.parent().unwrap_or(&dir).to_path_buf(),
        };
        Ok(Self {
            dir,
            entry,
            base_dir,
        })
    }

    /// `path` relative to the project with `/` between parts; absolute where it lies outside.
    fn relative(&self, path: &Path) -> String {
        slashed(path.strip_prefix(&self.dir).unwrap_or(path))
    }
}

fn canonical(path: &Path, what: &str, hint: &str) -> Result<PathBuf, Diagnostic> {
    std::fs::canonicalize(path).map_err(|error| {
        Diagnostic::error(format!(
            "{what} {} can't be opened: {error}",
            path.display()
        ))
        .with_hint(hint)
    })
}

fn slashed(path: &Path) -> String {
    let mut text = String::new();
    for component in path.components() {
        match component {
            Component::RootDir => text.push('/'),
            part => {
                if !text.is_empty() && !text.ends_with('/') {
                    text.push('/');
                }
                text.push_str(&part.as_os_str().to_string_lossy());
            }
        }
    }
    text
}

/// Name of a module that is kept apart: the same contents under the same file name get the same
/// name, whatever directory they come from.
fn content_name(kind: ModuleKind, path: &Path, bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(kind.rule_type());
    hash.update([0]);
    hash.update(bytes);
    let digest = hex::encode(hash.finalize());
    let base = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    // Specifiers are resolved as URLs, where `%`, `?`, `#` and spaces mean something else.
    let base: String = base
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!("{}-{base}", &digest[..32])
}

/// Reads a file that becomes a module, unless it alone breaks the limit.
fn read_module(path: &Path) -> std::io::Result<Bytes> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        // Reading a pipe would wait for a writer.
        return Err(std::io::Error::other("it is no regular file"));
    }
    let length = metadata.len();
    if length > BUNDLE_MAX_BYTES {
        return Err(std::io::Error::other(format!(
            "{length} bytes are more than the limit of {BUNDLE_MAX_BYTES}"
        )));
    }
    std::fs::read(path).map(Bytes::from)
}
