//! Rules for every text file.

use super::{Complaint, Page};

/// Longest source file, in lines.
const FILE_LINES_MAX: usize = 800;
/// Kinds of files that [`FILE_LINES_MAX`] is for.
const SOURCES: [&str; 8] = ["rs", "js", "mjs", "cjs", "ts", "tsx", "jsx", "sh"];

/// Marks that must not stay. Cut in two, so that this list does not find itself.
const LEFTOVERS: [(&str, &str); 6] = [
    (concat!("db", "g!("), "remove the debug print"),
    (
        concat!("to", "do!("),
        "write the code or return an error that names the gap",
    ),
    (
        concat!("unimple", "mented!("),
        "write the code or return an error that names the gap",
    ),
    (concat!("XX", "X"), "settle it, or file an issue"),
    (concat!("FIX", "ME"), "settle it, or file an issue"),
    (concat!("TO", "DO"), "settle it, or file an issue"),
];

/// Hosts of package registries: their clients know them, and a mirror may stand in for them.
const REGISTRIES: [&str; 6] = [
    concat!("registry.npm", "js.org"),
    concat!("static.crates", ".io"),
    concat!("index.crates", ".io"),
    concat!("files.python", "hosted.org"),
    concat!("py", "pi.org"),
    concat!("deb.deb", "ian.org"),
];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Checks one file.
pub fn check(page: &Page) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let lock = page.path.ends_with("Cargo.lock") || page.path.ends_with("package-lock.json");
    for (index, line) in page.text.lines().enumerate() {
        let mut complain = |message: String| {
            complaints.push(Complaint::new(page, index + 1, message));
        };
        if line.ends_with([' ', '\t']) {
            complain("blanks at the end of the line".to_owned());
        }
        for host in REGISTRIES {
            if line.contains(host) {
                complain(format!(
                    "names the registry host {host}; leave it to the client"
                ));
            }
        }
        if lock {
            continue;
        }
        for (mark, advice) in LEFTOVERS {
            if contains_word(line, mark) {
                complain(format!("leftover {}: {advice}", mark.trim_end_matches('(')));
            }
        }
        for start in MACHINE_PATHS {
            if names_path(line, start) {
                complain(format!("names a path of one machine ({start}…)"));
            }
        }
    }
    if !page.text.is_empty() && !page.text.ends_with('\n') {
        complaints.push(Complaint::new(page, 0, "no newline at the end of the file"));
    }
    let lines = page.text.lines().count();
    if lines > FILE_LINES_MAX && SOURCES.iter().any(|end| page.is(end)) {
        complaints.push(Complaint::new(
            page,
            0,
            format!("{lines} lines; split it below {FILE_LINES_MAX}"),
        ));
    }
    complaints
}

/// True when `mark` stands in the line and does not begin in the middle of a word or end in one.
fn contains_word(line: &str, mark: &str) -> bool {
    let in_word = |letter: Option<char>| letter.is_some_and(|l| l.is_alphanumeric() || l == '_');
    line.match_indices(mark).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + mark.len()..].chars().next();
        !in_word(before) && (mark.ends_with('(') || !in_word(after))
    })
}

/// True when a path in the line begins with `start`; `.celld/` and the like may come before it.
fn names_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(place, _)| {
        let before = line[..place].chars().next_back();
        before.is_none_or(|letter| letter.is_whitespace() || "\"'`(=:,".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::page;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&page(path, text))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn clean_text_passes() {
        assert!(messages("a.rs", "//! Fine.\nfn main() {}\n").is_empty());
    }

    #[test]
    fn blanks_at_the_end_are_found() {
        assert_eq!(messages("a.md", "one \ntwo\t\n").len(), 2);
    }

    #[test]
    fn a_missing_last_newline_is_found() {
        assert_eq!(messages("a.md", "one").len(), 1);
    }

    #[test]
    fn leftovers_are_found_and_words_that_hold_them_are_not() {
        for (mark, _) in LEFTOVERS {
            let found = messages("a.rs", &format!("  {mark} later);\n"));
            assert_eq!(found.len(), 1, "{mark}");
            assert!(found[0].starts_with("a.rs:1: "), "{}", found[0]);
        }
        let word = concat!("MAX_XX", "XL and my_db", "g!(x)\n");
        assert!(messages("a.rs", word).is_empty());
    }

    #[test]
    fn registry_hosts_are_found_even_in_lock_files() {
        for host in REGISTRIES {
            assert_eq!(
                messages("package-lock.json", &format!("\"https://{host}/x\"\n")).len(),
                1
            );
        }
    }

    #[test]
    fn machine_paths_are_found_and_relative_ones_are_not() {
        for start in MACHINE_PATHS {
            assert_eq!(
                messages("a.md", &format!("see {start}main\n")).len(),
                1,
                "{start}"
            );
            assert_eq!(
                messages("a.md", &format!("(`{start}x`)\n")).len(),
                1,
                "{start}"
            );
            assert!(messages("a.md", &format!("the folder .celld{start}cells\n")).is_empty());
        }
    }

    #[test]
    fn a_long_source_file_is_found_and_a_long_table_is_not() {
        let text = "x\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(messages("a.rs", &text).len(), 1);
        assert_eq!(messages("a.mjs", &text).len(), 1);
        assert!(messages("a.tsv", &text).is_empty());
        assert!(messages("a.rs", &"x\n".repeat(FILE_LINES_MAX)).is_empty());
    }
}
