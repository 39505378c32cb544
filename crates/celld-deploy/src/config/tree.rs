//! One tree of values with positions, whatever the file's format.

use std::ops::Range;
use std::path::PathBuf;

use super::diagnostic::{Code, Diagnostic, Severity};
use super::source::Source;

mod jsonc;
mod toml;

/// Byte range in the source.
pub(crate) type Span = Range<usize>;

/// Deepest nesting of values. Wrangler's own keys need 6; `vars` may hold any JSON, and readers of
/// the manifest have limits of their own.
const DEPTH_MAX: usize = 64;

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(String),
    Array(Vec<Node>),
    Object(Vec<Entry>),
    /// A TOML date or time, which JSON has no counterpart for.
    Datetime(String),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) node: Node,
}

/// What a parser found.
pub(crate) struct Parsed {
    pub(crate) root: Node,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// File formats that Wrangler reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON with comments and trailing commas (`.json` and `.jsonc` alike, as Wrangler reads them).
    Jsonc,
    /// TOML.
    Toml,
}

impl Format {
    /// The format that a file's name promises.
    pub(crate) fn of(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "json" | "jsonc" => Some(Self::Jsonc),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }
}

/// Parses a file. The root is always an object.
pub(crate) fn parse(source: &Source, format: Format) -> Result<Parsed, Box<Diagnostic>> {
    match format {
        Format::Jsonc => jsonc::parse(source),
        Format::Toml => toml::parse(source),
    }
}

impl Node {
    /// The type's name, as messages use it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
            Value::Datetime(_) => "a TOML date",
        }
    }

    /// True for values that ask for nothing: null, and arrays and objects that hold nothing else.
    pub(crate) fn is_vacant(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::Array(items) => items.iter().all(Self::is_vacant),
            Value::Object(entries) => entries.iter().all(|entry| entry.node.is_vacant()),
            _ => false,
        }
    }

    /// The entry with this key, if this is an object that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Object(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The value as plain JSON; `Err` is the first date in it.
    pub(crate) fn to_json(&self) -> Result<serde_json::Value, &Node> {
        use serde_json::Value as Json;
        Ok(match &self.value {
            Value::Null => Json::Null,
            Value::Bool(it) => Json::Bool(*it),
            Value::Number(it) => Json::Number(it.clone()),
            Value::String(it) => Json::String(it.clone()),
            Value::Array(items) => {
                Json::Array(items.iter().map(Node::to_json).collect::<Result<_, _>>()?)
            }
            Value::Object(entries) => {
                let pairs = entries
                    .iter()
                    .map(|entry| Ok((entry.key.clone(), entry.node.to_json()?)));
                Json::Object(pairs.collect::<Result<_, _>>()?)
            }
            Value::Datetime(_) => return Err(self),
        })
    }
}

fn syntax_error(source: &Source, span: Span, message: String, help: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic {
        severity: Severity::Error,
        code: Code::Syntax,
        key: String::new(),
        message,
        help: help.to_owned(),
        file: PathBuf::from(source.path()),
        place: Some(source.place(&span)),
    })
}

fn too_deep(source: &Source, span: Span) -> Box<Diagnostic> {
    syntax_error(
        source,
        span,
        format!("values are nested more than {DEPTH_MAX} levels deep"),
        "flatten the value, or put it into a JSON module that the Worker imports",
    )
}

#[cfg(test)]
mod tests;
