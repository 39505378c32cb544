//! A count that may fall but not rise: functions that do not fit a screen.

use std::collections::BTreeMap;

use super::{Complaint, Page};

/// Longest function that fits a screen, in lines.
const FUNCTION_LINES_MAX: usize = 70;
/// Where the allowed numbers stand: one `path number` a line.
const ALLOWED: &str = "xtask/tidy-long-functions.txt";

/// Compares each file's long functions with the allowed number. A test's scene may be long.
pub fn check(pages: &[Page]) -> Vec<Complaint> {
    let allowed = allowed(pages);
    let mut complaints = Vec::new();
    let checked = |page: &&Page| page.is("rs") && !page.path.contains("/tests/");
    for page in pages.iter().filter(checked) {
        let long = long_functions(&page.text);
        let limit = allowed.get(page.path.as_str()).copied().unwrap_or(0);
        if long.len() > limit {
            for (line, name, lines) in long {
                let message = format!(
                    "`{name}` has {lines} lines; a function fits a screen ({FUNCTION_LINES_MAX})"
                );
                complaints.push(Complaint::new(page, line, message));
            }
        } else if long.len() < limit {
            let message = format!(
                "{} long functions now: lower the number in {ALLOWED}",
                long.len()
            );
            complaints.push(Complaint::new(page, 0, message));
        }
    }
    complaints
}

fn allowed(pages: &[Page]) -> BTreeMap<&str, usize> {
    let text = pages
        .iter()
        .find(|page| page.path == ALLOWED)
        .map_or("", |page| &page.text);
    text.lines()
        .filter_map(|line| {
            let (path, number) = line.split_once(' ')?;
            Some((path, number.parse().ok()?))
        })
        .collect()
}

/// Line, name and length of each function above the limit.
///
/// Formatted code closes a function with a brace at the indentation that its first line has.
fn long_functions(text: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let is_end = |line: &&str| {
            let own = line.len() - line.trim_start().len() == indent;
            own && (line.trim_start() == "}" || line.trim_end().ends_with(';'))
        };
        let Some(length) = lines[start..].iter().position(is_end) else {
            continue;
        };
        if length + 1 > FUNCTION_LINES_MAX {
            found.push((start + 1, name.to_owned(), length + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let place = if code.starts_with("fn ") {
        0
    } else {
        code.find(" fn ")? + 1
    };
    let qualifiers = &code[..place];
    let only_qualifiers = qualifiers.split_whitespace().all(|word| {
        matches!(word, "async" | "const" | "unsafe" | "extern" | "\"C\"")
            || word.starts_with("pub")
            || word.ends_with(')')
    });
    let rest = &code[place + "fn ".len()..];
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    (only_qualifiers && end > 0).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::page;

    fn function(name: &str, lines: usize) -> String {
        format!(
            "pub async fn {name}() {{\n{}}}\n",
            "    x();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn only_a_function_above_the_limit_is_long() {
        let text = function("fits", FUNCTION_LINES_MAX) + &function("long", FUNCTION_LINES_MAX + 1);
        let found = long_functions(&text);
        assert_eq!(
            found,
            [(
                FUNCTION_LINES_MAX + 1,
                "long".to_owned(),
                FUNCTION_LINES_MAX + 1
            )]
        );
    }

    #[test]
    fn names_are_found_behind_qualifiers_only() {
        assert_eq!(
            function_name("    pub(crate) const unsafe fn a_b<T>("),
            Some("a_b")
        );
        assert_eq!(function_name("    let f: fn (u8) = x;"), None);
        assert_eq!(function_name("// the fn name(x)"), None);
        assert_eq!(function_name("    fn a(&self);"), Some("a"));
    }

    #[test]
    fn the_number_may_not_rise_and_must_be_lowered_when_it_falls() {
        let long = function("long", FUNCTION_LINES_MAX + 1);
        let list = |number: usize| page(ALLOWED, &format!("a.rs {number}\n"));
        assert_eq!(check(&[page("a.rs", &long)]).len(), 1);
        assert!(check(&[page("a/tests/b.rs", &long)]).is_empty());
        assert!(check(&[page("a.rs", &long), list(1)]).is_empty());
        assert_eq!(check(&[page("a.rs", "//! Short.\n"), list(1)]).len(), 1);
    }
}
