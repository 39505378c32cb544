//! What a command prints about itself: failures, warnings and explanations, for people or programs.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};

use crate::errors::{Failure, Kind};
use crate::table::{BAD, DIM, HEAD, NAME, WARN, paint};

/// Where a command's own words go.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// Output for people, or with `json` for programs.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// True when the output is for programs.
    pub fn json(&self) -> bool {
        self.json
    }

    /// A result: text for people, or a JSON line for programs, on standard output.
    pub fn result(&self, text: &str, value: &Value) {
        let mut out = anstream::stdout().lock();
        let written = if self.json {
            writeln!(out, "{value}")
        } else {
            out.write_all(text.as_bytes())
        };
        // A closed pipe: nobody is there to be told.
        let _ = written.and_then(|()| out.flush());
    }

    /// A failure, on standard error; for programs on standard output.
    pub fn failure(&self, failure: &Failure) {
        if self.json {
            return self.result("", &json!({ "event": "error", "error": failure.to_json() }));
        }
        let mut out = anstream::stderr().lock();
        let _ = out.write_all(render_failure(failure).as_bytes());
    }

    /// Something that the user should know, on standard error; for programs on standard output.
    pub fn warning(&self, rendered: &str, value: &Value) {
        if self.json {
            return self.result("", &json!({ "event": "warning", "warning": value }));
        }
        let _ = writeln!(anstream::stderr().lock(), "{rendered}\n");
    }

    /// The list of error codes.
    pub fn kinds(&self, kinds: &[&Kind]) {
        let mut text = String::new();
        for kind in kinds {
            let _ = writeln!(text, "{}  {}", paint(NAME, kind.code), kind.title);
        }
        let list: Vec<Value> = kinds
            .iter()
            .map(|kind| json!({ "code": kind.code, "title": kind.title }))
            .collect();
        self.result(&text, &Value::from(list));
    }

    /// One error code, explained.
    pub fn kind(&self, kind: &Kind) {
        let text = format!(
            "{}: {}\n\n{}\n{}\n\n{}\n{}\n",
            paint(NAME, kind.code),
            paint(HEAD, kind.title),
            paint(HEAD, "Cause"),
            wrap(kind.cause, 2),
            paint(HEAD, "What to do"),
            wrap(kind.next, 2),
        );
        let value = json!({
            "code": kind.code, "title": kind.title, "cause": kind.cause, "next": kind.next,
        });
        self.result(&text, &value);
    }
}

/// A failure for people.
pub fn render_failure(failure: &Failure) -> String {
    let mut text = String::new();
    if let Some(rendered) = &failure.rendered {
        let _ = writeln!(text, "{rendered}\n");
    }
    let tag = format!("error[{}]", failure.kind.code);
    let _ = writeln!(
        text,
        "{}: {}",
        paint(BAD, tag),
        paint(HEAD, &failure.message)
    );
    // Findings carry their own help.
    if failure.rendered.is_none() {
        let _ = writeln!(
            text,
            "{} {}",
            paint(NAME, "  = help:"),
            wrap(failure.kind.next, 10).trim_start()
        );
    }
    let _ = writeln!(
        text,
        "{}",
        paint(
            DIM,
            format!("  = more: celld explain {}", failure.kind.code)
        )
    );
    text
}

/// A warning of one line with its help.
pub fn render_warning(message: &str, help: &str) -> String {
    let mut text = format!("{}: {message}", paint(WARN, "warning"));
    if !help.is_empty() {
        let _ = write!(text, "\n{} {help}", paint(NAME, "  = help:"));
    }
    text
}

/// Breaks text into lines of at most 92 columns, indented.
fn wrap(text: &str, indent: usize) -> String {
    const WIDTH: usize = 92;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{:indent$}{word}", "")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors;

    #[test]
    fn a_failure_has_its_code_its_message_and_a_next_step() {
        let failure = Failure::new(errors::PORT_IN_USE, "port 8787 of 127.0.0.1 is in use");
        let text = anstream::adapter::strip_str(&render_failure(&failure)).to_string();
        assert!(
            text.starts_with(
                "error[CD0201]: port 8787 of 127.0.0.1 is in use\n  = help: Stop that program"
            ),
            "{text}"
        );
        assert!(
            text.contains("--port") && text.ends_with("  = more: celld explain CD0201\n"),
            "{text}"
        );
    }

    #[test]
    fn lines_are_broken_and_indented() {
        let text = wrap(&"word ".repeat(60), 4);
        assert!(
            text.lines()
                .all(|line| line.starts_with("    ") && line.len() <= 92),
            "{text}"
        );
    }
}
