//! Reads JSON with comments, as Wrangler does: comments and trailing commas, nothing else beyond JSON.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use super::{DEPTH_MAX, Entry, Node, Parsed, Span, Value, syntax_error, too_deep};
use crate::config::diagnostic::{Code, Diagnostic, Severity, shown};
use crate::config::source::Source;

pub(super) fn parse(source: &Source) -> Result<Parsed, Box<Diagnostic>> {
    let collect = CollectOptions {
        comments: CommentCollectionStrategy::Off,
        tokens: false,
    };
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(source.text(), &collect, &options).map_err(|error| {
        syntax_error(
            source,
            error.range().start..error.range().end,
            format!("this is not valid JSON: {}", lower_first(&error.kind().to_string())),
            "correct the text; comments and trailing commas are allowed, single quotes and bare keys are not",
        )
    })?;
    let mut reader = Reader {
        source,
        warnings: Vec::new(),
    };
    let root = match parsed.value {
        Some(value) => reader.node(value, 0)?,
        None => {
            return Err(syntax_error(
                source,
                0..0,
                "the file holds no configuration".into(),
                "write an object with at least `name`, `main` and `compatibility_date`",
            ));
        }
    };
    if !matches!(root.value, Value::Object(_)) {
        return Err(syntax_error(
            source,
            root.span.clone(),
            format!("expected an object, found {}", root.type_name()),
            "put the settings between { and }",
        ));
    }
    Ok(Parsed {
        root,
        warnings: reader.warnings,
    })
}

struct Reader<'a> {
    source: &'a Source,
    warnings: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn node(&mut self, value: ast::Value<'_>, depth: usize) -> Result<Node, Box<Diagnostic>> {
        let span = span_of(&value);
        if depth > DEPTH_MAX {
            return Err(too_deep(self.source, span));
        }
        let value = match value {
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::BooleanLit(lit) => Value::Bool(lit.value),
            ast::Value::StringLit(lit) => Value::String(lit.value.into_owned()),
            ast::Value::NumberLit(lit) => match number(lit.value) {
                Some(number) => Value::Number(number),
                None => {
                    return Err(syntax_error(
                        self.source,
                        span,
                        format!("`{}` is not a number that JSON can hold", shown(lit.value)),
                        "write a finite decimal number, or a string",
                    ));
                }
            },
            ast::Value::Array(array) => {
                let items = array
                    .elements
                    .into_iter()
                    .map(|item| self.node(item, depth + 1));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            ast::Value::Object(object) => Value::Object(self.entries(object, depth)?),
        };
        Ok(Node { span, value })
    }

    /// Of several entries with one key the last counts, as in `JSON.parse`.
    fn entries(
        &mut self,
        object: ast::Object<'_>,
        depth: usize,
    ) -> Result<Vec<Entry>, Box<Diagnostic>> {
        let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
        let mut index_of = std::collections::HashMap::new();
        for property in object.properties {
            let key_span = span_of(&property.name);
            let key = property.name.into_string();
            let node = self.node(property.value, depth + 1)?;
            let entry = Entry {
                key: key.clone(),
                key_span: key_span.clone(),
                node,
            };
            match index_of.get(&key) {
                Some(index) => {
                    self.warn_duplicate(&key, key_span);
                    entries[*index] = entry;
                }
                None => {
                    index_of.insert(key, entries.len());
                    entries.push(entry);
                }
            }
        }
        Ok(entries)
    }

    fn warn_duplicate(&mut self, key: &str, span: Span) {
        self.warnings.push(Diagnostic {
            severity: Severity::Warning,
            code: Code::Conflict,
            key: shown(key),
            message: format!(
                "`{}` is given twice in one object; the last one counts",
                shown(key)
            ),
            help: "remove one of them".into(),
            file: self.source.path().to_owned(),
            place: Some(self.source.place(&span)),
        });
    }
}

/// A number as JavaScript reads it: a whole number where 64 bits hold it, else the nearest double.
/// It does not matter how the file spells it.
fn number(text: &str) -> Option<serde_json::Number> {
    let signed = text.parse::<i64>().ok().map(serde_json::Number::from);
    let whole = signed.or_else(|| text.parse::<u64>().ok().map(serde_json::Number::from));
    whole.or_else(|| serde_json::Number::from_f64(text.parse().ok()?))
}

fn span_of(ranged: &impl Ranged) -> Span {
    ranged.start()..ranged.end()
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}
