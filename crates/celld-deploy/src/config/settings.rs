//! Settings of the Worker as a whole: its name, dates and flags, triggers, limits, and its build.

use std::path::{Path, PathBuf};

use super::compat;
use super::diagnostic::{Code, shown};
use super::keys;
use super::report::{At, Report, join};
use super::scope::{Found, Scopes};
use super::tree::{Node, Span};
use super::{BuildSettings, Origin};
use crate::bundle::{ModuleKind, ModuleRule};

/// Longest Worker name, in bytes: it is one segment of a bucket key.
const NAME_MAX_BYTES: usize = 200;

/// The most CPU time that one event may ask for, in ms: five minutes, as on Cloudflare.
const CPU_LIMIT_MAX_MS: u64 = 300_000;

pub(super) fn name(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Option<String> {
    let Some(found) = scopes.get("name") else {
        let help = "add `name`, e.g. \"name\": \"my-worker\"";
        report.error_without_place(Code::Missing, "name", "the Worker has no name", help);
        return None;
    };
    let given = report.string(found.at())?;
    let span = &found.entry.node.span;
    if !is_worker_name(&given) {
        let message = format!("`{}` is not a name for a Worker", shown(&given));
        let help =
            "use lower-case letters, digits, `-` and `_`; begin with a letter, a digit or `_`";
        report.error(Code::Value, &found.path, span, message, help);
        return None;
    }
    let name = match scopes.environment() {
        Some(env) if !scopes.is_own("name") => format!("{given}-{env}"),
        _ => given,
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > NAME_MAX_BYTES || !name.chars().all(fits) {
        let message = format!("`{}` is not a name for a Worker", shown(&name));
        let help = format!(
            "use letters, digits, `-` and `_`, at most {NAME_MAX_BYTES}; an environment can give its own `name`"
        );
        report.error(Code::Value, &found.path, span, message, help);
        return None;
    }
    Some(name)
}

/// Wrangler's rule, without the empty name that it leaves to its command line.
fn is_worker_name(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    text.bytes().next().is_some_and(lower) && text.bytes().all(|b| lower(b) || b == b'-')
}

pub(super) fn compatibility_date(report: &mut Report<'_>, scopes: &Scopes<'_>) -> String {
    let newest = compat::NEWEST_DATE;
    let Some(found) = scopes.get("compatibility_date") else {
        let message = format!(
            "there is no `compatibility_date`; {newest}, the newest that celld knows, is used"
        );
        let help = format!(
            "add \"compatibility_date\": \"{newest}\", so that behaviour changes only when you change it"
        );
        report.warn_without_place(Code::Compatibility, "compatibility_date", message, help);
        return newest.to_owned();
    };
    let Some(date) = report.string(found.at()) else {
        return newest.to_owned();
    };
    let span = &found.entry.node.span;
    if !compat::is_date(&date) {
        let message = format!("`{}` is not a date", shown(&date));
        report.error(
            Code::Compatibility,
            &found.path,
            span,
            message,
            format!("write it as YYYY-MM-DD, e.g. \"{newest}\""),
        );
        return newest.to_owned();
    }
    if date.as_str() > newest {
        let message = format!(
            "compatibility date {date} is later than {newest}, the newest that celld knows"
        );
        let help = format!("the Worker behaves as of {newest}; update celld, or use that date");
        report.warn(Code::Compatibility, &found.path, span, message, help);
    }
    date
}

pub(super) fn compatibility_flags(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Vec<String> {
    let Some(found) = scopes.get("compatibility_flags") else {
        return Vec::new();
    };
    let flags = report.strings(found.at()).unwrap_or_default();
    for (flag, node) in &flags {
        check_flag(report, &found.path, flag, &node.span);
    }
    let names: Vec<&str> = flags.iter().map(|(flag, _)| flag.as_str()).collect();
    for (on, off) in compat::contradictions(&names) {
        let message = format!("the flags `{on}` and `{off}` exclude each other");
        report.error(
            Code::Compatibility,
            &found.path,
            &found.entry.node.span,
            message,
            "keep one of them",
        );
    }
    flags.into_iter().map(|(flag, _)| flag).collect()
}

fn check_flag(report: &mut Report<'_>, path: &str, name: &str, span: &Span) {
    let mut refuse = |message: String, help: String| {
        report.error(Code::Compatibility, path, span, message, help)
    };
    match compat::find(name) {
        None => {
            let help = match keys::closest(name, compat::names()) {
                Some(meant) => keys::did_you_mean(meant),
                None => "remove it, or update celld if the flag is a new one".to_owned(),
            };
            refuse(
                format!("there is no compatibility flag `{}`", shown(name)),
                help,
            );
        }
        Some(flag) if flag.experimental && flag.enable == name => {
            refuse(
                format!("the compatibility flag `{name}` is experimental, and not supported"),
                "remove it".to_owned(),
            );
        }
        Some(flag) if flag.enable == name && name.starts_with("python_workers") => {
            refuse(
                "Workers in Python are not supported".to_owned(),
                "write the Worker in JavaScript or TypeScript".to_owned(),
            );
        }
        Some(_) => {}
    }
}

pub(super) fn crons(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Vec<String> {
    let Some(found) = scopes.get("triggers") else {
        return Vec::new();
    };
    let Some(entries) = report.object(found.at()) else {
        return Vec::new();
    };
    report.check_keys(&found.path, entries, &["crons", "events"]);
    if let Some(events) = found
        .entry
        .node
        .entry("events")
        .filter(|entry| !entry.node.is_vacant())
    {
        let path = join(&found.path, "events");
        report.warn(
            Code::NoEffect,
            &path,
            &events.key_span,
            "event triggers are not supported: they never fire",
            "remove the key",
        );
    }
    let Some(crons) = found
        .entry
        .node
        .entry("crons")
        .filter(|entry| !entry.node.is_vacant())
    else {
        return Vec::new();
    };
    let path = join(&found.path, "crons");
    let Some(expressions) = report.strings(At {
        path: &path,
        node: &crons.node,
    }) else {
        return Vec::new();
    };
    let message =
        "cron triggers are not run yet: nothing calls the Worker's `scheduled` handler on time";
    report.warn(
        Code::NoEffect,
        &path,
        &crons.key_span,
        message,
        "fire them by hand under `celld dev`, or call the Worker from a timer of your own",
    );
    expressions
        .into_iter()
        .map(|(expression, _)| expression)
        .collect()
}

pub(super) fn cpu_limit_ms(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Option<u64> {
    let found = scopes.get("limits")?;
    let entries = report.object(found.at())?;
    report.check_keys(&found.path, entries, &["cpu_ms", "subrequests"]);
    let entry = found
        .entry
        .node
        .entry("cpu_ms")
        .filter(|entry| !entry.node.is_vacant())?;
    let path = join(&found.path, "cpu_ms");
    let limit = report.positive(At {
        path: &path,
        node: &entry.node,
    })?;
    if limit > CPU_LIMIT_MAX_MS {
        let message =
            format!("`{path}` is {limit}, more than the largest limit of {CPU_LIMIT_MAX_MS} ms");
        report.error(
            Code::Value,
            &path,
            &entry.node.span,
            message,
            format!("give at most {CPU_LIMIT_MAX_MS}"),
        );
        return None;
    }
    Some(limit)
}

pub(super) fn build(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Option<BuildSettings> {
    let main = main_module(report, scopes);
    let mut settings = BuildSettings {
        no_bundle: boolean(report, scopes, "no_bundle").unwrap_or_default(),
        find_additional_modules: boolean(report, scopes, "find_additional_modules"),
        base_dir: string(report, scopes, "base_dir").map(|dir| report.resolve(&dir)),
        rules: rules(report, scopes),
        define: string_map(report, scopes, "define").into_iter().collect(),
        alias: string_map(report, scopes, "alias").into_iter().collect(),
        tsconfig: string(report, scopes, "tsconfig").map(|file| report.resolve(&file)),
        jsx_factory: string(report, scopes, "jsx_factory"),
        jsx_fragment: string(report, scopes, "jsx_fragment"),
        minify: boolean(report, scopes, "minify").unwrap_or_default(),
        command: build_command(report, scopes),
        ..BuildSettings::default()
    };
    // Accepted, as the bundler keeps names in any case; only the type is checked.
    boolean(report, scopes, "keep_names");
    (settings.main, settings.main_origin) = main?;
    Some(settings)
}

fn main_module(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Option<(PathBuf, Origin)> {
    let Some(found) = scopes.get("main") else {
        // Projects of these kinds have no `main`, and are refused for what they are.
        let other_kind = ["pages_build_output_dir", "site"]
            .iter()
            .any(|key| scopes.get(key).is_some());
        let assets = scopes.get("assets");
        if assets.is_some_and(|assets| !assets.entry.node.is_vacant()) {
            return Some((PathBuf::new(), Origin::default()));
        }
        if !other_kind {
            let help =
                "add the file that holds the Worker's entry, e.g. \"main\": \"src/index.ts\"";
            match scopes.section_span() {
                Some((path, span)) => report.error(
                    Code::Missing,
                    &path,
                    &span,
                    "`main` is missing, here and at the top level",
                    help,
                ),
                None => {
                    report.error_without_place(Code::Missing, "main", "`main` is missing", help)
                }
            }
        }
        return None;
    };
    let main = report.string(found.at())?;
    let span = &found.entry.node.span;
    let mut refuse =
        |message: &str, help: &str| report.error(Code::Value, &found.path, span, message, help);
    match Path::new(&main).extension().and_then(|it| it.to_str()) {
        _ if main.is_empty() || main.contains('\0') => refuse(
            "`main` is not a path",
            "name the file that holds the Worker's entry",
        ),
        Some("py") => refuse(
            "Workers in Python are not supported",
            "write the Worker in JavaScript or TypeScript",
        ),
        _ => return Some((report.resolve(&main), report.origin(&found.path, span))),
    }
    None
}

fn build_command(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Option<String> {
    let found = scopes.get("build")?;
    let entries = report.object(found.at())?;
    report.check_keys(
        &found.path,
        entries,
        &["command", "cwd", "watch_dir", "upload"],
    );
    let command = report
        .optional_string(found.at(), "command")
        .filter(|command| !command.is_empty())?;
    let message = "celld does not run `build.command`";
    report.warn(
        Code::NoEffect,
        &found.path,
        &found.entry.key_span,
        message,
        format!("run it yourself first: {}", shown(&command)),
    );
    Some(command)
}

fn rules(report: &mut Report<'_>, scopes: &Scopes<'_>) -> Vec<ModuleRule> {
    let Some(found) = scopes.get("rules") else {
        return Vec::new();
    };
    let items = report.array(found.at()).unwrap_or_default();
    let rules = items.iter().enumerate();
    rules
        .filter_map(|(index, node)| rule(report, &format!("{}[{index}]", found.path), node))
        .collect()
}

fn rule(report: &mut Report<'_>, path: &str, node: &Node) -> Option<ModuleRule> {
    let entries = report.object(At { path, node })?;
    report.check_keys(path, entries, &["type", "globs", "fallthrough"]);
    let kind = rule_kind(report, path, node);
    let globs_path = join(path, "globs");
    let globs = match node.entry("globs") {
        Some(entry) => report.strings(At {
            path: &globs_path,
            node: &entry.node,
        }),
        None => {
            report.error(
                Code::Missing,
                path,
                &node.span,
                format!("`{path}` has no `globs`"),
                "add `globs`, e.g. [\"**/*.md\"]",
            );
            None
        }
    };
    for (glob, at) in globs.iter().flatten() {
        if let Err(error) = globset::Glob::new(glob) {
            let message = format!(
                "`{}` is not a glob: {}",
                shown(glob),
                shown(&error.kind().to_string())
            );
            report.error(
                Code::Value,
                &globs_path,
                &at.span,
                message,
                "write a pattern like **/*.md",
            );
        }
    }
    let fallthrough_path = join(path, "fallthrough");
    let fallthrough = node
        .entry("fallthrough")
        .filter(|entry| !entry.node.is_vacant())
        .and_then(|entry| {
            report.boolean(At {
                path: &fallthrough_path,
                node: &entry.node,
            })
        });
    Some(ModuleRule {
        kind: kind?,
        globs: globs?.into_iter().map(|(glob, _)| glob).collect(),
        fallthrough,
    })
}

/// The kinds that a rule may give to files.
const KINDS: [ModuleKind; 6] = [
    ModuleKind::EsModule,
    ModuleKind::CommonJs,
    ModuleKind::CompiledWasm,
    ModuleKind::Text,
    ModuleKind::Data,
    ModuleKind::Json,
];

fn rule_kind(report: &mut Report<'_>, path: &str, node: &Node) -> Option<ModuleKind> {
    let name = report.required_string(At { path, node }, "type", "\"Text\"")?;
    if let Some(kind) = KINDS.iter().find(|kind| kind.rule_type() == name) {
        return Some(*kind);
    }
    let type_path = join(path, "type");
    let span = node
        .entry("type")
        .map_or(&node.span, |entry| &entry.node.span);
    if name.starts_with("Python") {
        report.error(
            Code::Unsupported,
            &type_path,
            span,
            "modules in Python are not supported",
            "remove the rule",
        );
        return None;
    }
    let help = match keys::closest(&name, KINDS.iter().map(|kind| kind.rule_type())) {
        Some(meant) => keys::did_you_mean(meant),
        None => "use one of ESModule, CommonJS, CompiledWasm, Text, Data, JSON".to_owned(),
    };
    report.error(
        Code::Value,
        &type_path,
        span,
        format!("`{}` is not a kind of module", shown(&name)),
        help,
    );
    None
}

fn boolean(report: &mut Report<'_>, scopes: &Scopes<'_>, key: &str) -> Option<bool> {
    let found: Found<'_> = scopes.get(key)?;
    report.boolean(found.at())
}

fn string(report: &mut Report<'_>, scopes: &Scopes<'_>, key: &str) -> Option<String> {
    let found = scopes.get(key)?;
    report.string(found.at())
}

fn string_map(report: &mut Report<'_>, scopes: &Scopes<'_>, key: &str) -> Vec<(String, String)> {
    let Some(found) = scopes.get(key) else {
        return Vec::new();
    };
    report.string_map(found.at()).unwrap_or_default()
}
