//! Durable Objects: bindings and migrations.

use std::collections::HashMap;

use super::bindings::{is_this_worker, refuse_remote};
use super::diagnostic::{Code, shown};
use super::report::{At, Report, join};
use super::scope::Scopes;
use super::tree::{Node, Span};
use super::{DurableBinding, Migration, Rename};

pub(super) fn bindings(
    report: &mut Report<'_>,
    scopes: &Scopes<'_>,
    worker: Option<&str>,
) -> Vec<DurableBinding> {
    let Some(found) = scopes.get("durable_objects") else {
        return Vec::new();
    };
    let Some(entries) = report.object(found.at()) else {
        return Vec::new();
    };
    report.check_keys(&found.path, entries, &["bindings", "code_update_strategy"]);
    let path = join(&found.path, "bindings");
    let Some(list) = found.entry.node.entry("bindings") else {
        return Vec::new();
    };
    let items = report
        .array(At {
            path: &path,
            node: &list.node,
        })
        .unwrap_or_default();
    let bindings = items.iter().enumerate();
    bindings
        .filter_map(|(index, node)| {
            binding(report, scopes, worker, &format!("{path}[{index}]"), node)
        })
        .collect()
}

fn binding(
    report: &mut Report<'_>,
    scopes: &Scopes<'_>,
    worker: Option<&str>,
    path: &str,
    node: &Node,
) -> Option<DurableBinding> {
    let at = At { path, node };
    let entries = report.object(at)?;
    report.check_keys(
        path,
        entries,
        &["name", "class_name", "script_name", "environment", "remote"],
    );
    let name = report.required_string(at, "name", "\"name\": \"COUNTER\"");
    let class_name = report.required_string(at, "class_name", "\"class_name\": \"Counter\"");
    let script = report.optional_string(at, "script_name");
    let environment = report.optional_string(at, "environment");
    refuse_remote(report, at);
    if environment.is_some() && script.is_none() {
        let message = format!("`{path}` has an `environment` but no `script_name`");
        report.error(
            Code::Missing,
            path,
            &node.span,
            message,
            "add `script_name`, or remove `environment`",
        );
    }
    let (name, class_name) = (name?, class_name?);
    let class_path = join(path, "class_name");
    let span = node
        .entry("class_name")
        .map_or(&node.span, |entry| &entry.node.span);
    if !check_class(report, &class_path, &class_name, span) {
        return None;
    }
    if let Some(script) = script.filter(|it| {
        worker.is_some_and(|worker| !is_this_worker(it, environment.as_deref(), scopes, worker))
    }) {
        let path = join(path, "script_name");
        let span = node
            .entry("script_name")
            .map_or(&node.span, |entry| &entry.node.span);
        let message = format!(
            "`{}` is another Worker: bindings to its Durable Objects are not supported by this version of celld",
            shown(&script)
        );
        report.error(
            Code::Unsupported,
            &path,
            span,
            message,
            "move the class into this Worker, or reach the other one by `fetch` and its URL",
        );
        return None;
    }
    let origin = report.origin(&class_path, span);
    Some(DurableBinding {
        name,
        class_name,
        origin,
    })
}

/// Reports what cannot be the name of an exported class.
fn check_class(report: &mut Report<'_>, path: &str, name: &str, span: &Span) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let fits = name.chars().all(part) && !name.starts_with(char::is_numeric) && name.len() <= 200;
    if !fits {
        let message = format!("`{}` is not the name of a class", shown(name));
        report.error(
            Code::Value,
            path,
            span,
            message,
            "give the name under which the main module exports the class",
        );
    }
    fits
}

pub(super) fn migrations(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Vec<Migration> {
    let Some(found) = scopes.get("migrations") else {
        return Vec::new();
    };
    let items = report.array(found.at()).unwrap_or_default();
    let mut tags = HashMap::new();
    let mut out = Vec::with_capacity(items.len());
    for (index, node) in items.iter().enumerate() {
        let path = format!("{}[{index}]", found.path);
        let Some(migration) = migration(report, &path, node) else {
            continue;
        };
        if let Some(first) = tags.insert(migration.tag.clone(), path.clone()) {
            let span = node
                .entry("tag")
                .map_or(&node.span, |entry| &entry.node.span);
            let message = format!(
                "the tag `{}` is also that of `{first}`",
                shown(&migration.tag)
            );
            report.error(
                Code::Conflict,
                &join(&path, "tag"),
                span,
                message,
                "give every migration a tag of its own",
            );
        }
        out.push(migration);
    }
    out
}

fn migration(report: &mut Report<'_>, path: &str, node: &Node) -> Option<Migration> {
    let at = At { path, node };
    let entries = report.object(at)?;
    let known = [
        "tag",
        "new_classes",
        "new_sqlite_classes",
        "renamed_classes",
        "deleted_classes",
        "transferred_classes",
    ];
    report.check_keys(path, entries, &known);
    let tag = report.required_string(at, "tag", "\"tag\": \"v1\"");
    if let Some(entry) = node
        .entry("transferred_classes")
        .filter(|entry| !entry.node.is_vacant())
    {
        let path = join(path, "transferred_classes");
        let message = "`transferred_classes`: moving classes between Workers is not supported by this version of celld";
        report.error(
            Code::Unsupported,
            &path,
            &entry.key_span,
            message,
            "remove the key, and create the class here by `new_sqlite_classes`",
        );
    }
    let span = node
        .entry("tag")
        .map_or(&node.span, |entry| &entry.node.span);
    Some(Migration {
        tag: tag?,
        new_classes: classes(report, path, node, "new_classes"),
        new_sqlite_classes: classes(report, path, node, "new_sqlite_classes"),
        renamed_classes: renames(report, path, node),
        deleted_classes: classes(report, path, node, "deleted_classes"),
        origin: report.origin(&join(path, "tag"), span),
    })
}

fn classes(report: &mut Report<'_>, path: &str, node: &Node, key: &str) -> Vec<String> {
    let Some(entry) = node.entry(key).filter(|entry| !entry.node.is_vacant()) else {
        return Vec::new();
    };
    let path = join(path, key);
    let names = report
        .strings(At {
            path: &path,
            node: &entry.node,
        })
        .unwrap_or_default();
    names
        .into_iter()
        .filter(|(name, node)| check_class(report, &path, name, &node.span))
        .map(|(name, _)| name)
        .collect()
}

fn renames(report: &mut Report<'_>, path: &str, node: &Node) -> Vec<Rename> {
    let Some(entry) = node
        .entry("renamed_classes")
        .filter(|entry| !entry.node.is_vacant())
    else {
        return Vec::new();
    };
    let path = join(path, "renamed_classes");
    let items = report
        .array(At {
            path: &path,
            node: &entry.node,
        })
        .unwrap_or_default();
    let mut out = Vec::with_capacity(items.len());
    for (index, node) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let at = At { path: &path, node };
        let Some(entries) = report.object(at) else {
            continue;
        };
        report.check_keys(&path, entries, &["from", "to"]);
        let from = report.required_string(at, "from", "\"from\": \"Old\"");
        let to = report.required_string(at, "to", "\"to\": \"New\"");
        let (Some(from), Some(to)) = (from, to) else {
            continue;
        };
        let fits = [&from, &to]
            .iter()
            .all(|name| check_class(report, &path, name, &node.span));
        if fits {
            out.push(Rename { from, to });
        }
    }
    out
}
