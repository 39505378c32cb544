//! V8's code cache of one deployment, shared by all isolates that run it.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::RwLock;

/// Compiled code by module specifier. The first isolate fills it, later ones compile nothing.
#[derive(Debug, Default)]
pub struct CodeCache(RwLock<HashMap<String, Bytes>>);

impl CodeCache {
    /// The cached code of a module.
    pub fn get(&self, specifier: &str) -> Option<Bytes> {
        self.0.read().get(specifier).cloned()
    }

    /// Stores the code of a module.
    pub fn put(&self, specifier: &str, code: Bytes) {
        self.0.write().insert(specifier.to_owned(), code);
    }
}
