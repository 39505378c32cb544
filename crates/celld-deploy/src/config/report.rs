//! Collects findings while a configuration is read, and reads values of a wanted type.

use std::path::{Path, PathBuf};

use super::Origin;
use super::diagnostic::{Code, ConfigErrors, Diagnostic, Severity, Warning, shown};
use super::keys;
use super::source::Source;
use super::tree::{Entry, Node, Span, Value};

/// A value with the path of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) path: &'a str,
    pub(super) node: &'a Node,
}

/// All findings about one file.
pub(super) struct Report<'a> {
    source: &'a Source,
    errors: Vec<(usize, Diagnostic)>,
    warnings: Vec<(usize, Diagnostic)>,
}

impl<'a> Report<'a> {
    pub(super) fn new(source: &'a Source, warnings: Vec<Diagnostic>) -> Self {
        let warnings = warnings.into_iter().map(|warning| (0, warning)).collect();
        Self {
            source,
            errors: Vec::new(),
            warnings,
        }
    }

    /// A finding about a place, for keeping.
    pub(super) fn finding(
        &self,
        severity: Severity,
        code: Code,
        path: &str,
        span: &Span,
        message: String,
        help: String,
    ) -> Diagnostic {
        Diagnostic {
            severity,
            code,
            key: shown_path(path),
            message,
            help,
            file: self.source.path().to_owned(),
            place: Some(self.source.place(span)),
        }
    }

    pub(super) fn error(
        &mut self,
        code: Code,
        path: &str,
        span: &Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let finding = self.finding(
            Severity::Error,
            code,
            path,
            span,
            message.into(),
            help.into(),
        );
        self.errors.push((span.start, finding));
    }

    pub(super) fn warn(
        &mut self,
        code: Code,
        path: &str,
        span: &Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let finding = self.finding(
            Severity::Warning,
            code,
            path,
            span,
            message.into(),
            help.into(),
        );
        self.warnings.push((span.start, finding));
    }

    /// An error about the file as a whole.
    pub(super) fn error_without_place(
        &mut self,
        code: Code,
        path: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let mut finding = self.finding(
            Severity::Error,
            code,
            path,
            &(0..0),
            message.into(),
            help.into(),
        );
        finding.place = None;
        self.errors.push((0, finding));
    }

    /// A warning about the file as a whole.
    pub(super) fn warn_without_place(
        &mut self,
        code: Code,
        path: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let mut finding = self.finding(
            Severity::Warning,
            code,
            path,
            &(0..0),
            message.into(),
            help.into(),
        );
        finding.place = None;
        self.warnings.push((0, finding));
    }

    /// A place, for findings that come up later.
    pub(super) fn origin(&self, path: &str, span: &Span) -> Origin {
        Origin {
            file: self.source.path().to_owned(),
            key: shown_path(path),
            place: Some(self.source.place(span)),
        }
    }

    /// A path that is written relative to the configuration file.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        self.source
            .path()
            .parent()
            .unwrap_or(Path::new(""))
            .join(path)
    }

    /// The warnings, or everything when there are errors. Findings are ordered by place.
    pub(super) fn finish(mut self) -> Result<Vec<Warning>, ConfigErrors> {
        self.errors.sort_by_key(|(at, _)| *at);
        self.warnings.sort_by_key(|(at, _)| *at);
        let warnings = self
            .warnings
            .into_iter()
            .map(|(_, finding)| Warning(finding))
            .collect();
        if self.errors.is_empty() {
            return Ok(warnings);
        }
        let errors = self
            .errors
            .into_iter()
            .map(|(_, finding)| finding)
            .collect();
        Err(ConfigErrors { errors, warnings })
    }

    pub(super) fn wrong_type(&mut self, at: At<'_>, expected: &str) {
        let found = at.node.type_name();
        let message = format!(
            "`{}` must be {expected}, found {found}",
            shown_path(at.path)
        );
        let help = match &at.node.value {
            Value::Datetime(text) => format!("write it as a string: \"{}\"", shown(text)),
            _ => format!("give {expected}"),
        };
        self.error(Code::Type, at.path, &at.node.span.clone(), message, help);
    }

    pub(super) fn string(&mut self, at: At<'_>) -> Option<String> {
        match &at.node.value {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.wrong_type(at, "a string");
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, at: At<'_>) -> Option<bool> {
        match at.node.value {
            Value::Bool(it) => Some(it),
            _ => {
                self.wrong_type(at, "a boolean");
                None
            }
        }
    }

    /// A whole number of at least 1.
    pub(super) fn positive(&mut self, at: At<'_>) -> Option<u64> {
        let number = match &at.node.value {
            Value::Number(number) => number,
            _ => {
                self.wrong_type(at, "a number");
                return None;
            }
        };
        // 5e1 and 50.0 are as whole as 50.
        let whole = number.as_u64().or_else(|| {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && float >= 0.0 && float <= 2f64.powi(53)).then_some(float as u64)
        });
        match whole {
            Some(whole) if whole > 0 => Some(whole),
            _ => {
                let message = format!(
                    "`{}` must be a whole number of at least 1, found {number}",
                    shown_path(at.path)
                );
                self.error(
                    Code::Value,
                    at.path,
                    &at.node.span,
                    message,
                    "give a whole number",
                );
                None
            }
        }
    }

    pub(super) fn array<'n>(&mut self, at: At<'n>) -> Option<&'n [Node]> {
        match &at.node.value {
            Value::Array(items) => Some(items),
            _ => {
                self.wrong_type(at, "an array");
                None
            }
        }
    }

    pub(super) fn object<'n>(&mut self, at: At<'n>) -> Option<&'n [Entry]> {
        match &at.node.value {
            Value::Object(entries) => Some(entries),
            _ => {
                self.wrong_type(at, "an object");
                None
            }
        }
    }

    /// An array of strings, each with its node; wrong elements are reported and left out.
    pub(super) fn strings<'n>(&mut self, at: At<'n>) -> Option<Vec<(String, &'n Node)>> {
        let items = self.array(at)?;
        let mut out = Vec::with_capacity(items.len());
        for (index, node) in items.iter().enumerate() {
            let path = format!("{}[{index}]", at.path);
            if let Some(text) = self.string(At { path: &path, node }) {
                out.push((text, node));
            }
        }
        Some(out)
    }

    /// A map of strings.
    pub(super) fn string_map(&mut self, at: At<'_>) -> Option<Vec<(String, String)>> {
        let entries = self.object(at)?;
        let mut out = Vec::with_capacity(entries.len());
        for entry in entries {
            let path = format!("{}.{}", at.path, entry.key);
            if let Some(text) = self.string(At {
                path: &path,
                node: &entry.node,
            }) {
                out.push((entry.key.clone(), text));
            }
        }
        Some(out)
    }

    /// Reports keys of an object that are none of `known`.
    pub(super) fn check_keys(&mut self, path: &str, entries: &[Entry], known: &[&str]) {
        for entry in entries
            .iter()
            .filter(|entry| !known.contains(&entry.key.as_str()))
        {
            let missing = |candidate: &&&str| !entries.iter().any(|other| other.key == **candidate);
            let candidates = known.iter().filter(missing).copied();
            self.unknown_key(path, entry, keys::closest(&entry.key, candidates));
        }
    }

    /// Reports a key that Wrangler does not know. One that looks like a slip is an error: to ignore
    /// it would quietly do something else than was asked.
    pub(super) fn unknown_key(&mut self, parent: &str, entry: &Entry, meant: Option<&str>) {
        let path = join(parent, &entry.key);
        let message = format!(
            "`{}` is not a key that Wrangler knows here",
            shown(&entry.key)
        );
        match meant {
            Some(meant) => self.error(
                Code::Misspelt,
                &path,
                &entry.key_span,
                message,
                keys::did_you_mean(meant),
            ),
            None => self.warn(
                Code::Unknown,
                &path,
                &entry.key_span,
                message,
                "it is ignored; remove it if it has no other reader",
            ),
        }
    }

    /// The string under `key`, which must be there.
    pub(super) fn required_string(
        &mut self,
        at: At<'_>,
        key: &str,
        example: &str,
    ) -> Option<String> {
        match at.node.entry(key) {
            Some(entry) => {
                let path = join(at.path, key);
                self.non_empty_string(
                    At {
                        path: &path,
                        node: &entry.node,
                    },
                    example,
                )
            }
            None => {
                let message = format!("`{}` has no `{key}`", shown_path(at.path));
                self.error(
                    Code::Missing,
                    at.path,
                    &at.node.span,
                    message,
                    format!("add `{key}`, e.g. {example}"),
                );
                None
            }
        }
    }

    /// The string under `key`, if it is there and not null.
    pub(super) fn optional_string(&mut self, at: At<'_>, key: &str) -> Option<String> {
        let entry = at
            .node
            .entry(key)
            .filter(|entry| !matches!(entry.node.value, Value::Null))?;
        let path = join(at.path, key);
        self.string(At {
            path: &path,
            node: &entry.node,
        })
    }

    fn non_empty_string(&mut self, at: At<'_>, example: &str) -> Option<String> {
        let text = self.string(at)?;
        if text.is_empty() {
            let message = format!("`{}` is empty", shown_path(at.path));
            self.error(
                Code::Value,
                at.path,
                &at.node.span,
                message,
                format!("give a name, e.g. {example}"),
            );
            return None;
        }
        Some(text)
    }
}

/// The path of `key` within `parent`.
pub(super) fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}

/// A key path that is safe to print.
pub(super) fn shown_path(path: &str) -> String {
    shown(path)
}
