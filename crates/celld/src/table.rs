//! Tables of names and values, as `celld dev` and `celld run` print them at the start.

use std::fmt::Write;

use anstyle::{AnsiColor, Effects, Style};

/// What headings look like.
pub const HEAD: Style = Style::new().effects(Effects::BOLD);
/// What names look like.
pub const NAME: Style = AnsiColor::Cyan.on_default();
/// What is of less importance.
pub const DIM: Style = Style::new().effects(Effects::DIMMED);
/// What went well.
pub const GOOD: Style = AnsiColor::Green.on_default().effects(Effects::BOLD);
/// What deserves attention.
pub const WARN: Style = AnsiColor::Yellow.on_default().effects(Effects::BOLD);
/// What went wrong.
pub const BAD: Style = AnsiColor::Red.on_default().effects(Effects::BOLD);

/// Text in a style.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Rows of a name and one or more lines.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    /// Adds a row; without lines it is left out.
    pub fn row(&mut self, name: &str, lines: impl IntoIterator<Item = String>) -> &mut Self {
        let lines: Vec<String> = lines.into_iter().collect();
        if !lines.is_empty() {
            self.rows.push((name.to_owned(), lines));
        }
        self
    }

    /// The table with aligned columns, each line ending with a newline.
    pub fn render(&self) -> String {
        let width = self
            .rows
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        let mut out = String::new();
        for (name, lines) in &self.rows {
            for (index, line) in lines.iter().enumerate() {
                let name = if index == 0 { name.as_str() } else { "" };
                let padded = format!("{name:<width$}");
                let _ = writeln!(out, "  {}  {line}", paint(DIM, padded));
            }
        }
        out
    }
}

/// Columns of equal width for short lists: `NAME  what it is`.
pub fn columns(items: &[(String, String)]) -> Vec<String> {
    let width = items
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    items
        .iter()
        .map(|(name, what)| format!("{}  {what}", paint(NAME, format!("{name:<width$}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_rows_vanish() {
        let mut table = Table::default();
        table.row("A", ["one".into()]);
        table.row("Long", ["x".into(), "y".into()]);
        table.row("Nothing", []);
        let plain = anstream::adapter::strip_str(&table.render()).to_string();
        assert_eq!(plain, "  A     one\n  Long  x\n        y\n");
    }
}
