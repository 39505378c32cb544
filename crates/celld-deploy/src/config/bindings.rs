//! What appears in `env`: variables, secrets, services. Names are checked across all bindings.

use std::collections::HashMap;

use super::diagnostic::{Code, Diagnostic, Severity, shown};
use super::report::{At, Report, join};
use super::scope::Scopes;
use super::tree::{Node, Span, Value};
use super::{ServiceBinding, VarValue};

pub(super) fn vars(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Vec<(String, VarValue)> {
    let Some(found) = scopes.get("vars") else {
        return Vec::new();
    };
    let entries = report.object(found.at()).unwrap_or_default();
    let mut out = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Value::String(text) = &entry.node.value {
            out.push((entry.key.clone(), VarValue::Text(text.clone())));
            continue;
        }
        match entry.node.to_json() {
            Ok(json) => out.push((entry.key.clone(), VarValue::Json(json))),
            Err(date) => {
                let path = join(&found.path, &entry.key);
                report.wrong_type(
                    At {
                        path: &path,
                        node: date,
                    },
                    "a string or any JSON value",
                );
            }
        }
    }
    out
}

pub(super) fn required_secrets(
    report: &mut Report<'_>,
    scopes: &Scopes<'_>,
) -> Option<Vec<String>> {
    let found = scopes.get("secrets")?;
    let entries = report.object(found.at())?;
    report.check_keys(&found.path, entries, &["required"]);
    let path = join(&found.path, "required");
    let names = found
        .entry
        .node
        .entry("required")
        .and_then(|entry| {
            report.strings(At {
                path: &path,
                node: &entry.node,
            })
        })
        .unwrap_or_default();
    Some(names.into_iter().map(|(name, _)| name).collect())
}

/// What is fine under `celld dev`, which has `.dev.vars`, and nowhere else.
pub(super) fn deploy_errors(
    report: &Report<'_>,
    scopes: &Scopes<'_>,
    required: Option<&[String]>,
) -> Vec<Diagnostic> {
    let (Some(found), Some(required)) = (scopes.get("secrets"), required) else {
        return Vec::new();
    };
    if required.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "the Worker requires secrets ({}), which this version of celld cannot store",
        shown(&required.join(", "))
    );
    let help = "give them as `vars` if the bucket is private enough for them, and remove `secrets`";
    let finding = report.finding(
        Severity::Error,
        Code::Unsupported,
        &found.path,
        &found.entry.key_span,
        message,
        help.to_owned(),
    );
    vec![finding]
}

pub(super) fn services(
    report: &mut Report<'_>,
    scopes: &Scopes<'_>,
    worker: Option<&str>,
) -> Vec<ServiceBinding> {
    let Some(found) = scopes.get("services") else {
        return Vec::new();
    };
    let items = report.array(found.at()).unwrap_or_default();
    let services = items.iter().enumerate();
    services
        .filter_map(|(index, node)| {
            service(
                report,
                scopes,
                worker,
                &format!("{}[{index}]", found.path),
                node,
            )
        })
        .collect()
}

fn service(
    report: &mut Report<'_>,
    scopes: &Scopes<'_>,
    worker: Option<&str>,
    path: &str,
    node: &Node,
) -> Option<ServiceBinding> {
    let at = At { path, node };
    let entries = report.object(at)?;
    let known = [
        "binding",
        "service",
        "entrypoint",
        "props",
        "environment",
        "remote",
        "dev",
        "cross_account_grant",
    ];
    report.check_keys(path, entries, &known);
    let name = report.required_string(at, "binding", "\"binding\": \"SELF\"");
    let target = report.required_string(at, "service", "\"service\": \"my-worker\"");
    let entrypoint = report.optional_string(at, "entrypoint");
    let environment = report.optional_string(at, "environment");
    let props = props(report, path, node);
    refuse_remote(report, at);
    let (name, target) = (name?, target?);
    let is_self = is_this_worker(&target, environment.as_deref(), scopes, worker?);
    if !is_self {
        let path = join(path, "service");
        let span = node
            .entry("service")
            .map_or(&node.span, |entry| &entry.node.span);
        let message = format!(
            "`{}` is another Worker: service bindings between Workers are not supported by this version of celld",
            shown(&target)
        );
        let help = "bind an entrypoint of this Worker by its own name, or reach the other one by `fetch` and its URL";
        report.error(Code::Unsupported, &path, span, message, help);
        return None;
    }
    Some(ServiceBinding {
        name,
        entrypoint,
        props,
    })
}

fn props(report: &mut Report<'_>, path: &str, node: &Node) -> Option<serde_json::Value> {
    let entry = node
        .entry("props")
        .filter(|entry| !matches!(entry.node.value, Value::Null))?;
    let path = join(path, "props");
    report.object(At {
        path: &path,
        node: &entry.node,
    })?;
    entry
        .node
        .to_json()
        .map_err(|date| {
            report.wrong_type(
                At {
                    path: &path,
                    node: date,
                },
                "JSON",
            )
        })
        .ok()
}

/// True when a Worker, and optionally an environment of it, mean the Worker that is read.
pub(super) fn is_this_worker(
    target: &str,
    environment: Option<&str>,
    scopes: &Scopes<'_>,
    worker: &str,
) -> bool {
    match environment {
        None => target == worker,
        Some(environment) => {
            worker == format!("{target}-{environment}")
                || (target == worker && scopes.environment() == Some(environment))
        }
    }
}

/// `remote: true` asks for Cloudflare's own service during development.
pub(super) fn refuse_remote(report: &mut Report<'_>, at: At<'_>) {
    let Some(entry) = at.node.entry("remote") else {
        return;
    };
    let path = join(at.path, "remote");
    if report.boolean(At {
        path: &path,
        node: &entry.node,
    }) == Some(true)
    {
        let message = "remote bindings are not supported: celld does not talk to Cloudflare";
        report.error(
            Code::Unsupported,
            &path,
            &entry.key_span,
            message,
            "remove `remote`",
        );
    }
}

/// Reports names that two bindings share: only one of them could appear in `env`.
pub(super) fn check_unique(report: &mut Report<'_>, scopes: &Scopes<'_>) {
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut check = |name: &str, path: String, span: &Span| {
        if let Some(first) = seen.insert(name.to_owned(), path.clone()) {
            let message = format!(
                "two bindings are called `{}`: this one and `{}`",
                shown(name),
                shown(&first)
            );
            report.error(Code::Conflict, &path, span, message, "rename one of them");
        }
    };
    if let Some(found) = scopes.get("vars")
        && let Value::Object(entries) = &found.entry.node.value
    {
        entries
            .iter()
            .for_each(|entry| check(&entry.key, join(&found.path, &entry.key), &entry.key_span));
    }
    if let Some(found) = scopes.get("assets")
        && let Some(entry) = found.entry.node.entry("binding")
        && let Value::String(name) = &entry.node.value
    {
        check(name, join(&found.path, "binding"), &entry.node.span);
    }
    let durable = scopes.get("durable_objects").and_then(|found| {
        Some((
            join(&found.path, "bindings"),
            found.entry.node.entry("bindings")?,
        ))
    });
    let services = scopes
        .get("services")
        .map(|found| (found.path, found.entry));
    for (list, name_key) in [(durable, "name"), (services, "binding")] {
        let Some((path, entry)) = list else { continue };
        let Value::Array(items) = &entry.node.value else {
            continue;
        };
        for (index, item) in items.iter().enumerate() {
            if let Some(name) = item.entry(name_key)
                && let Value::String(text) = &name.node.value
            {
                check(text, format!("{path}[{index}].{name_key}"), &name.node.span);
            }
        }
    }
}
