//! What a deployment is: its modules, bindings and settings, as one content-addressed document.
//!
//! Equal programs with equal settings and namespaces have equal manifests and so equal ids. Times
//! and places are no part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use celld_core::NamespaceKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bundle::BUNDLE_MAX_BYTES;

mod assets;
pub(crate) mod hex_text;
pub(crate) mod key_text;

pub use assets::{AssetFile, Assets, HtmlHandling, NotFoundHandling};

/// Modules are the bundler's: `crate::bundle` defines them, and manifests store their kinds.
pub use crate::bundle::{BundledModule, ModuleKind};

/// The format that this version writes, and the only one that it reads.
pub const FORMAT: &str = "celld.deployment.v1";

/// Largest manifest, in bytes.
pub const MANIFEST_MAX_BYTES: usize = 16 << 20;

/// SHA-256 of a module, which is also its name in the bucket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

/// The id of a deployment: the first 128 bits of its manifest's SHA-256, as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeploymentId([u8; 16]);

impl DeploymentId {
    /// The id of a manifest.
    fn of(manifest: &[u8]) -> Self {
        let digest: [u8; 32] = Sha256::digest(manifest).into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Self(id)
    }
}

hex_text::hex_text!(BlobHash, 32, "a SHA-256 in 64 lower-case hex digits");
hex_text::hex_text!(
    DeploymentId,
    16,
    "a deployment id of 32 lower-case hex digits"
);

/// Everything that a node needs to know to run a Worker, except for the modules' bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// Always [`FORMAT`].
    pub format: String,
    /// The Worker's name.
    pub script: String,
    /// Specifier of the main module among `modules`.
    pub main_module: String,
    /// Every module.
    pub modules: Vec<ModuleEntry>,
    /// `compatibility_date`, as `YYYY-MM-DD`.
    pub compatibility_date: String,
    /// `compatibility_flags`.
    pub compatibility_flags: Vec<String>,
    /// What appears in `env`.
    pub bindings: BTreeMap<String, Binding>,
    /// The Worker's Durable Object classes: name of the export to namespace.
    pub classes: BTreeMap<String, ClassEntry>,
    /// Limits of its own.
    pub limits: Limits,
    /// Cron expressions.
    pub crons: Vec<String>,
    /// Static files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assets: Option<Assets>,
}

/// One module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleEntry {
    /// Relative POSIX path, e.g. `index.js` or `assets/logo.wasm`.
    pub specifier: String,
    /// How it is to be understood.
    pub kind: ModuleKind,
    /// Hash of its content, and the name of its blob.
    pub sha256: BlobHash,
    /// Length of its content, in bytes.
    pub bytes: u64,
    /// Source map (version 3, JSON), when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_map: Option<BlobRef>,
}

impl ModuleEntry {
    /// The blob that holds its content.
    pub fn content(&self) -> BlobRef {
        BlobRef {
            sha256: self.sha256,
            bytes: self.bytes,
        }
    }
}

/// A blob in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobRef {
    /// Its hash and name.
    pub sha256: BlobHash,
    /// Its length, in bytes.
    pub bytes: u64,
}

impl BlobRef {
    /// Refers to these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            sha256: BlobHash::of(bytes),
            bytes: bytes.len() as u64,
        }
    }

    /// True when these are the bytes that it refers to.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        *self == Self::of(bytes)
    }
}

/// A value in `env`. `Debug` does not show variables: they may be secrets.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Binding {
    /// A string.
    Text {
        /// The string.
        text: String,
    },
    /// Any JSON value.
    Json {
        /// The value.
        value: serde_json::Value,
    },
    /// A Durable Object namespace of this Worker.
    DurableObject {
        /// The class, a key of `classes`.
        class_name: String,
        /// Its namespace.
        #[serde(with = "key_text")]
        namespace: NamespaceKey,
    },
    /// An entrypoint of this Worker.
    Service {
        /// The named export; `None` for the default one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entrypoint: Option<String>,
        /// `ctx.props` of the target.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        props: Option<serde_json::Value>,
    },
    /// The static files of this deployment.
    Assets {},
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { .. } => f.write_str("Text(…)"),
            Self::Json { .. } => f.write_str("Json(…)"),
            Self::Assets {} => f.write_str("Assets"),
            Self::DurableObject {
                class_name,
                namespace,
            } => write!(f, "DurableObject({class_name}: {namespace})"),
            Self::Service { entrypoint, .. } => {
                write!(f, "Service({})", entrypoint.as_deref().unwrap_or("default"))
            }
        }
    }
}

/// A Durable Object class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassEntry {
    /// Where its cells live.
    #[serde(with = "key_text")]
    pub namespace: NamespaceKey,
    /// SQLite-backed; else only the key-value API is offered.
    pub sqlite: bool,
}

/// Limits that a Worker sets for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// CPU time of one event, in ms; unset means the node's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
}

/// The text is not a manifest that this version can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Written by another version.
    #[error(
        "the format is {0:?}, and this version of celld reads {FORMAT:?} only; update celld or deploy again with this version"
    )]
    Format(String),
    /// Not the JSON of a manifest.
    #[error("it is not a deployment manifest ({0}); deploy again")]
    Json(String),
    /// It contradicts itself.
    #[error("it is not consistent ({0}); deploy again")]
    Inconsistent(String),
}

impl Deployment {
    /// The canonical text: equal deployments give equal bytes.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest has string keys and no failing parts")
    }

    /// The content address.
    pub fn id(&self) -> DeploymentId {
        DeploymentId::of(&self.to_json())
    }

    /// Reads a manifest and checks that its parts fit together.
    ///
    /// # Errors
    /// Another format, text that is no manifest, or parts that contradict each other.
    pub fn from_json(text: &[u8]) -> Result<Self, ManifestError> {
        if text.len() > MANIFEST_MAX_BYTES {
            return Err(ManifestError::Json(format!(
                "it is larger than {MANIFEST_MAX_BYTES} bytes"
            )));
        }
        check_format(text, FORMAT)
            .map_err(|found| found.map_or_else(ManifestError::Json, ManifestError::Format))?;
        let deployment: Self =
            serde_json::from_slice(text).map_err(|error| ManifestError::Json(error.to_string()))?;
        deployment.check().map_err(ManifestError::Inconsistent)?;
        Ok(deployment)
    }

    /// Every blob of its modules, once each.
    pub fn blobs(&self) -> Vec<BlobRef> {
        let all = self
            .modules
            .iter()
            .flat_map(|module| std::iter::once(module.content()).chain(module.source_map));
        let by_hash: BTreeMap<BlobHash, BlobRef> = all.map(|blob| (blob.sha256, blob)).collect();
        by_hash.into_values().collect()
    }

    fn check(&self) -> Result<(), String> {
        let mut specifiers = BTreeSet::new();
        for module in &self.modules {
            check_specifier(&module.specifier)?;
            if !specifiers.insert(&module.specifier) {
                return Err(format!("two modules are called {:?}", module.specifier));
            }
        }
        if !self
            .modules
            .iter()
            .any(|module| module.specifier == self.main_module && module.kind.is_javascript())
        {
            return Err(format!(
                "the main module {:?} is not among the JavaScript modules",
                self.main_module
            ));
        }
        let total = self
            .modules
            .iter()
            .try_fold(0u64, |sum, module| sum.checked_add(module.bytes));
        if total.is_none_or(|total| total > BUNDLE_MAX_BYTES) {
            return Err(format!(
                "the modules take more than {BUNDLE_MAX_BYTES} bytes"
            ));
        }
        if let Some(assets) = &self.assets {
            assets.check()?;
        }
        for (name, binding) in &self.bindings {
            if matches!(binding, Binding::Assets {}) && self.assets.is_none() {
                return Err(format!(
                    "the binding {name:?} means static assets that are not there"
                ));
            }
            if let Binding::DurableObject {
                class_name,
                namespace,
            } = binding
                && self
                    .classes
                    .get(class_name)
                    .is_none_or(|class| class.namespace != *namespace)
            {
                return Err(format!(
                    "the binding {name:?} means a class {class_name:?} that is not there"
                ));
            }
        }
        Ok(())
    }
}

/// A relative path without steps upwards, so that it can name nothing outside the bundle.
fn check_specifier(specifier: &str) -> Result<(), String> {
    let step = |part: &str| part.is_empty() || part == "." || part == "..";
    if specifier.len() > 1_024 || specifier.split('/').any(step) || specifier.contains(['\\', '\0'])
    {
        return Err(format!("{specifier:?} cannot name a module"));
    }
    Ok(())
}

/// Looks at `format` before anything else, so that a later version is refused by its name and not
/// for a field that this version does not know. The inner `Err` is a JSON error.
pub(crate) fn check_format(text: &[u8], known: &str) -> Result<(), Result<String, String>> {
    #[derive(Deserialize)]
    struct Head {
        format: Option<String>,
    }
    match serde_json::from_slice::<Head>(text) {
        Ok(Head {
            format: Some(format),
        }) if format == known => Ok(()),
        Ok(Head {
            format: Some(format),
        }) => Err(Ok(format.chars().take(100).collect())),
        Ok(Head { format: None }) => Err(Err("it has no `format`".into())),
        Err(error) => Err(Err(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
