//! A token ledger: every attempt writes its own token, and afterwards every acknowledged token
//! must be there once, and none that was never attempted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What the writers know.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Tokens by cell: sent.
    pub attempted: BTreeMap<String, BTreeSet<u64>>,
    /// Tokens by cell: answered with success.
    pub acknowledged: BTreeMap<String, BTreeSet<u64>>,
}

/// What is wrong with the stored tokens of a cell.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// Acknowledged, but not stored.
    Lost(String, Vec<u64>),
    /// Stored more than once.
    Doubled(String, Vec<u64>),
    /// Stored, but never attempted.
    Invented(String, Vec<u64>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, cell, tokens) = match self {
            Self::Lost(cell, tokens) => ("lost", cell, tokens),
            Self::Doubled(cell, tokens) => ("stored twice", cell, tokens),
            Self::Invented(cell, tokens) => ("stored but never written", cell, tokens),
        };
        write!(f, "cell {cell}: {what}: {tokens:?}")
    }
}

impl Ledger {
    /// A token is about to be sent.
    pub fn attempt(&mut self, cell: &str, token: u64) {
        self.attempted
            .entry(cell.to_owned())
            .or_default()
            .insert(token);
    }

    /// A token was answered with success.
    pub fn acknowledge(&mut self, cell: &str, token: u64) {
        self.acknowledged
            .entry(cell.to_owned())
            .or_default()
            .insert(token);
    }

    /// How many tokens were acknowledged.
    pub fn acknowledged_count(&self) -> usize {
        self.acknowledged.values().map(BTreeSet::len).sum()
    }

    /// Compares with what a cell stores.
    pub fn check(&self, cell: &str, stored: &[u64]) -> Result<(), Fault> {
        let empty = BTreeSet::new();
        let attempted = self.attempted.get(cell).unwrap_or(&empty);
        let acknowledged = self.acknowledged.get(cell).unwrap_or(&empty);
        let mut seen = BTreeSet::new();
        let doubled: Vec<u64> = stored
            .iter()
            .copied()
            .filter(|token| !seen.insert(*token))
            .collect();
        let lost: Vec<u64> = acknowledged.difference(&seen).copied().collect();
        let invented: Vec<u64> = seen.difference(attempted).copied().collect();
        if !lost.is_empty() {
            return Err(Fault::Lost(cell.to_owned(), lost));
        }
        if !doubled.is_empty() {
            return Err(Fault::Doubled(cell.to_owned(), doubled));
        }
        if !invented.is_empty() {
            return Err(Fault::Invented(cell.to_owned(), invented));
        }
        Ok(())
    }
}
