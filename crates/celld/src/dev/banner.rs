//! The table that `celld dev` prints when it serves.

use std::net::SocketAddr;
use std::path::Path;

use celld_deploy::config::{Project, VarValue};
use celld_deploy::dotenv::Applied;
use celld_deploy::manifest::Binding;
use celld_deploy::upload::UploadReport;
use serde_json::{Value, json};

use crate::listen;
use crate::project::Loaded;
use crate::table::{DIM, GOOD, HEAD, Table, columns, paint};

/// Characters of a variable that are shown.
const VALUE_MAX_CHARS: usize = 48;

/// What there is to say.
pub struct Banner<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where data lies.
    pub data: &'a Path,
    /// Number of files watched; `None` without watching.
    pub watching: Option<usize>,
    /// What serves; `None` while nothing does.
    pub serving: Option<(&'a Loaded, &'a UploadReport)>,
}

/// For people.
pub fn text(banner: &Banner<'_>) -> String {
    let mut table = Table::default();
    table.row("Address", [paint(GOOD, listen::url(banner.address))]);
    if let Some((loaded, report)) = banner.serving {
        let project = &loaded.project;
        let env = project
            .environment
            .as_ref()
            .map(|env| format!(", environment {env}"))
            .unwrap_or_default();
        let about = format!("(compatibility date {}{env})", project.compatibility_date);
        table.row(
            "Worker",
            [format!(
                "{} {}",
                paint(HEAD, &project.name),
                paint(DIM, about)
            )],
        );
        table.row(
            "Bindings",
            columns(&bindings(project, &loaded.local, report)),
        );
        table.row("Crons", project.crons.iter().cloned());
    }
    table.row("Data", [banner.data.display().to_string()]);
    let watching = match banner.watching {
        Some(1) => "1 source file".to_owned(),
        Some(count) => format!("{count} source files"),
        None => "no (--no-watch)".to_owned(),
    };
    table.row("Watching", [watching]);
    format!(
        "\n{}\n  {}\n\n",
        table.render(),
        paint(DIM, "Ctrl-C ends it. Errors and console lines follow.")
    )
}

/// For programs.
pub fn json(banner: &Banner<'_>) -> Value {
    let serving = banner.serving.map(|(loaded, report)| {
        let bindings: Vec<Value> = bindings(&loaded.project, &loaded.local, report)
            .into_iter()
            .map(|(name, what)| json!({ "name": name, "what": what }))
            .collect();
        json!({
            "name": loaded.project.name,
            "version": report.id,
            "compatibility_date": loaded.project.compatibility_date,
            "bindings": bindings,
            "crons": loaded.project.crons,
        })
    });
    json!({
        "event": "listening",
        "url": listen::url(banner.address),
        "address": banner.address,
        "worker": serving,
        "data": banner.data,
        "files_watched": banner.watching,
    })
}

/// Names of bindings and what they are. Values that `.dev.vars` gave are not shown.
fn bindings(project: &Project, local: &Applied, report: &UploadReport) -> Vec<(String, String)> {
    let variables = project.vars.iter().map(|(name, value)| {
        let secret = local.names.contains(name);
        (
            name.clone(),
            if secret {
                "(hidden) from .dev.vars".to_owned()
            } else {
                shown(value)
            },
        )
    });
    let others = report
        .deployment
        .bindings
        .iter()
        .filter_map(|(name, binding)| {
            let what = match binding {
                Binding::DurableObject { class_name, .. } => {
                    let sqlite = report
                        .deployment
                        .classes
                        .get(class_name)
                        .is_some_and(|class| class.sqlite);
                    let storage = if sqlite { "SQLite" } else { "key-value" };
                    format!("Durable Object {class_name} ({storage})")
                }
                Binding::Service {
                    entrypoint: None, ..
                } => "this Worker".to_owned(),
                Binding::Service {
                    entrypoint: Some(name),
                    ..
                } => format!("this Worker's {name}"),
                Binding::Assets {} => "static assets".to_owned(),
                Binding::Text { .. } | Binding::Json { .. } => return None,
            };
            Some((name.clone(), what))
        });
    others.chain(variables).collect()
}

fn shown(value: &VarValue) -> String {
    let text = match value {
        VarValue::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        VarValue::Json(value) => value.to_string(),
    };
    if text.chars().count() <= VALUE_MAX_CHARS {
        return text;
    }
    let mut cut: String = text.chars().take(VALUE_MAX_CHARS).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_control_characters_escaped() {
        assert_eq!(
            shown(&VarValue::Text("a\u{1b}[31m".into())),
            r#""a\u001b[31m""#
        );
        let long = shown(&VarValue::Text("x".repeat(500)));
        assert_eq!(long.chars().count(), VALUE_MAX_CHARS + 1);
    }
}
