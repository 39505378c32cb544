//! A configuration file's text, and where in it things are.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::diagnostic::is_invisible;

/// Longest excerpt of a line that a diagnostic shows, in characters.
const EXCERPT_MAX_CHARS: usize = 100;

/// A place in a file, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line, or the part of it around the place; control characters are replaced.
    pub excerpt: String,
    /// Where the place begins in `excerpt`, in characters.
    pub caret_start: usize,
    /// How many characters of `excerpt` it covers; at least 1.
    pub caret_len: usize,
}

impl Place {
    /// A line that points at the place when it is printed below `excerpt`. Tabs are kept, so that
    /// both lines shift alike.
    pub fn caret(&self) -> String {
        let before = self.excerpt.chars().take(self.caret_start);
        let mut out: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        out.extend(std::iter::repeat_n('^', self.caret_len));
        out
    }
}

/// The text of one file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
    line_starts: Vec<usize>,
}

impl Source {
    /// Takes a text; a byte order mark at its start is dropped.
    pub(crate) fn new(path: PathBuf, mut text: String) -> Self {
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        let mut line_starts = vec![0];
        line_starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(at, _)| at + 1),
        );
        Self {
            path,
            text,
            line_starts,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The place of a byte range. A range past the end of the text means its end; one that spans
    /// lines is shown up to the end of its first line.
    pub(crate) fn place(&self, range: &Range<usize>) -> Place {
        let start = self.floor_boundary(range.start);
        let end = self.floor_boundary(range.end).max(start);
        let line_index = self.line_starts.partition_point(|at| *at <= start) - 1;
        let line_start = self.line_starts[line_index];
        let rest = &self.text[line_start..];
        let line = rest
            .split('\n')
            .next()
            .unwrap_or_default()
            .trim_end_matches('\r');
        let before = &self.text[line_start..start.min(line_start + line.len())];
        let line_end = line_start + line.len();
        let column = before.chars().count();
        let covered = self.text[start.min(line_end)..end.min(line_end)]
            .chars()
            .count();
        let (excerpt, caret_start, room) = window(line, column);
        Place {
            line: line_index + 1,
            column: column + 1,
            excerpt,
            caret_start,
            caret_len: covered.clamp(1, room.max(1)),
        }
    }

    fn floor_boundary(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

/// Cuts a line so that `column` (from 0) stays visible. Returns the text, the column in it, and
/// how many characters follow from there.
fn window(line: &str, column: usize) -> (String, usize, usize) {
    let skip = if column > EXCERPT_MAX_CHARS * 3 / 4 {
        column - EXCERPT_MAX_CHARS / 2
    } else {
        0
    };
    let mut out = String::new();
    if skip > 0 {
        out.push('…');
    }
    let caret_start = column - skip + usize::from(skip > 0);
    let mut rest = line.chars().skip(skip);
    out.extend(rest.by_ref().take(EXCERPT_MAX_CHARS).map(printable));
    let room = out.chars().count().saturating_sub(caret_start);
    if rest.next().is_some() {
        out.push('…');
    }
    (out, caret_start, room)
}

fn printable(c: char) -> char {
    if c == '\t' || !(c.is_control() || is_invisible(c)) {
        c
    } else {
        '\u{fffd}'
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(text: &str) -> Source {
        Source::new("f".into(), text.into())
    }

    #[test]
    fn columns_count_characters_not_bytes() {
        let place = source("a\r\nää: x\r\n").place(&(9..10));
        assert_eq!(
            (place.line, place.column, place.excerpt.as_str()),
            (2, 5, "ää: x")
        );
        assert_eq!(place.caret(), "    ^");
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_line() {
        let place = source("\u{feff}{}").place(&(0..1));
        assert_eq!(
            (place.line, place.column, place.excerpt.as_str()),
            (1, 1, "{}")
        );
    }

    #[test]
    fn the_end_of_the_text_has_a_place() {
        let place = source("{\n").place(&(2..2));
        assert_eq!((place.line, place.column, place.caret_len), (2, 1, 1));
        assert_eq!(source("").place(&(7..9)).line, 1);
    }

    #[test]
    fn a_range_over_several_lines_is_cut_at_the_first() {
        let place = source("ab {\n  c\n}").place(&(3..10));
        assert_eq!((place.column, place.caret_len), (4, 1));
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("{}KEY{}", "x".repeat(500), "y".repeat(500));
        let place = source(&text).place(&(500..503));
        assert_eq!(place.column, 501);
        assert!(place.excerpt.chars().count() <= EXCERPT_MAX_CHARS + 2);
        let shown: String = place
            .excerpt
            .chars()
            .skip(place.caret_start)
            .take(place.caret_len)
            .collect();
        assert_eq!(shown, "KEY");
    }

    proptest! {
        #[test]
        fn any_range_of_any_text_has_a_place(text in any::<String>(), a in 0usize..200, b in 0usize..200) {
            let place = source(&text).place(&(a..b));
            prop_assert!(place.line >= 1 && place.column >= 1 && place.caret_len >= 1);
            prop_assert!(place.excerpt.chars().count() <= EXCERPT_MAX_CHARS + 2);
            let escape = '\u{1b}';
            prop_assert!(!place.excerpt.contains(escape));
        }
    }
}
