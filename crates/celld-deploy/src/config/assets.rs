//! `assets`: the static files that are served beside the Worker.

use std::path::PathBuf;

use super::Origin;
use super::diagnostic::{Code, shown};
use super::keys;
use super::report::{At, Report, join};
use super::scope::Scopes;
use super::tree::Value;
use crate::manifest::{HtmlHandling, NotFoundHandling};

/// The `assets` of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetsConfig {
    /// The directory whose files are served.
    pub directory: PathBuf,
    /// Name in `env` under which the Worker can fetch them.
    pub binding: Option<String>,
    /// How paths and HTML files correspond.
    pub html_handling: HtmlHandling,
    /// What answers where no file does.
    pub not_found_handling: NotFoundHandling,
    /// Requests go to the Worker even where a file would answer.
    pub run_worker_first: bool,
    /// Where it is written.
    pub origin: Origin,
}

pub(super) fn assets(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Option<AssetsConfig> {
    let found = scopes.get("assets")?;
    if found.entry.node.is_vacant() {
        return None;
    }
    let at = found.at();
    let entries = report.object(at)?;
    let known = [
        "directory",
        "binding",
        "html_handling",
        "not_found_handling",
        "run_worker_first",
    ];
    report.check_keys(&found.path, entries, &known);
    let directory = report.required_string(at, "directory", "\"./public\"");
    let binding = report.optional_string(at, "binding");
    let html = choice(report, at, "html_handling", &HtmlHandling::ALL);
    let not_found = choice(report, at, "not_found_handling", &NotFoundHandling::ALL);
    let run_worker_first = run_worker_first(report, at);
    Some(AssetsConfig {
        directory: report.resolve(&directory?),
        binding,
        html_handling: html.unwrap_or_default(),
        not_found_handling: not_found.unwrap_or_default(),
        run_worker_first,
        origin: report.origin(&found.path, &found.entry.key_span),
    })
}

/// A value of a fixed list, by its name.
fn choice<T: Copy>(
    report: &mut Report<'_>,
    at: At<'_>,
    key: &str,
    all: &[(&'static str, T)],
) -> Option<T> {
    let given = report.optional_string(at, key)?;
    if let Some((_, value)) = all.iter().find(|(name, _)| *name == given) {
        return Some(*value);
    }
    let span = at
        .node
        .entry(key)
        .map_or(&at.node.span, |entry| &entry.node.span);
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let help = match keys::closest(&given, names.iter().copied()) {
        Some(meant) => keys::did_you_mean(meant),
        None => format!("use one of {}", names.join(", ")),
    };
    let message = format!("`{}` is not a value of `{key}`", shown(&given));
    report.error(Code::Value, &join(at.path, key), span, message, help);
    None
}

fn run_worker_first(report: &mut Report<'_>, at: At<'_>) -> bool {
    let Some(entry) = at
        .node
        .entry("run_worker_first")
        .filter(|entry| !entry.node.is_vacant())
    else {
        return false;
    };
    let path = join(at.path, "run_worker_first");
    if let Value::Array(_) = entry.node.value {
        let message = "`run_worker_first`: this version of celld does not support patterns";
        let help = "give true, and let the Worker answer other paths with `env.ASSETS.fetch(request)` (see `binding`)";
        report.error(Code::Unsupported, &path, &entry.key_span, message, help);
        return false;
    }
    let value = report.boolean(At {
        path: &path,
        node: &entry.node,
    });
    value.unwrap_or_default()
}
