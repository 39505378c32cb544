//! Compiled statements by SQL text, least recently used first out.

use std::collections::HashMap;

use crate::stmt::Stmt;

/// Idle statements. One that is in use is not here: taking it out makes a second run of the same
/// text compile a second statement instead of disturbing the first.
#[derive(Default)]
pub(crate) struct StatementCache {
    entries: HashMap<Box<str>, (u64, Stmt)>,
    text_bytes: usize,
    clock: u64,
}

impl StatementCache {
    /// Takes the statement for a text out.
    pub fn take(&mut self, sql: &str) -> Option<(Box<str>, Stmt)> {
        let (text, (_, stmt)) = self.entries.remove_entry(sql)?;
        self.text_bytes -= text.len();
        Some((text, stmt))
    }

    /// Puts a statement back, and drops the least recently used ones beyond the limits.
    /// A statement whose text is here already is dropped.
    pub fn put(&mut self, text: Box<str>, stmt: Stmt, max_bytes: usize, max_count: usize) {
        if text.len() > max_bytes || max_count == 0 || self.entries.contains_key(&text) {
            return;
        }
        while self.entries.len() >= max_count || self.text_bytes + text.len() > max_bytes {
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(text, _)| text.clone()) else {
                break;
            };
            self.take(&oldest);
        }
        self.clock += 1;
        self.text_bytes += text.len();
        self.entries.insert(text, (self.clock, stmt));
    }

    /// Drops every statement.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.text_bytes = 0;
    }
}
