//! Rules for Rust code.

use super::{Complaint, Page};

/// What the decision core may not use: it takes time, chance and the outside world as input.
const CORE_BANS: [(&str, &str); 16] = [
    ("Instant", "take `now: MonoTime` as an argument"),
    ("SystemTime", "take the time as an argument"),
    ("thread", "emit an effect; the shell has the threads"),
    ("spawn", "emit an effect; the shell has the threads"),
    ("tokio", "emit an effect; the shell does the I/O"),
    ("async", "handle events and emit effects"),
    ("rand", "take random values as part of the event"),
    ("getrandom", "take random values as part of the event"),
    (
        "HashMap",
        "use BTreeMap: the order of iteration must be the same in every run",
    ),
    (
        "HashSet",
        "use BTreeSet: the order of iteration must be the same in every run",
    ),
    ("Mutex", "the core is serial; it needs no locks"),
    ("RwLock", "the core is serial; it needs no locks"),
    ("std::fs", "emit an effect; the shell does the I/O"),
    ("std::net", "emit an effect; the shell does the I/O"),
    ("std::env", "take configuration as an argument"),
    ("println", "emit an effect; the shell writes logs"),
];

/// Where the bans hold.
const CORE: &str = "crates/celld-core/src/";

/// Checks one file.
pub fn check(page: &Page) -> Vec<Complaint> {
    if !page.is("rs") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    if !page.text.starts_with("//!") {
        complaints.push(Complaint::new(
            page,
            1,
            "the module does not begin with `//!`: say in a sentence what it is for",
        ));
    }
    if page.path.starts_with(CORE) {
        complaints.extend(core_bans(page));
    }
    complaints
}

fn core_bans(page: &Page) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for (name, instead) in CORE_BANS {
            if contains_path(code, name) {
                let message = format!("`{name}` is banned in celld-core: {instead}");
                complaints.push(Complaint::new(page, index + 1, message));
            }
        }
    }
    complaints
}

/// True when `name` stands in the code as a whole identifier or path.
fn contains_path(code: &str, name: &str) -> bool {
    let in_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(name).any(|(start, _)| {
        let before = code[..start].chars().next_back();
        let after = code[start + name.len()..].chars().next();
        !before.is_some_and(in_name) && !after.is_some_and(in_name)
    })
}

/// Files below `src/` that no `mod` line names: the compiler never sees them, so nobody notices.
pub fn unreachable_files(pages: &[Page]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for page in pages.iter().filter(|page| page.is("rs")) {
        let Some((crate_folder, inside)) = page.path.split_once("/src/") else {
            continue;
        };
        if matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/") {
            continue;
        }
        let stem = inside.trim_end_matches(".rs").trim_end_matches("/mod");
        let name = stem.rsplit('/').next().unwrap_or(stem);
        let declared = format!("mod {name};");
        let file = inside.rsplit('/').next().unwrap_or(inside);
        let attribute = format!("/{file}\"]");
        let same_crate = format!("{crate_folder}/");
        let reached = pages.iter().any(|other| {
            other.is("rs")
                && other.path.starts_with(&same_crate)
                && other
                    .text
                    .lines()
                    .any(|line| line.ends_with(&declared) || line.ends_with(&attribute))
        });
        if !reached {
            let message = format!("no `{declared}` names this file: declare it or delete it");
            complaints.push(Complaint::new(page, 0, message));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::page;

    #[test]
    fn a_module_without_its_sentence_is_found() {
        assert_eq!(check(&page("crates/x/src/a.rs", "use std::io;\n")).len(), 1);
        assert!(check(&page("crates/x/src/a.rs", "//! Reads.\n")).is_empty());
        assert!(check(&page("a.md", "text\n")).is_empty());
    }

    #[test]
    fn each_ban_holds_in_the_core_and_only_there() {
        for (name, _) in CORE_BANS {
            let text = format!("//! Core.\nuse a::{name};\n");
            let path = format!("{CORE}a.rs");
            assert_eq!(check(&page(&path, &text)).len(), 1, "{name}");
            assert!(
                check(&page("crates/celld-node/src/a.rs", &text)).is_empty(),
                "{name}"
            );
        }
    }

    #[test]
    fn longer_names_and_comments_are_not_bans() {
        let text = "//! Core.\n// an Instant passes\nstruct InstantReply; let operand = brand;\n";
        assert!(check(&page(&format!("{CORE}a.rs"), text)).is_empty());
    }

    #[test]
    fn a_file_that_nothing_declares_is_found() {
        let pages = [
            page(
                "crates/x/src/lib.rs",
                "//! X.\npub mod used;\n#[path = \"odd/placed.rs\"]\nmod p;\n",
            ),
            page("crates/x/src/used.rs", "//! U.\nmod inner;\n"),
            page("crates/x/src/used/inner.rs", "//! I.\n"),
            page("crates/x/src/odd/placed.rs", "//! P.\n"),
            page("crates/x/src/lost.rs", "//! L.\n"),
            page("crates/y/src/lib.rs", "//! Y.\nmod lost;\n"),
        ];
        let found = unreachable_files(&pages);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/x/src/lost.rs");
    }
}
