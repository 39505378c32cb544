//! The object that says which deployment of a script is current, and which namespaces it has.

use serde::{Deserialize, Serialize};

use crate::manifest::{DeploymentId, ManifestError, check_format};
use crate::migrations::Registry;

/// The format that this version writes, and the only one that it reads.
pub const POINTER_FORMAT: &str = "celld.pointer.v1";

/// Which deployment of a script is current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pointer {
    /// Always [`POINTER_FORMAT`].
    pub format: String,
    /// The script.
    pub script: String,
    /// The current deployment.
    pub deployment: DeploymentId,
    /// The one before it.
    pub previous: Option<DeploymentId>,
    /// When it became current, in ms since the epoch, by the uploader's clock.
    pub uploaded_ms: u64,
    /// Random token of the upload that wrote this.
    pub upload: String,
    /// The script's Durable Object classes, and which migrations were applied.
    pub registry: Registry,
}

impl Pointer {
    /// As JSON, indented: people look at it.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a pointer has string keys and no failing parts")
    }

    /// Reads a pointer.
    ///
    /// # Errors
    /// Another format, or text that is no pointer of `script`.
    pub fn from_json(script: &str, text: &[u8]) -> Result<Self, ManifestError> {
        check_format(text, POINTER_FORMAT)
            .map_err(|found| found.map_or_else(ManifestError::Json, ManifestError::Format))?;
        let pointer: Self =
            serde_json::from_slice(text).map_err(|error| ManifestError::Json(error.to_string()))?;
        if pointer.script != script {
            return Err(ManifestError::Inconsistent(format!(
                "it belongs to the script {:?}",
                pointer.script
            )));
        }
        Ok(pointer)
    }
}
