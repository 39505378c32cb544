//! Namespace keys as JSON strings, checked when they are read.

use celld_core::NamespaceKey;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(
    key: &NamespaceKey,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(key.as_str())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<NamespaceKey, D::Error> {
    let text = String::deserialize(deserializer)?;
    NamespaceKey::new(&text).map_err(serde::de::Error::custom)
}
