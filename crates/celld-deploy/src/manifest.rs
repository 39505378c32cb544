//! What a deployment is: its modules, bindings and settings, as one content-addressed document.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Kinds of modules, as Wrangler's rules name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
