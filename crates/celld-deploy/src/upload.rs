//! Deployments in a bucket: uploading one, and reading what is there.
//!
//! | key | content |
//! |---|---|
//! | `deploy/blobs/<sha256>` | a module, source map or static file; written once, shared by all scripts |
//! | `deploy/<script>/versions/<id>/manifest.json` | a [`Deployment`]; written once |
//! | `deploy/<script>/current` | the [`Pointer`]; moved by conditional write |
//!
//! Everything that a pointer refers to is stored before the pointer moves, so whoever reads the
//! pointer finds a whole deployment, whenever an upload was cut off.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use celld_bucket::{Bucket, BucketError, Condition, Etag, Key, PutOutcome};
use futures::{StreamExt, TryStreamExt};

use crate::config::{ConfigErrors, Warning};
use crate::manifest::{BlobHash, Deployment, DeploymentId};
use crate::migrations::{Implicit, MigrationPlan, Registry, Retired};

mod draft;
mod fetch;
mod pointer;
mod preview;

pub use draft::Draft;
pub use fetch::{FetchError, Fetched, fetch_deployment, list_scripts, read_pointer};
pub use pointer::{POINTER_FORMAT, Pointer};
pub use preview::{Preview, PreviewBinding, PreviewClass, PreviewModule, plan};

/// Requests for blobs that are in flight at a time.
const PARALLEL: usize = 8;

/// How often a write is tried whose answer is lost.
const WRITE_TRIES: u32 = 4;

/// How often the pointer is tried before other uploads are taken to be in the way for good.
const POINTER_TRIES: u32 = 8;

/// How an upload behaves.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions {
    /// What happens to classes that no migration creates.
    pub implicit: Implicit,
}

/// What an upload did.
#[derive(Clone, Debug)]
pub struct UploadReport {
    /// The id of the deployment, which is the current one now.
    pub id: DeploymentId,
    /// The one that was current before.
    pub previous: Option<DeploymentId>,
    /// False when exactly this deployment was current already, and nothing was changed.
    pub moved: bool,
    /// The deployment.
    pub deployment: Deployment,
    /// What became of the classes.
    pub migration: MigrationPlan,
    /// Blobs that were not in the bucket.
    pub blobs_new: usize,
    /// Their size, in bytes.
    pub bytes_new: u64,
    /// Blobs that were there already.
    pub blobs_reused: usize,
}

impl UploadReport {
    /// What the author should know.
    pub fn warnings(&self) -> &[Warning] {
        &self.migration.warnings
    }

    /// Namespaces whose data is to be dropped.
    pub fn dropped(&self) -> &[Retired] {
        &self.migration.dropped
    }
}

/// Why an upload did not happen. The pointer is where it was, unless said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The project's migrations don't fit what is deployed.
    #[error(transparent)]
    Migrations(#[from] ConfigErrors),
    /// What is in the bucket cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The program cannot be deployed as it is.
    #[error("the program cannot be deployed: {0}")]
    Program(String),
    /// The bucket failed.
    #[error("{0}; nothing was deployed, try again")]
    Bucket(#[from] BucketError),
    /// The pointer's write was sent, and whether it was applied cannot be found out.
    #[error("{0}; the deployment may or may not be current: deploy again to make sure")]
    Unknown(BucketError),
    /// Other uploads moved the pointer every time.
    #[error(
        "other uploads of {script:?} got in the way {POINTER_TRIES} times; wait for them, then deploy again"
    )]
    Contended {
        /// The script.
        script: String,
    },
}

/// Uploads a program and makes it the current deployment of its script.
///
/// Migrations are computed against the pointer that is replaced: when another upload moves it
/// first, they are computed again.
///
/// # Errors
/// See [`UploadError`].
pub async fn upload(
    bucket: &dyn Bucket,
    draft: &Draft,
    options: UploadOptions,
) -> Result<UploadReport, UploadError> {
    // Before anything is written: most mistakes show against the pointer as it is.
    let current = read_pointer(bucket, draft.script()).await?;
    draft.settle(&registry_of(&current), options.implicit)?;
    let stored = put_blobs(bucket, draft)
        .await?
        .and(put_assets(bucket, draft).await?);
    for attempt in 0..POINTER_TRIES {
        if attempt > 0 {
            tokio::time::sleep(Duration::from_millis(20 << attempt)).await;
        }
        if let Some((deployment, migration, previous, moved)) =
            try_once(bucket, draft, options).await?
        {
            return Ok(UploadReport {
                id: deployment.id(),
                previous,
                moved,
                deployment,
                migration,
                blobs_new: stored.new,
                bytes_new: stored.new_bytes,
                blobs_reused: stored.reused,
            });
        }
    }
    Err(UploadError::Contended {
        script: draft.script().to_owned(),
    })
}

type Settled = (Deployment, MigrationPlan, Option<DeploymentId>, bool);

/// One try at the pointer; `None` when another upload moved it meanwhile.
async fn try_once(
    bucket: &dyn Bucket,
    draft: &Draft,
    options: UploadOptions,
) -> Result<Option<Settled>, UploadError> {
    let current = read_pointer(bucket, draft.script()).await?;
    let (deployment, migration) = draft.settle(&registry_of(&current), options.implicit)?;
    let id = deployment.id();
    let previous = current.as_ref().map(|(pointer, _)| pointer.deployment);
    if let Some((pointer, _)) = &current
        && pointer.deployment == id
        && pointer.registry == migration.registry
    {
        return Ok(Some((deployment, migration, pointer.previous, false)));
    }
    let key = manifest_key(&deployment.script, id)?;
    put_once(bucket, &key, deployment.to_json().into()).await?;
    let pointer = Pointer {
        format: POINTER_FORMAT.to_owned(),
        script: deployment.script.clone(),
        deployment: id,
        previous,
        uploaded_ms: now_ms(),
        upload: upload_token()?,
        registry: migration.registry.clone(),
    };
    let moved = move_pointer(bucket, &pointer, current.map(|(_, etag)| etag)).await?;
    Ok(moved.then_some((deployment, migration, previous, true)))
}

fn registry_of(current: &Option<(Pointer, Etag)>) -> Registry {
    current
        .as_ref()
        .map(|(pointer, _)| pointer.registry.clone())
        .unwrap_or_default()
}

/// Moves the pointer if it still is what it was. An answer that is lost or says "conflict" is
/// settled by reading back: the token tells whose write it is.
async fn move_pointer(
    bucket: &dyn Bucket,
    pointer: &Pointer,
    replaces: Option<Etag>,
) -> Result<bool, UploadError> {
    let key = pointer_key(&pointer.script)?;
    let condition = replaces.map_or(Condition::IfAbsent, Condition::IfMatch);
    match bucket.put(&key, pointer.to_json().into(), condition).await {
        Ok(PutOutcome::Done(_)) => Ok(true),
        Ok(PutOutcome::Conflict) => is_ours(bucket, pointer).await.map_err(UploadError::Fetch),
        Err(error) if error.is_ambiguous() => is_ours(bucket, pointer)
            .await
            .map_err(|_| UploadError::Unknown(error)),
        Err(error) => Err(error.into()),
    }
}

async fn is_ours(bucket: &dyn Bucket, pointer: &Pointer) -> Result<bool, FetchError> {
    let current = read_pointer(bucket, &pointer.script).await?;
    Ok(current.is_some_and(|(current, _)| current.upload == pointer.upload))
}

struct Stored {
    new: usize,
    new_bytes: u64,
    reused: usize,
}

impl Stored {
    fn and(self, other: Self) -> Self {
        Self {
            new: self.new + other.new,
            new_bytes: self.new_bytes + other.new_bytes,
            reused: self.reused + other.reused,
        }
    }
}

/// Stores static files. Each is read only when the bucket lacks it.
async fn put_assets(bucket: &dyn Bucket, draft: &Draft) -> Result<Stored, UploadError> {
    let by_hash: BTreeMap<BlobHash, _> = draft
        .assets()
        .map(|(file, source)| (file.sha256, (file.bytes, source.to_owned())))
        .collect();
    let puts = by_hash
        .into_iter()
        .map(|(hash, (size, source))| async move {
            let key = blob_key(hash)?;
            if bucket.get_range(&key, 0..1).await?.is_some() {
                return Ok((false, size));
            }
            let place = source.display().to_string();
            let bytes = tokio::task::spawn_blocking(move || crate::assets::read(&source))
                .await
                .unwrap_or_else(|error| Err(error.to_string()))
                .map_err(|why| UploadError::Program(format!("{place} cannot be read: {why}")))?;
            if BlobHash::of(&bytes) != hash {
                let message = format!("{place} was changed during the upload; deploy again");
                return Err(UploadError::Program(message));
            }
            let created = put_once(bucket, &key, bytes.into()).await?;
            Ok((created, size))
        });
    count(futures::stream::iter(puts).buffer_unordered(PARALLEL)).await
}

async fn put_blobs(bucket: &dyn Bucket, draft: &Draft) -> Result<Stored, UploadError> {
    let blobs: BTreeMap<BlobHash, Bytes> = draft.blobs();
    let puts = blobs.into_iter().map(|(hash, bytes)| async move {
        let size = bytes.len() as u64;
        put_once(bucket, &blob_key(hash)?, bytes)
            .await
            .map(|created| (created, size))
    });
    count(futures::stream::iter(puts).buffer_unordered(PARALLEL)).await
}

/// Sums up what each put says: whether it created the object, and the object's size.
async fn count(
    done: impl futures::Stream<Item = Result<(bool, u64), UploadError>>,
) -> Result<Stored, UploadError> {
    let mut done = std::pin::pin!(done);
    let mut stored = Stored {
        new: 0,
        new_bytes: 0,
        reused: 0,
    };
    while let Some((created, size)) = done.try_next().await? {
        if created {
            stored.new += 1;
            stored.new_bytes += size;
        } else {
            stored.reused += 1;
        }
    }
    Ok(stored)
}

/// Creates an object whose key fixes its content. Returns false when it was there already; after a
/// lost answer that may be this upload's own doing, which makes no difference.
async fn put_once(bucket: &dyn Bucket, key: &Key, bytes: Bytes) -> Result<bool, UploadError> {
    let mut tries = 1;
    loop {
        match bucket.put(key, bytes.clone(), Condition::IfAbsent).await {
            Ok(PutOutcome::Done(_)) => return Ok(true),
            Ok(PutOutcome::Conflict) => return Ok(false),
            Err(error)
                if tries == WRITE_TRIES
                    || matches!(error, BucketError::BadKey(_) | BucketError::Damaged { .. }) =>
            {
                return Err(error.into());
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50 << tries)).await,
        }
        tries += 1;
    }
}

fn blob_key(hash: BlobHash) -> Result<Key, BucketError> {
    Ok(Key::new(format!("deploy/blobs/{hash}"))?)
}

fn manifest_key(script: &str, id: DeploymentId) -> Result<Key, BucketError> {
    Ok(Key::new(format!(
        "deploy/{script}/versions/{id}/manifest.json"
    ))?)
}

fn pointer_key(script: &str) -> Result<Key, BucketError> {
    Ok(Key::new(format!("deploy/{script}/current"))?)
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

/// 128 random bits that tell this upload's write from any other.
fn upload_token() -> Result<String, UploadError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)
        .map_err(|error| UploadError::Program(format!("the system has no random bits: {error}")))?;
    Ok(hex::encode(bits))
}

#[cfg(test)]
mod tests;
