//! The library from a directory that `RUSTY_V8_MIRROR` names.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::library::Library;

/// Copies the library from the mirror into Cargo's cache. False when no mirror directory is named
/// or it does not hold the file; an address (`https:`) is left to the download.
pub fn take(library: &Library) -> Result<bool> {
    let Some(mirror) = std::env::var_os("RUSTY_V8_MIRROR").filter(|value| !value.is_empty()) else {
        return Ok(false);
    };
    let folder = PathBuf::from(mirror);
    if folder.starts_with("http:") || folder.starts_with("https:") {
        return Ok(false);
    }
    match find(library, &folder) {
        Some(file) => {
            library
                .adopt(&file)
                .with_context(|| "the library in RUSTY_V8_MIRROR is of no use")?;
            Ok(true)
        }
        None => {
            eprintln!(
                "RUSTY_V8_MIRROR is {}, which does not hold {} of version {}; looking elsewhere.",
                folder.display(),
                library.file_name(),
                library.version()
            );
            Ok(false)
        }
    }
}

/// A mirror is laid out as the release page is (`v<version>/<file>`); the folder of one version is
/// understood as well.
fn find(library: &Library, folder: &Path) -> Option<PathBuf> {
    let version = format!("v{}", library.version());
    let named = folder.join(&version).join(library.file_name());
    if named.is_file() {
        return Some(named);
    }
    // The file's name has no version: a folder named after another version must not be taken.
    let direct = folder.join(library.file_name());
    let name = folder.file_name()?.to_string_lossy();
    let other_version =
        name.starts_with('v') && name[1..].starts_with(|c: char| c.is_ascii_digit());
    (direct.is_file() && (name == version || !other_version)).then_some(direct)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_found_and_another_version_is_not() {
        let library = Library::wanted().expect("the checkout has a lock file");
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let version = format!("v{}", library.version());
        assert_eq!(find(&library, scratch.path()), None);

        let folder = scratch.path().join(&version);
        std::fs::create_dir(&folder).expect("mkdir");
        let file = folder.join(library.file_name());
        std::fs::write(&file, "x").expect("write");
        assert_eq!(find(&library, scratch.path()), Some(file.clone()));
        assert_eq!(find(&library, &folder), Some(file));

        let other = scratch.path().join("v1.2.3");
        std::fs::create_dir(&other).expect("mkdir");
        std::fs::write(other.join(library.file_name()), "x").expect("write");
        assert_eq!(find(&library, &other), None);
    }
}
