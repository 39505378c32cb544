//! V8's source tree: a writable copy of the crate, with what the crate leaves out.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Workshop;
use super::packages::Sources;
use crate::shell;

/// Flags in the build files that only Chromium's own compiler knows.
const UNKNOWN_FLAGS: [&str; 3] = [
    "-fdiagnostics-show-inlining-chain",
    "-fno-lifetime-dse",
    "-fsanitize-ignore-for-ubsan-feature",
];

/// Copies and completes the tree, once; a marker tells a whole one from a half-made one.
pub fn prepare(shop: &Workshop, sources: &Sources) -> Result<()> {
    let tree = shop.tree();
    let marker = tree.join(".complete");
    if marker.is_file() {
        return Ok(());
    }
    eprintln!("Preparing the source tree…");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("removing {}", tree.display()))?;
    }
    shell::run(Command::new("cp").arg("-r").arg(&sources.v8).arg(&tree))?;
    shell::run(Command::new("chmod").args(["-R", "u+w"]).arg(&tree))?;

    let icu = tree.join("third_party/icu/common");
    fs::create_dir_all(&icu)?;
    fs::copy(&sources.icu_data, icu.join("icudtl.dat")).context("copying ICU's data")?;
    neutralise_flags(&tree.join("build/config"))?;
    let temporal = tree.join("third_party/rust/temporal_capi");
    fs::create_dir_all(&temporal)?;
    fs::write(temporal.join("BUILD.gn"), temporal_target(sources))?;
    fs::write(&marker, "")?;
    Ok(())
}

/// Replaces unknown flags in every build file below `folder`.
fn neutralise_flags(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            neutralise_flags(&path)?;
        } else if path
            .extension()
            .is_some_and(|end| end == "gn" || end == "gni")
        {
            let text = fs::read_to_string(&path)?;
            let changed = without_unknown_flags(&text);
            if changed != text {
                fs::write(&path, changed)?;
            }
        }
    }
    Ok(())
}

/// A string that begins with an unknown flag becomes a harmless definition: lists and conditions
/// around it keep their shape.
fn without_unknown_flags(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let found = UNKNOWN_FLAGS.iter().find_map(|flag| {
            let start = line.find(&format!("\"{flag}"))?;
            let length = line[start + 1..].find('"')? + 2;
            Some(start..start + length)
        });
        match found {
            Some(range) => {
                result.push_str(&line[..range.start]);
                result.push_str("\"-DCELLD_IGNORED_FLAG\"");
                result.push_str(&line[range.end..]);
            }
            None => result.push_str(line),
        }
    }
    result
}

fn temporal_target(sources: &Sources) -> String {
    format!(
        r#"config("prebuilt") {{
  defines = [ "TEMPORAL_CAPI_VERSION_0_2" ]
  include_dirs = [ "{}" ]
  libs = [ "{}" ]
}}

group("temporal_capi") {{
  public_configs = [ ":prebuilt" ]
}}
"#,
        sources.temporal_headers.display(),
        sources.temporal_library.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_are_replaced_and_the_list_keeps_its_shape() {
        let text = "cflags += [\n  \"-fno-lifetime-dse\",\n  \"-O2\",\n]\n";
        assert_eq!(
            without_unknown_flags(text),
            "cflags += [\n  \"-DCELLD_IGNORED_FLAG\",\n  \"-O2\",\n]\n"
        );
        let one_line = "cflags = [ \"-fsanitize-ignore-for-ubsan-feature=array-bounds\" ]\n";
        assert_eq!(
            without_unknown_flags(one_line),
            "cflags = [ \"-DCELLD_IGNORED_FLAG\" ]\n"
        );
    }

    #[test]
    fn other_text_stays_as_it_is() {
        let text = "# about -fno-lifetime-dse\ncflags = [ \"-fno-rtti\" ]";
        assert_eq!(without_unknown_flags(text), text);
    }
}
