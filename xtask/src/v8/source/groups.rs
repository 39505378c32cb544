//! Which of V8's files are compiled together.
//!
//! V8's headers are most of its compile time: ten files of the same target and flags compile
//! several times faster as one unit than one by one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

/// Files in one unit.
const GROUP_FILES: usize = 10;

/// How many groups were made of how many files.
pub struct Made {
    /// Number of groups.
    pub groups: usize,
    /// Number of files in them.
    pub files: usize,
}

/// Reads the output of `ninja -t commands` and writes `groups.json` into the wrapper's folder.
pub fn write(commands: &str, folder: &Path) -> Result<Made> {
    let groups = group(commands);
    let mut table = serde_json::Map::new();
    for (number, members) in groups.iter().enumerate() {
        let sources: Vec<&str> = members
            .iter()
            .map(|member| member.source.as_str())
            .collect();
        for member in members {
            table.insert(
                member.object.clone(),
                json!({ "unit": number, "sources": sources }),
            );
        }
    }
    let made = Made {
        groups: groups.len(),
        files: table.len(),
    };
    fs::create_dir_all(folder)?;
    super::packages::write_if_changed(
        &folder.join("groups.json"),
        &serde_json::to_string(&table).context("writing the groups")?,
    )?;
    Ok(made)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    source: String,
    object: String,
}

/// Splits the files of each target with equal flags into groups of at most [`GROUP_FILES`].
fn group(commands: &str) -> Vec<Vec<Member>> {
    let mut by_flags: BTreeMap<(String, Vec<String>), Vec<Member>> = BTreeMap::new();
    for line in commands.lines() {
        if let Some((key, member)) = parse(line) {
            by_flags.entry(key).or_default().push(member);
        }
    }
    let mut groups = Vec::new();
    for mut members in by_flags.into_values() {
        members.sort();
        let parts = members.chunks(GROUP_FILES).filter(|part| part.len() > 1);
        groups.extend(parts.map(<[Member]>::to_vec));
    }
    groups
}

/// One command line: what has to be equal within a group, and the file. `None` for everything that
/// is not the compilation of one of V8's own C++ files.
fn parse(line: &str) -> Option<((String, Vec<String>), Member)> {
    let words = split_words(line);
    let after = |flag: &str| {
        let place = words.iter().position(|word| word == flag)?;
        words.get(place + 1).cloned()
    };
    let (source, object) = (after("-c")?, after("-o")?);
    let target = object
        .strip_prefix("obj/v8/")?
        .split('/')
        .next()?
        .to_owned();
    if !source.ends_with(".cc") {
        return None;
    }
    let flags = words
        .into_iter()
        .filter(|word| *word != source && *word != object && !names_one_file(word))
        .collect();
    Some(((target, flags), Member { source, object }))
}

/// True for arguments that differ from file to file without changing the code.
fn names_one_file(word: &str) -> bool {
    word.starts_with("-fmodule-name") || word.ends_with(".o.d")
}

/// Splits a line as a shell does, as far as ninja's commands need it: blanks, both kinds of quotes
/// and the backslash.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(letter),
            (_, '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(target: &str, name: &str, flags: &str) -> String {
        format!(
            "../llvm/bin/clang++ -MMD -MF obj/v8/{target}/{name}.o.d {flags} -c ../../v8/src/{name}.cc -o obj/v8/{target}/{name}.o"
        )
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(
            split_words(r#"a "b c" 'd "e' f\ g "" h"#),
            ["a", "b c", "d \"e", "f g", "", "h"]
        );
        assert_eq!(split_words(r#"-DX=\"y\"  z"#), ["-DX=\"y\"", "z"]);
        assert!(split_words("  ").is_empty());
    }

    #[test]
    fn files_with_equal_flags_share_a_group() {
        let lines = [compile("base", "b", "-O2"), compile("base", "a", "-O2")].join("\n");
        let groups = group(&lines);
        assert_eq!(groups.len(), 1);
        let names: Vec<&str> = groups[0]
            .iter()
            .map(|member| member.object.as_str())
            .collect();
        assert_eq!(names, ["obj/v8/base/a.o", "obj/v8/base/b.o"]);
    }

    #[test]
    fn other_flags_targets_and_languages_stay_apart() {
        let lines = [
            compile("base", "a", "-O2"),
            compile("base", "b", "-O3"),
            compile("torque", "c", "-O2"),
            "clang -c ../x.c -o obj/v8/base/x.o".to_owned(),
            "clang++ -c ../icu.cc -o obj/third_party/icu/icu.o".to_owned(),
            "python3 script.py".to_owned(),
        ];
        assert!(group(&lines.join("\n")).is_empty());
    }

    #[test]
    fn a_long_list_is_cut_into_groups() {
        let lines: Vec<String> = (10..35)
            .map(|n| compile("base", &format!("f{n}"), ""))
            .collect();
        let sizes: Vec<usize> = group(&lines.join("\n")).iter().map(Vec::len).collect();
        assert_eq!(sizes, [10, 10, 5]);
    }

    #[test]
    fn the_table_names_every_member() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let lines = [compile("base", "a", ""), compile("base", "b", "")].join("\n");
        let made = write(&lines, folder.path()).expect("written");
        assert_eq!((made.groups, made.files), (1, 2));
        let text = fs::read_to_string(folder.path().join("groups.json")).expect("read");
        let table: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            table["obj/v8/base/a.o"]["sources"].as_array().map(Vec::len),
            Some(2)
        );
    }
}
