//! Rules for documentation pages.

use super::{Complaint, Page};

/// A page with these words cites tests.
const CITES_TESTS: &str = "defended by";
/// What tells the name of a test from other quoted names.
const TEST_UNDERSCORES_MIN: usize = 3;

/// Checks one Markdown page; `pages` are the files that its links may lead to.
pub fn check(page: &Page, pages: &[Page]) -> Vec<Complaint> {
    if !page.is("md") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    let mut titles = 0;
    for (index, line) in prose(&page.text) {
        if line.starts_with("# ") {
            titles += 1;
            if titles == 2 {
                let message = "a second title (`# `): a page has one; use `## `";
                complaints.push(Complaint::new(page, index + 1, message));
            }
        }
        for target in links(line) {
            if !leads_somewhere(&page.path, target, pages) {
                let message = format!("the link to {target} leads nowhere");
                complaints.push(Complaint::new(page, index + 1, message));
            }
        }
    }
    if page.text.contains(CITES_TESTS) {
        complaints.extend(missing_tests(page, pages));
    }
    if titles == 0 {
        complaints.push(Complaint::new(page, 0, "the page has no title (`# …`)"));
    }
    complaints
}

/// Names of tests that a page cites (in backquotes, at least three underscores) and that are gone.
fn missing_tests(page: &Page, pages: &[Page]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in prose(&page.text) {
        // Every second piece between backquotes is quoted.
        for name in line.split('`').skip(1).step_by(2) {
            let of_test = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            if !name.chars().all(of_test) || name.matches('_').count() < TEST_UNDERSCORES_MIN {
                continue;
            }
            let function = format!("fn {name}(");
            let mut sources = pages.iter().filter(|other| other.is("rs"));
            if !sources.any(|source| source.text.contains(&function)) {
                let message =
                    format!("there is no test `{name}`: name the one that took its place");
                complaints.push(Complaint::new(page, index + 1, message));
            }
        }
    }
    complaints
}

/// Lines outside of fenced code, with their index.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        if fence {
            fenced = !fenced;
        }
        !fenced && !fence
    })
}

/// Targets of the inline links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(place, mark)| {
        let rest = &line[place + mark.len()..];
        rest.split_once(')').map(|(target, _)| target)
    })
}

/// True for links to other sites, within the page, and to a file or folder of the checkout.
fn leads_somewhere(from: &str, target: &str, pages: &[Page]) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            name => parts.push(name),
        }
    }
    let full = parts.join("/");
    let folder = format!("{full}/");
    pages
        .iter()
        .any(|page| page.path == full || page.path.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::page;

    fn count(text: &str) -> usize {
        let pages = [
            page("docs/other.md", "# Other\n"),
            page("README.md", "# R\n"),
        ];
        check(&page("docs/a.md", text), &pages).len()
    }

    #[test]
    fn a_page_has_exactly_one_title() {
        assert_eq!(count("# One\n\n## Part\n"), 0);
        assert_eq!(count("# One\n\n# Two\n"), 1);
        assert_eq!(count("text\n"), 1);
    }

    #[test]
    fn comments_in_code_are_not_titles() {
        assert_eq!(count("# One\n\n```sh\n# a comment\n```\n"), 0);
    }

    #[test]
    fn broken_links_are_found() {
        assert_eq!(
            count("# A\n[x](other.md#part), [y](../README.md), [z](https://a.b/c)\n"),
            0
        );
        assert_eq!(count("# A\n[x](missing.md)\n"), 1);
        assert_eq!(count("# A\n[x](../../outside.md)\n"), 1);
        assert_eq!(count("# A\n[x](#below) and [y](../docs)\n"), 0);
    }

    #[test]
    fn a_cited_test_must_exist() {
        let pages = [page("a.rs", "//! A.\nfn it_is_so_here() {}\n")];
        let cited = |name: &str| {
            let text = format!("# A\ndefended by `{name}` and `a_key`\n");
            check(&page("docs/a.md", &text), &pages).len()
        };
        assert_eq!(cited("it_is_so_here"), 0);
        assert_eq!(cited("it_was_so_once"), 1);
    }

    #[test]
    fn other_files_are_left_alone() {
        assert!(check(&page("a.rs", "# x\n# y\n"), &[]).is_empty());
    }
}
