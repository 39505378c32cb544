//! Findings about configuration and sources: with colour for people, as JSON for programs.

use std::fmt::Write;

use anstyle::Style;
use celld_deploy::bundle::{self, BundleErrors};
use celld_deploy::config::{self, ConfigErrors, Warning};
use celld_deploy::upload::{FetchError, UploadError};
use celld_node::StartError;
use serde_json::{Value, json};

use crate::errors::{self, Failure};
use crate::output::Output;
use crate::table::{BAD, HEAD, NAME, WARN, paint};

/// A configuration that cannot be used.
pub fn config_failure(errors: &ConfigErrors) -> Failure {
    let migrations = errors
        .errors
        .iter()
        .all(|error| error.code == config::Code::Migration);
    findings(
        if migrations {
            errors::MIGRATIONS
        } else {
            errors::CONFIG
        },
        "the project's configuration cannot be used",
        errors
            .errors
            .iter()
            .map(|error| colour(&error.to_string(), BAD)),
        errors.errors.iter().map(config_json),
    )
}

/// A project that does not build.
pub fn build_failure(errors: &BundleErrors) -> Failure {
    findings(
        errors::BUILD,
        "the project does not build",
        errors
            .errors
            .iter()
            .map(|error| colour(&error.to_string(), BAD)),
        errors.errors.iter().map(bundle_json),
    )
}

fn findings(
    kind: &'static errors::Kind,
    what: &str,
    rendered: impl Iterator<Item = String>,
    values: impl Iterator<Item = Value>,
) -> Failure {
    let rendered: Vec<String> = rendered.collect();
    let count = match rendered.len() {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    };
    Failure {
        rendered: Some(rendered.join("\n\n")),
        findings: values.collect(),
        ..Failure::new(kind, format!("{what}: {count}"))
    }
}

/// An upload that did not happen.
pub fn upload_failure(error: UploadError) -> Failure {
    let kind = match &error {
        UploadError::Migrations(errors) => return config_failure(errors),
        UploadError::Program(_) => errors::PROGRAM,
        UploadError::Bucket(_) | UploadError::Fetch(FetchError::Bucket(_)) => errors::BUCKET,
        UploadError::Fetch(_) => errors::DAMAGED,
        UploadError::Unknown(_) | UploadError::Contended { .. } => errors::CONTENDED,
    };
    Failure::new(kind, error.to_string())
}

/// A deployment in the bucket that cannot be used.
pub fn fetch_failure(error: &FetchError) -> Failure {
    let kind = match error {
        FetchError::Bucket(celld_bucket::BucketError::Damaged { .. }) => errors::DAMAGED,
        FetchError::Bucket(_) => errors::BUCKET,
        _ => errors::DAMAGED,
    };
    Failure::new(kind, error.to_string())
}

/// A node that does not start.
pub fn start_failure(error: &StartError) -> Failure {
    match error {
        StartError::Log(celld_log::OpenError::Lock(busy @ celld_log::LockError::Busy { .. })) => {
            Failure::new(errors::IN_USE, format!("the data is in use: {busy}"))
        }
        StartError::ScratchBusy { .. } => Failure::new(errors::IN_USE, error.to_string()),
        _ => Failure::new(errors::NODE_START, error.to_string()),
    }
}

/// Prints warnings about the configuration.
pub fn config_warnings(output: &Output, warnings: &[Warning]) {
    for warning in warnings {
        output.warning(
            &colour(&warning.to_string(), WARN),
            &config_json(&warning.0),
        );
    }
}

/// Prints warnings about the sources.
pub fn bundle_warnings(output: &Output, warnings: &[bundle::Diagnostic]) {
    for warning in warnings {
        output.warning(&colour(&warning.to_string(), WARN), &bundle_json(warning));
    }
}

fn config_json(finding: &config::Diagnostic) -> Value {
    json!({
        "severity": finding.severity.as_str(),
        "code": finding.code.as_str(),
        "message": finding.message,
        "help": finding.help,
        "key": finding.key,
        "file": finding.file,
        "line": finding.place.as_ref().map(|place| place.line),
        "column": finding.place.as_ref().map(|place| place.column),
    })
}

fn bundle_json(finding: &bundle::Diagnostic) -> Value {
    serde_json::to_value(finding).unwrap_or_else(|_| json!({ "message": finding.message }))
}

/// Colours a finding in the form that both kinds print: headline, place, gutter, caret, help.
fn colour(plain: &str, severity: Style) -> String {
    let mut out = String::new();
    for (index, line) in plain.lines().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let _ = match (index, split(line)) {
            (0, _) => match line.split_once(": ") {
                Some((word, rest)) => {
                    write!(out, "{}: {}", paint(severity, word), paint(HEAD, rest))
                }
                None => write!(out, "{}", paint(severity, line)),
            },
            (_, Some((gutter, rest))) if is_caret(rest) => {
                write!(out, "{}{}", paint(NAME, gutter), paint(severity, rest))
            }
            (_, Some((gutter, rest))) => write!(out, "{}{rest}", paint(NAME, gutter)),
            (_, None) => write!(out, "{line}"),
        };
    }
    out
}

/// Splits off the gutter (`12 |`, `-->`, `= help:`), if the line has one.
fn split(line: &str) -> Option<(&str, &str)> {
    let body = line.trim_start();
    let indent = line.len() - body.len();
    if body.starts_with("--> ") {
        return Some(line.split_at(indent + 3));
    }
    if body.starts_with("= ") {
        return body.find(':').map(|end| line.split_at(indent + end + 1));
    }
    let bar = line.find('|')?;
    line[..bar]
        .trim()
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| line.split_at(bar + 1))
}

fn is_caret(rest: &str) -> bool {
    rest.trim_start().starts_with('^')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_changes_nothing_but_colour() {
        let plain = "error: cannot find \"missing\"\n --> src/index.ts:3:16\n  |\n3 |  import b | c;\n  |    ^^^ not found\n  = help: run `npm install`\n          or not";
        let coloured = colour(plain, BAD);
        assert_ne!(coloured, plain);
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }

    #[test]
    fn the_gutter_is_told_from_code() {
        assert_eq!(split("12 | a | b"), Some(("12 |", " a | b")));
        assert_eq!(split("   | ^^"), Some(("   |", " ^^")));
        assert_eq!(split("  a | b"), None);
        assert_eq!(split("  = help: x"), Some(("  = help:", " x")));
    }
}
