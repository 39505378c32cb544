//! Modules taken as they are: `no_bundle` and `find_additional_modules`.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::rules::{Rules, Verdict, out_of_force};
use super::{
    BUNDLE_MAX_BYTES, Bundle, BundleErrors, BundleOptions, BundledModule, Diagnostic, ModuleKind,
    Project, read_module, slashed,
};

/// Most files looked at under the base directory.
const FILES_MAX: usize = 100_000;

/// Directories that hold no modules of the program.
const SKIPPED_DIRS: &[&str] = &[".git", ".celld", ".wrangler"];

/// Makes a bundle of the entry as it is, with the additional modules if they are wanted.
pub(super) fn without_bundling(
    options: &BundleOptions,
    project: &Project,
    rules: &Rules,
) -> Result<Bundle, BundleErrors> {
    let main = main_specifier(project)?;
    let (bytes, source_map) = read_script(&project.entry)?;
    let first = BundledModule {
        specifier: main.clone(),
        kind: ModuleKind::EsModule,
        bytes,
        source_map,
    };
    let others = if options.find_additional_modules {
        find(project, rules)?
    } else {
        Vec::new()
    };
    let inputs = std::iter::once(project.entry.clone())
        .chain(
            others
                .iter()
                .map(|module| project.base_dir.join(&module.specifier)),
        )
        .collect();
    Ok(Bundle {
        main,
        modules: std::iter::once(first).chain(others).collect(),
        inputs,
        warnings: Vec::new(),
    })
}

fn main_specifier(project: &Project) -> Result<String, Diagnostic> {
    let name = project.relative(&project.entry);
    let extension = project
        .entry
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    if !["js", "mjs"].contains(&extension) {
        return Err(Diagnostic::error(format!(
            "`no_bundle` takes the main module as it is, and {name} is no JavaScript"
        ))
        .with_hint("point `main` at compiled JavaScript (.js or .mjs), or remove `no_bundle`"));
    }
    let inside = project.entry.strip_prefix(&project.base_dir).map_err(|_| {
        Diagnostic::error(format!(
            "the main module {name} lies outside the base directory {}",
            project.relative(&project.base_dir)
        ))
        .with_hint("choose a `base_dir` that holds `main` and all its modules")
    })?;
    Ok(slashed(inside))
}

/// Finds the files under the base directory that a module rule matches, the entry excepted,
/// sorted by name.
pub(super) fn find(project: &Project, rules: &Rules) -> Result<Vec<BundledModule>, BundleErrors> {
    let mut errors = Vec::new();
    let mut modules = Vec::new();
    let mut total = 0;
    for path in walk(project)? {
        if path == project.entry {
            continue;
        }
        let specifier = slashed(path.strip_prefix(&project.base_dir).unwrap_or(&path));
        match rules.judge_file(&specifier) {
            Verdict::Unmatched => {}
            // A package's README is nobody's module; only the project's own files are meant.
            Verdict::OutOfForce(..) if specifier.split('/').any(|part| part == "node_modules") => {}
            Verdict::OutOfForce(kind, glob) => errors.push(out_of_force(&specifier, kind, glob)),
            Verdict::Module(kind) => match read(&path, kind) {
                Ok((bytes, source_map)) => {
                    total += bytes.len() as u64;
                    if total > BUNDLE_MAX_BYTES {
                        return Err(too_large(project).into());
                    }
                    modules.push(BundledModule {
                        specifier,
                        kind,
                        bytes,
                        source_map,
                    });
                }
                Err(error) => errors.push(error),
            },
        }
    }
    if errors.is_empty() {
        Ok(modules)
    } else {
        Err(BundleErrors {
            errors,
            ..BundleErrors::default()
        })
    }
}

fn too_large(project: &Project) -> Diagnostic {
    Diagnostic::error(format!(
        "the files under {} that module rules match take more than the limit of {BUNDLE_MAX_BYTES} bytes",
        project.base_dir.display()
    ))
    .with_hint("make the globs in `rules` narrower, or choose a smaller `base_dir`")
}

/// All files under the base directory, sorted. Links to directories are not followed.
fn walk(project: &Project) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut files = Vec::new();
    let mut pending = vec![project.base_dir.clone()];
    while let Some(dir) = pending.pop() {
        let unreadable = |error: std::io::Error| {
            Diagnostic::error(format!(
                "the directory {} can't be read: {error}",
                dir.display()
            ))
            .with_hint("additional modules are searched in `base_dir` and everything below it")
        };
        for entry in std::fs::read_dir(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            let skipped = SKIPPED_DIRS.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && !skipped {
                pending.push(entry.path());
            } else if !kind.is_dir() && entry.path().is_file() {
                files.push(entry.path());
            }
        }
        if files.len() > FILES_MAX {
            return Err(Diagnostic::error(format!(
                "more than {FILES_MAX} files lie under {}",
                project.base_dir.display()
            ))
            .with_hint(
                "choose a `base_dir` that holds little more than the modules of the program",
            ));
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path, kind: ModuleKind) -> Result<(Bytes, Option<Bytes>), Diagnostic> {
    if kind.is_javascript() {
        return read_script(path);
    }
    read_module(path)
        .map(|bytes| (bytes, None))
        .map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(format!("{} can't be read: {error}", path.display()))
}

/// Reads a script and the source map that its last line names, if that lies beside it.
fn read_script(path: &Path) -> Result<(Bytes, Option<Bytes>), Diagnostic> {
    let bytes = read_module(path).map_err(|error| unreadable(path, &error))?;
    let source_map = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.trim_end().rsplit('\n').next())
        .and_then(|line| line.trim().strip_prefix("//# sourceMappingURL="))
        .filter(|name| !name.contains(['/', '\\', ':']))
        .and_then(|name| read_module(&path.with_file_name(name)).ok());
    Ok((bytes, source_map))
}
