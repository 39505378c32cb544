//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use super::source::Place;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The project cannot be used as it is.
    Error,
    /// The project can be used, but probably not as its author expects.
    Warning,
}

impl Severity {
    /// The word that begins a rendering.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Stable names of the conditions that a configuration can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A file could not be found or read.
    File,
    /// The text is not JSON (with comments) or TOML.
    Syntax,
    /// A value has the wrong type.
    Type,
    /// A value has the right type but cannot be used.
    Value,
    /// A required key is missing.
    Missing,
    /// A key that is close to a known one.
    Misspelt,
    /// A key that Wrangler does not know.
    Unknown,
    /// A key, or a use of it, that this version of celld does not support.
    Unsupported,
    /// Two parts of the configuration contradict each other.
    Conflict,
    /// A setting that is read but has no effect.
    NoEffect,
    /// A key that an environment does not inherit from the top level.
    NotInherited,
    /// A compatibility date or flag.
    Compatibility,
    /// Migrations that contradict each other or what was deployed, or that are missing.
    Migration,
}

impl Code {
    /// The name as it is printed: `config/misspelt-key`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "config/file",
            Self::Syntax => "config/syntax",
            Self::Type => "config/wrong-type",
            Self::Value => "config/bad-value",
            Self::Missing => "config/missing-key",
            Self::Misspelt => "config/misspelt-key",
            Self::Unknown => "config/unknown-key",
            Self::Unsupported => "config/unsupported",
            Self::Conflict => "config/conflict",
            Self::NoEffect => "config/no-effect",
            Self::NotInherited => "config/not-inherited",
            Self::Compatibility => "config/compatibility",
            Self::Migration => "config/migration",
        }
    }
}

/// One finding. [`fmt::Display`] renders it plainly; the fields are there for colour and for JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Which condition.
    pub code: Code,
    /// Path of the key, e.g. `env.staging.durable_objects.bindings[0].class_name`; empty when no key is meant.
    pub key: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do.
    pub help: String,
    /// Which file it is about.
    pub file: PathBuf,
    /// Where in the file, when the finding has a place.
    pub place: Option<Place>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}[{}]: {}",
            self.severity.as_str(),
            self.code.as_str(),
            self.message
        )?;
        let file = self.file.display();
        let width = match &self.place {
            Some(place) => {
                let width = place.line.to_string().len();
                writeln!(f, "{:width$}--> {file}:{}:{}", "", place.line, place.column)?;
                writeln!(f, "{:width$} |", "")?;
                writeln!(f, "{} | {}", place.line, place.excerpt)?;
                writeln!(f, "{:width$} | {}", "", place.caret())?;
                width
            }
            None => {
                writeln!(f, " --> {file}")?;
                1
            }
        };
        if !self.key.is_empty() {
            writeln!(f, "{:width$} = key: {}", "", self.key)?;
        }
        write!(f, "{:width$} = help: {}", "", self.help)
    }
}

/// A finding that does not stop a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub Diagnostic);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Everything that is wrong with a configuration. Never without errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The errors, in the order of their places.
    pub errors: Vec<Diagnostic>,
    /// Warnings that were found on the way.
    pub warnings: Vec<Warning>,
}

impl fmt::Display for ConfigErrors {
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

impl std::error::Error for ConfigErrors {}

/// Makes text from a file safe to print: control characters are escaped, and what is long is cut.
pub(crate) fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == MAX_CHARS {
            out.push('…');
            break;
        }
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that change how the text around them is shown.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::Source;

    #[test]
    fn a_finding_is_rendered_with_line_column_and_caret() {
        let source = Source::new("wrangler.jsonc".into(), "{\n\t\"nane\": 1\n}".into());
        let finding = Diagnostic {
            severity: Severity::Error,
            code: Code::Misspelt,
            key: "nane".into(),
            message: "`nane` is not a key of Wrangler's configuration".into(),
            help: "did you mean `name`?".into(),
            file: source.path().to_owned(),
            place: Some(source.place(&(3..9))),
        };
        assert_eq!(
            finding.to_string(),
            "error[config/misspelt-key]: `nane` is not a key of Wrangler's configuration\n \
             --> wrangler.jsonc:2:2\n  |\n2 | \t\"nane\": 1\n  | \t^^^^^^\n  = key: nane\n  = help: did you mean `name`?"
        );
    }

    #[test]
    fn terminal_escapes_from_a_file_are_not_printed() {
        assert_eq!(shown("a\u{1b}[31mb\u{202e}"), "a\\u{1b}[31mb\\u{202e}");
        assert_eq!(shown(&"x".repeat(200)).chars().count(), 81);
    }
}
