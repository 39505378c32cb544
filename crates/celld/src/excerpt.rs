//! The user's own source line behind an exception.

use std::collections::HashMap;
use std::sync::OnceLock;

use celld_deploy::manifest::BundledModule;
use serde::Deserialize;

use crate::table::{BAD, NAME, paint};

/// Longest line that is shown, in characters.
const LINE_MAX_CHARS: usize = 160;
/// Stack frames that are looked at.
const FRAMES_MAX: usize = 50;

/// The sources of a deployment, by the names that mapped stacks give them. They are unpacked when
/// the first excerpt is wanted.
#[derive(Default)]
pub struct Sources {
    modules: Vec<BundledModule>,
    files: OnceLock<HashMap<String, String>>,
}

/// The parts of a source map that hold sources.
#[derive(Deserialize)]
struct SourceMap {
    sources: Vec<String>,
    #[serde(default, rename = "sourcesContent")]
    contents: Vec<Option<String>>,
}

impl Sources {
    /// The sources of a deployment: from its source maps, or its modules where they have none.
    pub fn of(modules: &[BundledModule]) -> Self {
        let scripts = modules.iter().filter(|module| module.kind.is_javascript());
        Self {
            modules: scripts.cloned().collect(),
            files: OnceLock::new(),
        }
    }

    fn unpack(&self) -> HashMap<String, String> {
        let mut files = HashMap::new();
        for module in &self.modules {
            let map = module
                .source_map
                .as_ref()
                .and_then(|map| serde_json::from_slice::<SourceMap>(map).ok());
            match map {
                Some(map) => {
                    let pairs = map.sources.into_iter().zip(map.contents);
                    files
                        .extend(pairs.filter_map(|(name, content)| {
                            Some((tidy(&name).to_owned(), content?))
                        }));
                }
                None => {
                    let text = String::from_utf8_lossy(&module.bytes).into_owned();
                    files.insert(module.specifier.clone(), text);
                }
            }
        }
        files
    }

    /// The source line of the first frame of a stack that lies in the user's own code.
    pub fn excerpt(&self, stack: &str) -> Option<String> {
        let frames = stack
            .lines()
            .filter(|line| line.trim_start().starts_with("at "))
            .take(FRAMES_MAX);
        frames.filter_map(place).find_map(|(file, line, column)| {
            if file.contains("node_modules/") {
                return None;
            }
            let files = self.files.get_or_init(|| self.unpack());
            let text = files.get(tidy(file))?.lines().nth(line.checked_sub(1)?)?;
            Some(show(file, line, column, text))
        })
    }
}

/// A text without the stack frames of the runtime itself, which lead nobody to a mistake.
pub fn without_own_frames(text: &str) -> String {
    let own = |line: &&str| {
        let frame = line.trim_start();
        frame.len() < line.len() && frame.starts_with("at ") && frame.contains("ext:")
    };
    let kept: Vec<&str> = text.split('\n').filter(|line| !own(line)).collect();
    kept.join("\n")
}

fn tidy(name: &str) -> &str {
    name.trim_start_matches("worker://")
        .trim_start_matches("file://")
        .trim_start_matches("./")
        .trim_start_matches('/')
}

/// File, line and column of a stack frame: `at name (file:1:2)` or `at file:1:2`.
fn place(frame: &str) -> Option<(&str, usize, usize)> {
    let frame = frame.trim();
    let inner = match frame.strip_suffix(')') {
        Some(rest) => rest.rsplit_once('(')?.1,
        None => frame.strip_prefix("at ")?.trim_start_matches("async "),
    };
    let (rest, column) = inner.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((file, line.parse().ok()?, column.parse().ok()?))
}

fn show(file: &str, line: usize, column: usize, text: &str) -> String {
    let gutter = line.to_string().len();
    let before = column.saturating_sub(1);
    // A window that keeps the place in sight in minified sources.
    let start = if before + 20 > LINE_MAX_CHARS {
        before.saturating_sub(LINE_MAX_CHARS / 2)
    } else {
        0
    };
    let shown: String = text
        .chars()
        .skip(start)
        .take(LINE_MAX_CHARS)
        .map(|c| {
            if c == '\t' {
                ' '
            } else if c.is_control() {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect();
    let caret = before.saturating_sub(start).min(shown.chars().count());
    let width = word_len(&shown, caret);
    format!(
        "{:gutter$}{} {file}:{line}:{column}\n{:gutter$} {}\n{} {shown}\n{:gutter$} {} {:caret$}{}\n",
        "",
        paint(NAME, "-->"),
        "",
        paint(NAME, "|"),
        paint(NAME, format!("{line} |")),
        "",
        paint(NAME, "|"),
        "",
        paint(BAD, "^".repeat(width)),
    )
}

/// Characters of the word that begins at `start`; at least 1.
fn word_len(text: &str, start: usize) -> usize {
    let word = text
        .chars()
        .skip(start)
        .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
    word.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use celld_deploy::manifest::ModuleKind;

    fn sources() -> Sources {
        let map = r#"{"version":3,"sources":["src/index.ts","node_modules/x/y.js"],"sourcesContent":["one\n  throw new Error(1);\n","far away"],"mappings":""}"#;
        Sources::of(&[BundledModule {
            specifier: "index.js".into(),
            kind: ModuleKind::EsModule,
            bytes: Bytes::new(),
            source_map: Some(Bytes::from(map)),
        }])
    }

    #[test]
    fn the_first_own_frame_is_shown() {
        let stack = "Error: 1\n    at y (node_modules/x/y.js:1:1)\n    at async Object.fetch (src/index.ts:2:9)\n    at src/index.ts:1:1";
        let text = sources().excerpt(stack).unwrap();
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain,
            " --> src/index.ts:2:9\n  |\n2 |   throw new Error(1);\n  |         ^^^\n"
        );
    }

    #[test]
    fn places_without_a_source_show_nothing() {
        for stack in [
            "",
            "Error",
            "at x (src/index.ts:99:1)",
            "at x (gone.ts:1:1)",
            "at x (src/index.ts:0:0)",
            "at :",
            "at )",
        ] {
            assert_eq!(sources().excerpt(stack), None, "{stack:?}");
        }
    }

    #[test]
    fn frames_of_the_runtime_are_left_out() {
        let text = "Error: at ext: x\n    at f (index.js:1:1)\n    at ext:celld/entry.js:1:1\n    at runAs (ext:celld/a.js:1:1)";
        assert_eq!(
            without_own_frames(text),
            "Error: at ext: x\n    at f (index.js:1:1)"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let text = show("a.js", 1, 100_001, &format!("{}bad()", "x;".repeat(50_000)));
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(plain.contains("bad()") && plain.len() < 600, "{plain}");
    }
}
