//! Reading deployments back, believing nothing that a hash does not prove.

use std::collections::BTreeMap;

use bytes::Bytes;
use celld_bucket::{Bucket, BucketError, Etag};
use futures::{StreamExt, TryStreamExt};

use super::{PARALLEL, Pointer, blob_key, manifest_key, pointer_key};
use crate::manifest::{BlobHash, BlobRef, BundledModule, Deployment, DeploymentId, ManifestError};

/// A deployment with its modules' bytes.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its id.
    pub id: DeploymentId,
    /// What it is.
    pub deployment: Deployment,
    /// Its modules, in the order of the manifest.
    pub modules: Vec<BundledModule>,
}

/// Why something in the bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The bucket failed.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// An object that another refers to is not there.
    #[error("bucket object {key:?} is missing, though {needed_by:?} refers to it; deploy again")]
    Missing {
        /// The object.
        key: String,
        /// What refers to it.
        needed_by: String,
    },
    /// An object is not what its hash says.
    #[error(
        "bucket object {key:?} is damaged: its content does not have the hash {expected}; delete the object and deploy again"
    )]
    Hash {
        /// The object.
        key: String,
        /// The hash or id that its content should have.
        expected: String,
    },
    /// A pointer or manifest cannot be understood.
    #[error("bucket object {key:?} cannot be used: {error}")]
    Content {
        /// The object.
        key: String,
        /// What is wrong with it.
        error: ManifestError,
    },
}

/// Reads the pointer of a script; `None` when the script was never deployed. The tag is for
/// moving it.
///
/// # Errors
/// The bucket fails, or the object is no pointer of this script that this version can read.
pub async fn read_pointer(
    bucket: &dyn Bucket,
    script: &str,
) -> Result<Option<(Pointer, Etag)>, FetchError> {
    let key = pointer_key(script)?;
    let Some(object) = bucket.get(&key).await? else {
        return Ok(None);
    };
    let pointer =
        Pointer::from_json(script, &object.bytes).map_err(|error| FetchError::Content {
            key: key.to_string(),
            error,
        })?;
    Ok(Some((pointer, object.etag)))
}

/// Reads a deployment of a script with all its modules, and verifies every hash.
///
/// # Errors
/// The bucket fails, or something is missing, damaged or of another format; the error names it.
pub async fn fetch_deployment(
    bucket: &dyn Bucket,
    script: &str,
    id: DeploymentId,
) -> Result<Fetched, FetchError> {
    let key = manifest_key(script, id)?;
    let missing = || FetchError::Missing {
        key: key.to_string(),
        needed_by: format!("deploy/{script}/current"),
    };
    let manifest = bucket.get(&key).await?.ok_or_else(missing)?;
    let content = |error| FetchError::Content {
        key: key.to_string(),
        error,
    };
    let deployment = Deployment::from_json(&manifest.bytes).map_err(content)?;
    if deployment.id() != id || deployment.to_json() != manifest.bytes {
        return Err(FetchError::Hash {
            key: key.to_string(),
            expected: id.to_string(),
        });
    }
    if deployment.script != script {
        return Err(content(ManifestError::Inconsistent(format!(
            "it belongs to the script {:?}",
            deployment.script
        ))));
    }
    let blobs = fetch_blobs(bucket, &deployment, key.as_str()).await?;
    let blob = |of: &BlobRef| {
        blobs
            .get(&of.sha256)
            .cloned()
            .expect("every blob of the manifest was fetched")
    };
    let modules = deployment.modules.iter().map(|module| BundledModule {
        specifier: module.specifier.clone(),
        kind: module.kind,
        bytes: blob(&module.content()),
        source_map: module.source_map.as_ref().map(blob),
    });
    Ok(Fetched {
        id,
        modules: modules.collect(),
        deployment,
    })
}

async fn fetch_blobs(
    bucket: &dyn Bucket,
    deployment: &Deployment,
    needed_by: &str,
) -> Result<BTreeMap<BlobHash, Bytes>, FetchError> {
    let gets = deployment.blobs().into_iter().map(|blob| async move {
        let key = blob_key(blob.sha256)?;
        let missing = || FetchError::Missing {
            key: key.to_string(),
            needed_by: needed_by.to_owned(),
        };
        let object = bucket.get(&key).await?.ok_or_else(missing)?;
        if !blob.matches(&object.bytes) {
            return Err(FetchError::Hash {
                key: key.to_string(),
                expected: blob.sha256.to_string(),
            });
        }
        Ok((blob.sha256, object.bytes))
    });
    futures::stream::iter(gets)
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await
}

/// The scripts that have a current deployment, in order. Costs two requests a script, however many
/// versions and blobs there are.
///
/// # Errors
/// The bucket fails.
pub async fn list_scripts(bucket: &dyn Bucket) -> Result<Vec<String>, FetchError> {
    const PREFIX: &str = "deploy/";
    let mut scripts = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let listing = bucket.list(PREFIX, after.as_deref(), 1).await?;
        let Some(first) = listing.objects.first() else {
            return Ok(scripts);
        };
        let name = first.key.as_str()[PREFIX.len()..]
            .split('/')
            .next()
            .unwrap_or_default();
        // `0` is what follows `/`: everything below this script's prefix is skipped.
        after = Some(format!("{PREFIX}{name}0"));
        if let Ok(key) = pointer_key(name)
            && bucket.get(&key).await?.is_some()
        {
            scripts.push(name.to_owned());
        }
    }
}
