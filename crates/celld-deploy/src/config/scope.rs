//! Which value of a key counts: the environment's, or the top level's.

use super::diagnostic::{Code, shown};
use super::keys::{self, KEYS, Key, Scope, Treatment};
use super::report::{At, Report, join};
use super::tree::{Entry, Node, Span, Value};

/// The top level and the environment that was asked for.
pub(super) struct Scopes<'a> {
    top: &'a Node,
    name: Option<&'a str>,
    /// The section of that environment. Without one, the top level stands in for it, as in Wrangler.
    section: Option<&'a Node>,
}

/// A value that counts.
pub(super) struct Found<'a> {
    /// Path of the key.
    pub(super) path: String,
    /// The key and its value.
    pub(super) entry: &'a Entry,
}

impl<'a> Found<'a> {
    pub(super) fn at(&self) -> At<'_> {
        At {
            path: &self.path,
            node: &self.entry.node,
        }
    }
}

impl<'a> Scopes<'a> {
    pub(super) fn new(report: &mut Report<'_>, top: &'a Node, env: Option<&'a str>) -> Self {
        let section = env.and_then(|name| find_section(report, top, name));
        Self {
            top,
            name: env,
            section,
        }
    }

    /// The environment that was asked for.
    pub(super) fn environment(&self) -> Option<&'a str> {
        self.name
    }

    /// True when the value is the environment's own, not the top level's.
    pub(super) fn is_own(&self, key: &str) -> bool {
        self.section
            .is_some_and(|section| present(section, key).is_some())
    }

    /// The value of a key that counts. Null counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<Found<'a>> {
        let scope = keys::find(key).map_or(Scope::TopLevel, |key| key.scope);
        if let (Some(section), Some(name), true) =
            (self.section, self.name, scope != Scope::TopLevel)
        {
            if let Some(entry) = present(section, key) {
                return Some(Found {
                    path: format!("env.{name}.{key}"),
                    entry,
                });
            }
            if scope == Scope::PerEnvironment {
                return None;
            }
        }
        present(self.top, key).map(|entry| Found {
            path: key.to_owned(),
            entry,
        })
    }

    /// Where to point when a key is missing: the environment's section or the file as a whole.
    pub(super) fn section_span(&self) -> Option<(String, Span)> {
        let name = self.name?;
        let section = self.section?;
        Some((format!("env.{name}"), section.span.clone()))
    }

    /// Reports keys that are unknown, misplaced, without effect, not inherited or not supported.
    pub(super) fn check_keys(&self, report: &mut Report<'_>) {
        check_section(report, "", self.top);
        if let (Some(section), Some(name)) = (self.section, self.name) {
            let path = format!("env.{name}");
            check_section(report, &path, section);
            self.warn_not_inherited(report, &path, section);
        }
        for key in KEYS {
            if let Some(found) = self.get(key.name) {
                check_treatment(report, key, &found);
            }
        }
    }

    fn warn_not_inherited(&self, report: &mut Report<'_>, path: &str, section: &Node) {
        for key in KEYS.iter().filter(|key| key.scope == Scope::PerEnvironment) {
            let Some(top) = present(self.top, key.name).filter(|top| !top.node.is_vacant()) else {
                continue;
            };
            match present(section, key.name) {
                None => report.warn(
                    Code::NotInherited,
                    key.name,
                    &top.key_span,
                    format!(
                        "`{}` is given at the top level but not in `{}`, which does not inherit it",
                        key.name,
                        shown(path)
                    ),
                    format!(
                        "repeat `{}` in `{}`, or write it there as empty",
                        key.name,
                        shown(path)
                    ),
                ),
                Some(own) if matches!(key.name, "vars" | "define") && !own.node.is_vacant() => {
                    warn_missing_names(report, key.name, top, own, path)
                }
                Some(_) => {}
            }
        }
    }
}

/// The entry of a key whose value is not null.
fn present<'a>(section: &'a Node, key: &str) -> Option<&'a Entry> {
    section
        .entry(key)
        .filter(|entry| !matches!(entry.node.value, Value::Null))
}

fn find_section<'a>(report: &mut Report<'_>, top: &'a Node, name: &str) -> Option<&'a Node> {
    let Some(env) = present(top, "env") else {
        let message = format!(
            "there is no environment `{}`: the configuration has no `env`; the top level is used",
            shown(name)
        );
        report.warn_without_place(
            Code::Missing,
            "env",
            message,
            format!("add `env.{}`, or ask for no environment", shown(name)),
        );
        return None;
    };
    let environments = report.object(At {
        path: "env",
        node: &env.node,
    })?;
    let Some(section) = env.node.entry(name) else {
        let names: Vec<_> = environments
            .iter()
            .map(|entry| entry.key.as_str())
            .collect();
        let help = match keys::closest(name, names.iter().copied()) {
            Some(meant) => keys::did_you_mean(meant),
            None if names.is_empty() => format!("add `env.{}`", shown(name)),
            None => format!(
                "the configured environments are: {}",
                shown(&names.join(", "))
            ),
        };
        report.error(
            Code::Missing,
            "env",
            &env.key_span,
            format!("there is no environment `{}`", shown(name)),
            help,
        );
        return None;
    };
    let path = format!("env.{name}");
    report.object(At {
        path: &path,
        node: &section.node,
    })?;
    Some(&section.node)
}

fn check_section(report: &mut Report<'_>, path: &str, section: &Node) {
    let Value::Object(entries) = &section.value else {
        return;
    };
    let in_environment = !path.is_empty();
    for entry in entries {
        match keys::find(&entry.key) {
            Some(key) if in_environment && key.scope == Scope::TopLevel => report.warn(
                Code::NoEffect,
                &join(path, &entry.key),
                &entry.key_span,
                format!("`{}` has no effect in an environment", key.name),
                "move it to the top level",
            ),
            Some(_) => {}
            None => {
                let missing = KEYS
                    .iter()
                    .map(|key| key.name)
                    .filter(|name| section.entry(name).is_none());
                report.unknown_key(path, entry, keys::closest(&entry.key, missing));
            }
        }
    }
}

fn check_treatment(report: &mut Report<'_>, key: &Key, found: &Found<'_>) {
    if found.entry.node.is_vacant() {
        return;
    }
    let span = &found.entry.key_span;
    match key.treatment {
        Treatment::Supported | Treatment::Ignored => {}
        Treatment::NoEffect(what) => report.warn(
            Code::NoEffect,
            &found.path,
            span,
            what,
            "remove the key if that is what you want",
        ),
        Treatment::Refused { what, help } => {
            let message = format!(
                "`{}`: this version of celld does not support {what}",
                key.name
            );
            report.error(Code::Unsupported, &found.path, span, message, help);
        }
    }
}

/// Wrangler names the variables too that an environment with `vars` of its own lacks.
fn warn_missing_names(report: &mut Report<'_>, key: &str, top: &Entry, own: &Entry, path: &str) {
    let Value::Object(entries) = &top.node.value else {
        return;
    };
    for entry in entries
        .iter()
        .filter(|entry| own.node.entry(&entry.key).is_none())
    {
        let name = shown(&entry.key);
        report.warn(
            Code::NotInherited,
            &join(key, &entry.key),
            &entry.key_span,
            format!("`{key}.{name}` is given at the top level but not in `{}`, which does not inherit it", shown(path)),
            format!("add `{name}` to `{}.{key}` if the Worker reads it", shown(path)),
        );
    }
}
