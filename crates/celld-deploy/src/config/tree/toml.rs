//! Reads TOML, keeping positions.

use toml_edit::{Array, ArrayOfTables, Document, InlineTable, Item, Key, Table};

use super::{DEPTH_MAX, Entry, Node, Parsed, Span, Value, syntax_error, too_deep};
use crate::config::diagnostic::Diagnostic;
use crate::config::source::Source;

pub(super) fn parse(source: &Source) -> Result<Parsed, Box<Diagnostic>> {
    let document = Document::parse(source.text()).map_err(|error| {
        syntax_error(
            source,
            error.span().unwrap_or(0..0),
            format!(
                "this is not valid TOML: {}",
                error.message().replace('\n', ", ")
            ),
            "correct the text; https://toml.io describes the format",
        )
    })?;
    let root = Reader { source }.table(document.as_table(), 0..0, 0)?;
    Ok(Parsed {
        root,
        warnings: Vec::new(),
    })
}

struct Reader<'a> {
    source: &'a Source,
}

impl Reader<'_> {
    fn item(&self, item: &Item, near: Span, depth: usize) -> Result<Node, Box<Diagnostic>> {
        match item {
            Item::None => Ok(Node {
                span: near,
                value: Value::Null,
            }),
            Item::Value(value) => self.value(value, near, depth),
            Item::Table(table) => self.table(table, near, depth),
            Item::ArrayOfTables(tables) => self.tables(tables, near, depth),
        }
    }

    fn table(&self, table: &Table, near: Span, depth: usize) -> Result<Node, Box<Diagnostic>> {
        let span = table.span().unwrap_or(near);
        self.check_depth(&span, depth)?;
        let mut entries = Vec::with_capacity(table.len());
        for (name, item) in table.iter() {
            entries.push(self.entry(name, table.key(name), item, &span, depth)?);
        }
        Ok(Node {
            span,
            value: Value::Object(entries),
        })
    }

    fn inline_table(
        &self,
        table: &InlineTable,
        near: Span,
        depth: usize,
    ) -> Result<Node, Box<Diagnostic>> {
        let span = table.span().unwrap_or(near);
        self.check_depth(&span, depth)?;
        let mut entries = Vec::with_capacity(table.len());
        for (name, value) in table.iter() {
            let key_span = table
                .key(name)
                .and_then(Key::span)
                .unwrap_or_else(|| span.clone());
            let node = self.value(value, key_span.clone(), depth + 1)?;
            entries.push(Entry {
                key: name.to_owned(),
                key_span,
                node,
            });
        }
        Ok(Node {
            span,
            value: Value::Object(entries),
        })
    }

    fn entry(
        &self,
        name: &str,
        key: Option<&Key>,
        item: &Item,
        near: &Span,
        depth: usize,
    ) -> Result<Entry, Box<Diagnostic>> {
        let key_span = key.and_then(Key::span).unwrap_or_else(|| near.clone());
        let node = self.item(item, key_span.clone(), depth + 1)?;
        Ok(Entry {
            key: name.to_owned(),
            key_span,
            node,
        })
    }

    fn tables(
        &self,
        tables: &ArrayOfTables,
        near: Span,
        depth: usize,
    ) -> Result<Node, Box<Diagnostic>> {
        let span = tables.span().unwrap_or(near);
        let items = tables
            .iter()
            .map(|table| self.table(table, span.clone(), depth + 1));
        let value = Value::Array(items.collect::<Result<_, _>>()?);
        Ok(Node { span, value })
    }

    fn array(&self, array: &Array, near: Span, depth: usize) -> Result<Node, Box<Diagnostic>> {
        let span = array.span().unwrap_or(near);
        let items = array
            .iter()
            .map(|value| self.value(value, span.clone(), depth + 1));
        let value = Value::Array(items.collect::<Result<_, _>>()?);
        Ok(Node { span, value })
    }

    fn value(
        &self,
        value: &toml_edit::Value,
        near: Span,
        depth: usize,
    ) -> Result<Node, Box<Diagnostic>> {
        let span = value.span().unwrap_or(near);
        self.check_depth(&span, depth)?;
        let value = match value {
            toml_edit::Value::String(it) => Value::String(it.value().clone()),
            toml_edit::Value::Integer(it) => Value::Number((*it.value()).into()),
            toml_edit::Value::Boolean(it) => Value::Bool(*it.value()),
            toml_edit::Value::Datetime(it) => Value::Datetime(it.value().to_string()),
            toml_edit::Value::Float(it) => match serde_json::Number::from_f64(*it.value()) {
                Some(number) => Value::Number(number),
                None => {
                    return Err(syntax_error(
                        self.source,
                        span,
                        format!("`{}` has no counterpart in JSON", it.value()),
                        "write a finite number, or a string",
                    ));
                }
            },
            toml_edit::Value::Array(it) => return self.array(it, span, depth),
            toml_edit::Value::InlineTable(it) => return self.inline_table(it, span, depth),
        };
        Ok(Node { span, value })
    }

    fn check_depth(&self, span: &Span, depth: usize) -> Result<(), Box<Diagnostic>> {
        if depth > DEPTH_MAX {
            Err(too_deep(self.source, span.clone()))
        } else {
            Ok(())
        }
    }
}
