//! Modules: their kinds, and what a build hands over.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Kinds of modules, as Wrangler's rules name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ModuleKind {
    /// ECMAScript module.
    #[serde(rename = "esm")]
    EsModule,
    /// CommonJS module; its `module.exports` is the default export.
    #[serde(rename = "cjs")]
    CommonJs,
    /// WebAssembly; the default export is a `WebAssembly.Module`.
    #[serde(rename = "wasm")]
    CompiledWasm,
    /// The default export is a string.
    #[serde(rename = "text")]
    Text,
    /// The default export is an `ArrayBuffer`.
    #[serde(rename = "data")]
    Data,
    /// The default export is the parsed value.
    #[serde(rename = "json")]
    Json,
}

impl ModuleKind {
    /// Every kind, with the name that `rules[].type` in a Wrangler configuration uses.
    pub const NAMES: [(&'static str, ModuleKind); 6] = [
        ("ESModule", Self::EsModule),
        ("CommonJS", Self::CommonJs),
        ("CompiledWasm", Self::CompiledWasm),
        ("Text", Self::Text),
        ("Data", Self::Data),
        ("JSON", Self::Json),
    ];

    /// The name that `rules[].type` in a Wrangler configuration uses.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// True for kinds that hold code and can be the main module.
    pub fn is_javascript(self) -> bool {
        matches!(self, Self::EsModule | Self::CommonJs)
    }
}

/// One module as a build made it, with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltModule {
    /// Relative POSIX path, e.g. `index.js` or `assets/logo.wasm`.
    pub specifier: String,
    /// How it is to be understood.
    pub kind: ModuleKind,
    /// Its bytes; UTF-8 for the textual kinds.
    pub source: Bytes,
    /// Source map (version 3, JSON) of an ES module.
    pub source_map: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_belong_to_their_kinds() {
        for (name, kind) in ModuleKind::NAMES {
            assert_eq!(kind.name(), name);
        }
    }
}
