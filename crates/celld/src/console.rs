//! What scripts say, and news of the node, as lines of the terminal or of JSON.

use std::collections::HashMap;
use std::sync::Arc;

use celld_node::{ConsoleSink, Notice};
use celld_runtime::api::ConsoleLine;
use parking_lot::RwLock;
use serde_json::json;

use crate::excerpt::{Sources, without_own_frames};
use crate::logging::{clock, epoch_ms};
use crate::printer::Printer;
use crate::table::{BAD, DIM, GOOD, NAME, WARN, paint};

/// Digits of an object's id that are shown.
const ID_DIGITS: usize = 8;

/// Prints lines of scripts and news of the node. Cheap to clone.
#[derive(Clone)]
pub struct Console {
    printer: Printer,
    json: bool,
    /// By Worker.
    sources: Arc<RwLock<HashMap<String, Sources>>>,
    /// Says when a deployment is adopted; `celld dev` says that itself.
    adoptions: bool,
}

impl Console {
    /// Prints through `printer`.
    pub fn new(printer: Printer, json: bool, adoptions: bool) -> Self {
        Self {
            printer,
            json,
            sources: Arc::default(),
            adoptions,
        }
    }

    /// Takes the sources of what a Worker runs, for excerpts.
    pub fn know(&self, worker: &str, sources: Sources) {
        self.sources.write().insert(worker.to_owned(), sources);
    }

    /// Prints text of the command itself; programs get `value` instead.
    pub fn say(&self, text: String, value: serde_json::Value) {
        self.printer.print(if self.json {
            format!("{value}\n")
        } else {
            text
        });
    }

    /// Waits until everything is written.
    pub fn finish(&self) {
        self.printer.finish();
    }

    fn render(&self, line: &ConsoleLine) -> String {
        let (style, level) = match line.level {
            "error" | "exception" => (BAD, line.level),
            "warn" => (WARN, "warn"),
            "debug" => (DIM, "debug"),
            "info" => (NAME, "info"),
            other => (DIM, other),
        };
        let place = match &line.cell {
            Some((class, id)) => format!("{class}({})", short(id)),
            None => line.worker.clone(),
        };
        let mut text = format!(
            "{} {} {} {}\n",
            paint(DIM, clock()),
            paint(style, format!("{level:<5}")),
            paint(NAME, place),
            without_own_frames(&line.text)
        );
        if line.level == "exception" {
            if let Some(event) = &line.event {
                text.insert_str(
                    text.find('\n').unwrap_or(text.len()),
                    &paint(DIM, format!("  in {event}")),
                );
            }
            let sources = self.sources.read();
            let excerpt = sources
                .get(&line.worker)
                .and_then(|sources| sources.excerpt(&line.text));
            text.push_str(&excerpt.unwrap_or_default());
        }
        text
    }
}

/// An id of 64 hex digits is cut; a name is shown whole.
fn short(id: &str) -> &str {
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { &id[..ID_DIGITS] } else { id }
}

impl ConsoleSink for Console {
    fn line(&self, line: ConsoleLine) {
        if self.json {
            let value = json!({
                "event": "console",
                "time_ms": epoch_ms(),
                "level": line.level,
                "text": without_own_frames(&line.text),
                "worker": line.worker,
                "class": line.cell.as_ref().map(|(class, _)| class),
                "object": line.cell.as_ref().map(|(_, id)| id),
                "during": line.event,
            });
            return self.printer.print(format!("{value}\n"));
        }
        self.printer.print(self.render(&line));
    }

    fn notice(&self, notice: Notice) {
        let (style, word, text, value) = match notice {
            Notice::Adopted { .. } if !self.adoptions => return,
            Notice::Adopted {
                script,
                version,
                replaced,
            } => (
                GOOD,
                "adopt",
                format!("{script} {version} serves"),
                json!({ "event": "adopted", "worker": script, "version": version, "replaced": replaced }),
            ),
            // `celld dev` shows the error itself, with its source.
            Notice::Refused { .. } if !self.adoptions => return,
            Notice::Refused {
                script,
                version,
                why,
            } => (
                BAD,
                "error",
                format!(
                    "a deployment of {script} cannot be used, and what served before goes on serving: {why}"
                ),
                json!({ "event": "refused", "worker": script, "version": version, "why": why }),
            ),
            Notice::HostLost { script, why } => (
                WARN,
                "warn",
                format!("an isolate of {script} ended, and its objects were reset: {why}"),
                json!({ "event": "isolate_lost", "worker": script, "why": why }),
            ),
            Notice::AlarmDropped { cell } => (
                WARN,
                "warn",
                format!("the alarm of {cell} failed too often and was given up"),
                json!({ "event": "alarm_dropped", "object": cell }),
            ),
            Notice::LogFailed { why } => (
                BAD,
                "error",
                why.clone(),
                json!({ "event": "log_failed", "why": why }),
            ),
        };
        let line = format!(
            "{} {} {text}\n",
            paint(DIM, clock()),
            paint(style, format!("{word:<5}"))
        );
        self.say(line, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(line: &ConsoleLine) -> String {
        let printer = Printer::start().unwrap();
        let text = Console::new(printer, false, true).render(line);
        // The time of day is 12 characters.
        anstream::adapter::strip_str(&text).to_string()[13..].to_owned()
    }

    #[test]
    fn a_line_names_its_level_and_the_object() {
        let mut line = ConsoleLine {
            level: "log",
            text: "hello".into(),
            worker: "counter".into(),
            cell: Some(("Counter".into(), "ab".repeat(32))),
            event: Some("GET http://a/".into()),
        };
        assert_eq!(plain(&line), "log   Counter(abababab) hello\n");
        line.cell = Some(("Counter".into(), "apples".into()));
        assert_eq!(plain(&line), "log   Counter(apples) hello\n");
        line.cell = None;
        line.level = "exception";
        line.text = "Error: x\n    at y".into();
        assert_eq!(
            plain(&line),
            "exception counter Error: x  in GET http://a/\n    at y\n"
        );
    }
}
