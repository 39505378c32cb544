//! What the bundler has to say about a project: message, place, excerpt, next step.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Longest excerpt line shown, in characters. Minified sources have lines of megabytes.
const EXCERPT_WIDTH: usize = 120;

/// Lines of context shown above the offending one.
const CONTEXT_LINES: u32 = 2;

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No bundle was made.
    Error,
    /// The bundle was made; the program may not do what its author expects.
    Warning,
}

/// One finding about a project, ready to print or to serialize.
///
/// `Display` prints it without colour in the form that `rustc` uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// The file concerned, relative to the project directory where it lies inside it.
    pub file: Option<PathBuf>,
    /// Line in `file`, from 1.
    pub line: Option<u32>,
    /// Column in that line, in characters, from 1.
    pub column: Option<u32>,
    /// The offending line with some context, and the part to underline.
    pub excerpt: Option<Box<Excerpt>>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Source lines around a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Excerpt {
    /// Lines with their numbers; the last one is the offending line.
    pub lines: Vec<(u32, String)>,
    /// Characters before the underlined part of the last line.
    pub caret: usize,
    /// Characters to underline, at least 1.
    pub width: usize,
    /// What to write beside the underline; may be empty.
    pub label: String,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            file: None,
            line: None,
            column: None,
            excerpt: None,
            hint: None,
        }
    }

    /// A warning without a place.
    pub fn warning(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(message)
        }
    }

    /// Names the file concerned.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Points at a place in `source` and takes the excerpt from there.
    ///
    /// `line` and `column` count from 1, `column` and `width` in characters. A place outside
    /// the source (a file that changed while it was read) keeps the numbers and has no excerpt.
    #[must_use]
    pub fn at(mut self, source: &str, line: u32, column: u32, width: u32, label: &str) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self.excerpt = Excerpt::take(source, line, column, width, label).map(Box::new);
        self
    }
}

impl Excerpt {
    fn take(source: &str, line: u32, column: u32, width: u32, label: &str) -> Option<Self> {
        let first = line.saturating_sub(CONTEXT_LINES).max(1);
        let wanted = usize::try_from(line - first).ok()? + 1;
        let mut lines: Vec<(u32, &str)> = source
            .split('\n')
            .skip(usize::try_from(first).ok()? - 1)
            .take(wanted)
            .zip(first..)
            .map(|(text, number)| (number, text.trim_end_matches('\r')))
            .collect();
        if lines.len() < wanted {
            return None;
        }
        // Blank lines on top tell nothing.
        while lines.len() > 1 && lines[0].1.trim().is_empty() {
            lines.remove(0);
        }
        let before = usize::try_from(column).ok()?.saturating_sub(1);
        let last = lines.last().map(|(_, text)| *text)?;
        // A window that keeps the place in sight on very long lines.
        let start = if before + 20 > EXCERPT_WIDTH {
            before.saturating_sub(EXCERPT_WIDTH / 2)
        } else {
            0
        };
        let length = last
            .chars()
            .count()
            .min(start + EXCERPT_WIDTH)
            .saturating_sub(start);
        let caret = before.saturating_sub(start).min(length);
        let lines = lines
            .into_iter()
            .map(|(number, text)| {
                let from = if number == line { start } else { 0 };
                (number, clean(text).skip(from).take(EXCERPT_WIDTH).collect())
            })
            .collect();
        let width = usize::try_from(width)
            .ok()?
            .clamp(1, length.saturating_sub(caret).max(1));
        Some(Self {
            lines,
            caret,
            width,
            label: label.to_owned(),
        })
    }
}

/// Tabs become single spaces, so that one character stays one column; other control
/// characters could repaint the terminal and become `?`.
fn clean(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().map(|c| match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    })
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{word}: {}", self.message)?;
        let gutter = self
            .excerpt
            .as_ref()
            .and_then(|excerpt| excerpt.lines.last())
            .map_or(1, |(number, _)| number.to_string().len());
        if let Some(file) = &self.file {
            write!(f, "\n{:gutter$}--> {}", "", file.display())?;
            if let (Some(line), Some(column)) = (self.line, self.column) {
                write!(f, ":{line}:{column}")?;
            }
        }
        if let Some(excerpt) = &self.excerpt {
            write!(f, "\n{:gutter$} |", "")?;
            for (number, text) in &excerpt.lines {
                write!(f, "\n{number:>gutter$} | {text}")?;
            }
            write!(
                f,
                "\n{:gutter$} | {:caret$}{:^<width$}",
                "",
                "",
                "",
                caret = excerpt.caret,
                width = excerpt.width
            )?;
            if !excerpt.label.is_empty() {
                write!(f, " {}", excerpt.label)?;
            }
        }
        if let Some(hint) = &self.hint {
            for (index, line) in hint.lines().enumerate() {
                let lead = if index == 0 { "= help:" } else { "       " };
                write!(f, "\n{:gutter$} {lead} {line}", "")?;
            }
        }
        Ok(())
    }
}

/// Why there is no bundle: every error found, not only the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BundleErrors {
    /// At least one error, in the order of files and lines.
    pub errors: Vec<Diagnostic>,
    /// Warnings found on the way.
    pub warnings: Vec<Diagnostic>,
    /// Files that were read before the failure: watch these and try again when one changes.
    pub inputs: Vec<PathBuf>,
}

impl From<Diagnostic> for BundleErrors {
    fn from(error: Diagnostic) -> Self {
        Self {
            errors: vec![error],
            ..Self::default()
        }
    }
}

impl fmt::Display for BundleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for BundleErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_prints_as_file_line_column_excerpt_and_caret() {
        let source = "import a from 'a';\n\n\timport b from \"missing\";\n";
        let diagnostic = Diagnostic::error("cannot find \"missing\"")
            .in_file("src/index.ts")
            .at(source, 3, 16, 9, "not found")
            .with_hint("run `npm install missing`\nor remove it");
        assert_eq!(
            diagnostic.to_string(),
            "error: cannot find \"missing\"\n \
             --> src/index.ts:3:16\n  \
             |\n\
             1 | import a from 'a';\n\
             2 | \n\
             3 |  import b from \"missing\";\n  \
             |                ^^^^^^^^^ not found\n  \
             = help: run `npm install missing`\n          or remove it"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let source = format!("{}BAD{}", "x".repeat(100_000), "y".repeat(100_000));
        let diagnostic = Diagnostic::error("bad")
            .in_file("a.js")
            .at(&source, 1, 100_001, 3, "");
        let excerpt = diagnostic.excerpt.expect("an excerpt");
        let (_, text) = &excerpt.lines[0];
        assert_eq!(text.chars().count(), EXCERPT_WIDTH);
        assert_eq!(&text[excerpt.caret..excerpt.caret + excerpt.width], "BAD");
    }

    #[test]
    fn a_place_outside_the_source_has_no_excerpt() {
        let diagnostic = Diagnostic::error("gone")
            .in_file("a.js")
            .at("one line", 7, 3, 1, "");
        assert_eq!(diagnostic.excerpt, None);
        assert_eq!(diagnostic.to_string(), "error: gone\n --> a.js:7:3");
        let wide = Diagnostic::error("wide").at("abc", 1, 900, u32::MAX, "");
        assert_eq!(wide.excerpt.map(|e| e.width), Some(1));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let diagnostic = Diagnostic::error("x")
            .in_file("a.js")
            .at("a\u{1b}[31mb", 1, 1, 1, "");
        assert!(!diagnostic.to_string().contains('\u{1b}'));
    }
}
