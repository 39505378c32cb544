//! The contents of static files: small ones from memory, large ones in pieces from the bucket.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use celld_bucket::{Bucket, Key};
use celld_runtime::exchange::{
    BODY_CHUNK_MAX_BYTES, Body, BodyError, BodySender, EventError, body_channel,
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::AssetFile;
use crate::shared::Shared;

/// Contents kept in memory, in bytes.
const CACHE_MAX_BYTES: usize = 64 << 20;
/// Largest file that is kept in memory. Larger ones are read for each request, piece by piece.
const WHOLE_MAX_BYTES: u64 = 1 << 20;
/// What is read at a time of a larger file, in bytes.
const PIECE_BYTES: u64 = 256 << 10;
/// What an entry takes beside its content, in bytes: empty files must not be free.
const ENTRY_BYTES: usize = 256;

/// The contents that were used last.
#[derive(Default)]
pub(crate) struct BlobCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    by_hash: HashMap<String, (Bytes, u64)>,
    /// From the least to the most recently used.
    by_use: BTreeMap<u64, String>,
    uses: u64,
    bytes: usize,
}

impl BlobCache {
    pub(super) fn get(&self, hash: &str) -> Option<Bytes> {
        let cached = &mut *self.0.lock();
        let (bytes, used) = cached.by_hash.get_mut(hash)?;
        let key = cached.by_use.remove(used)?;
        cached.uses += 1;
        *used = cached.uses;
        cached.by_use.insert(cached.uses, key);
        Some(bytes.clone())
    }

    fn put(&self, hash: &str, bytes: Bytes) {
        let cached = &mut *self.0.lock();
        if cached.by_hash.contains_key(hash) {
            return;
        }
        cached.uses += 1;
        cached.bytes += bytes.len() + ENTRY_BYTES;
        cached.by_use.insert(cached.uses, hash.to_owned());
        cached.by_hash.insert(hash.to_owned(), (bytes, cached.uses));
        while cached.bytes > CACHE_MAX_BYTES {
            let Some((_, oldest)) = cached.by_use.pop_first() else {
                return;
            };
            if let Some((bytes, _)) = cached.by_hash.remove(&oldest) {
                cached.bytes -= bytes.len() + ENTRY_BYTES;
            }
        }
    }
}

/// The content of a file as a body.
pub(super) async fn load(shared: &Arc<Shared>, file: &AssetFile) -> Result<Body, EventError> {
    let damaged = |why: String| {
        EventError::new(format!(
            "The static file {} {why}; deploy again.",
            file.blob
        ))
    };
    let key = Key::new(format!("deploy/blobs/{}", file.blob))
        .map_err(|error| damaged(error.to_string()))?;
    if file.bytes > WHOLE_MAX_BYTES {
        let (sender, stream) = body_channel(Some(file.bytes));
        let (shared, file) = (shared.clone(), file.clone());
        shared
            .tokio
            .clone()
            .spawn(async move { pump(&shared, &key, &file, sender).await });
        return Ok(Body::Stream(stream));
    }
    let object = shared.store.bucket.get(&key).await;
    let object = object.map_err(|error| EventError {
        retryable: true,
        ..EventError::new(error.to_string())
    })?;
    let bytes = object
        .ok_or_else(|| damaged("is missing in the bucket".into()))?
        .bytes;
    if hash_of(Sha256::new_with_prefix(&bytes)) != file.blob {
        return Err(damaged(
            "does not have the content that its hash promises".into(),
        ));
    }
    shared.blobs.put(&file.blob, bytes.clone());
    Ok(Body::Bytes(bytes))
}

/// Sends a file piece by piece. Its last piece leaves when the hash of the whole is right.
async fn pump(shared: &Shared, key: &Key, file: &AssetFile, sender: BodySender) {
    let mut hash = Sha256::new();
    let mut at = 0;
    while at < file.bytes {
        let end = (at + PIECE_BYTES).min(file.bytes);
        let piece = match shared.store.bucket.get_range(key, at..end).await {
            Ok(Some(piece)) if piece.len() as u64 == end - at => piece,
            Ok(_) => {
                return fail(
                    &sender,
                    format!(
                        "The static file {} is missing or cut off in the bucket.",
                        file.blob
                    ),
                )
                .await;
            }
            Err(error) => return fail(&sender, error.to_string()).await,
        };
        hash.update(&piece);
        if end == file.bytes && hash_of(hash.clone()) != file.blob {
            return fail(
                &sender,
                format!("The static file {} is damaged in the bucket.", file.blob),
            )
            .await;
        }
        let mut rest = piece;
        while !rest.is_empty() {
            let chunk = rest.split_to(rest.len().min(BODY_CHUNK_MAX_BYTES));
            if sender.send(Ok(chunk)).await.is_err() {
                return;
            }
        }
        at = end;
    }
}

async fn fail(sender: &BodySender, why: String) {
    tracing::error!(why, "a static file cannot be served");
    // A reader that is gone needs no reason.
    let _ = sender.send(Err(BodyError::Failed(why))).await;
}

fn hash_of(hash: Sha256) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_content_goes_first() {
        let cache = BlobCache::default();
        let mib = |n: u8| Bytes::from(vec![n; 1 << 20]);
        for n in 0..60u8 {
            cache.put(&n.to_string(), mib(n));
        }
        assert_eq!(cache.get("0"), Some(mib(0)));
        for n in 60..64u8 {
            cache.put(&n.to_string(), mib(n));
        }
        assert_eq!(cache.get("1"), None);
        assert_eq!(cache.get("0"), Some(mib(0)));
        assert_eq!(cache.get("63"), Some(mib(63)));
        assert!(cache.0.lock().bytes <= CACHE_MAX_BYTES);
    }
}
