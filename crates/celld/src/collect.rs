//! Drops the data of Durable Object classes that migrations deleted.
//!
//! The namespace of a deleted class stands in its script's pointer for ever, and is never given
//! again, so its data can be dropped at any time once nothing serves it: here, when this node
//! runs the very deployment that the pointer names. A pass does a bounded amount of work, with
//! pauses; objects that are still leaving write their records once more, which the next pass finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use celld_bucket::{Bucket, BucketError};
use celld_core::NamespaceKey;
use celld_deploy::manifest::DeploymentId;
use celld_deploy::upload::{FetchError, Pointer, list_scripts, read_pointer};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Pause between two passes when there is nothing to do. One listing each time and one for every
/// deleted class: less than one request in a minute.
const REST: Duration = Duration::from_secs(600);
/// Pause while objects of a deleted class may still be on their way out.
const SOON: Duration = Duration::from_secs(5);
/// Passes that follow each other soon after a change, until the last object has left.
const SOON_PASSES: u32 = 10;
/// Objects that one pass drops at most.
const DROPS_MAX: usize = 5_000;
/// Objects between two pauses.
const DROPS_PER_STEP: usize = 100;
/// Pause between two steps, so that requests have the bucket too.
const STEP_PAUSE: Duration = Duration::from_millis(50);

/// Which deployment of each Worker this node serves, and news about it.
#[derive(Default)]
pub struct Serving {
    deployments: Mutex<BTreeMap<String, DeploymentId>>,
    changed: Notify,
}

impl Serving {
    /// A deployment has been adopted.
    pub fn adopted(&self, script: &str, id: DeploymentId) {
        self.deployments.lock().insert(script.to_owned(), id);
        self.changed.notify_one();
    }
}

/// Drops data of deleted classes, for ever.
pub async fn run(bucket: Arc<dyn Bucket>, serving: Arc<Serving>) {
    let mut soon = SOON_PASSES;
    loop {
        match pass(&*bucket, &serving).await {
            Ok(0) => {}
            Ok(dropped) => {
                tracing::info!(dropped, "dropped records of deleted Durable Object classes");
                soon = SOON_PASSES;
            }
            Err(error) => tracing::warn!("cannot drop the data of deleted classes yet: {error}"),
        }
        let pause = if soon > 0 { SOON } else { REST };
        soon = soon.saturating_sub(1);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = serving.changed.notified() => soon = SOON_PASSES,
        }
    }
}

/// One pass: how many objects it dropped.
async fn pass(bucket: &dyn Bucket, serving: &Serving) -> Result<usize, FetchError> {
    let mut pointers = Vec::new();
    for script in list_scripts(bucket).await? {
        if let Some((pointer, _)) = read_pointer(bucket, &script).await? {
            pointers.push(pointer);
        }
    }
    let served = serving.deployments.lock().clone();
    let mut dropped = 0;
    for namespace in unneeded(&pointers, &served) {
        dropped += drop_cells(bucket, &namespace, DROPS_MAX - dropped).await?;
    }
    Ok(dropped)
}

/// Namespaces whose data nothing needs: retired by a pointer that this node serves, and live in no
/// pointer at all.
fn unneeded(
    pointers: &[Pointer],
    served: &BTreeMap<String, DeploymentId>,
) -> BTreeSet<NamespaceKey> {
    let live: BTreeSet<&NamespaceKey> = pointers
        .iter()
        .flat_map(|pointer| pointer.registry.classes.values())
        .map(|namespace| &namespace.key)
        .collect();
    pointers
        .iter()
        .filter(|pointer| served.get(&pointer.script) == Some(&pointer.deployment))
        .flat_map(|pointer| &pointer.registry.retired)
        .map(|retired| &retired.key)
        .filter(|key| !live.contains(key))
        .cloned()
        .collect()
}

/// Drops at most `most` records of a namespace.
async fn drop_cells(
    bucket: &dyn Bucket,
    namespace: &NamespaceKey,
    most: usize,
) -> Result<usize, BucketError> {
    let prefix = format!("cells/{namespace}/");
    let mut dropped = 0;
    while dropped < most {
        let step = DROPS_PER_STEP.min(most - dropped);
        let page = bucket.list(&prefix, None, step).await?;
        if page.objects.is_empty() {
            break;
        }
        for object in &page.objects {
            bucket.delete(&object.key).await?;
            dropped += 1;
        }
        if !page.truncated {
            break;
        }
        tokio::time::sleep(STEP_PAUSE).await;
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use celld_bucket::{BucketUrl, Condition, Key};
    use celld_deploy::migrations::{Namespace, Registry, Retired};
    use celld_deploy::upload::POINTER_FORMAT;

    use super::*;

    fn key(text: &str) -> NamespaceKey {
        NamespaceKey::new(text).unwrap()
    }

    fn pointer(script: &str, id: u8, live: &[&str], retired: &[&str]) -> Pointer {
        let class = |name: &&str| {
            let namespace = Namespace {
                key: key(name),
                sqlite: true,
                implicit: false,
            };
            ((*name).to_owned(), namespace)
        };
        let gone = |name: &&str| Retired {
            class: (*name).to_owned(),
            key: key(name),
        };
        Pointer {
            format: POINTER_FORMAT.into(),
            script: script.into(),
            deployment: deployment(id),
            previous: None,
            uploaded_ms: 0,
            upload: "token".into(),
            registry: Registry {
                classes: live.iter().map(class).collect(),
                applied: Vec::new(),
                retired: retired.iter().map(gone).collect(),
            },
        }
    }

    fn deployment(id: u8) -> DeploymentId {
        serde_json::from_value(serde_json::json!(hex(id))).unwrap()
    }

    fn hex(id: u8) -> String {
        format!("{id:02x}").repeat(16)
    }

    #[test]
    fn only_what_nothing_serves_and_nothing_declares_is_dropped() {
        let pointers = [
            pointer("a", 1, &["a-Live"], &["a-Gone", "a-Moved"]),
            pointer("b", 2, &["a-Moved"], &["b-Gone"]),
        ];
        let served = |list: &[(&str, u8)]| {
            let served = list.iter();
            served
                .map(|(script, id)| ((*script).to_owned(), deployment(*id)))
                .collect::<BTreeMap<_, _>>()
        };
        let dropped = |list| -> Vec<String> {
            let keys = unneeded(&pointers, &served(list));
            keys.iter().map(ToString::to_string).collect()
        };
        assert_eq!(dropped(&[("a", 1), ("b", 2)]), ["a-Gone", "b-Gone"]);
        assert_eq!(dropped(&[("a", 1), ("b", 1)]), ["a-Gone"], "older code");
        assert_eq!(dropped(&[]), [""; 0]);
    }

    #[tokio::test]
    async fn records_of_one_namespace_go_and_no_more_than_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", dir.path().display());
        let bucket = BucketUrl::parse(&url).unwrap().open().unwrap();
        let keys = |namespace: &str, count: usize| -> Vec<Key> {
            (0..count)
                .map(|n| Key::new(format!("cells/{namespace}/{n:064x}")).unwrap())
                .collect()
        };
        let (gone, near) = (keys("a-Gone", 250), keys("a-Gone-2", 3));
        for key in gone.iter().chain(&near) {
            let put = bucket.put(key, "x".into(), Condition::None).await.unwrap();
            assert!(matches!(put, celld_bucket::PutOutcome::Done(_)));
        }
        let namespace = key("a-Gone");
        assert_eq!(drop_cells(&*bucket, &namespace, 120).await.unwrap(), 120);
        assert_eq!(drop_cells(&*bucket, &namespace, 5_000).await.unwrap(), 130);
        assert_eq!(drop_cells(&*bucket, &namespace, 5_000).await.unwrap(), 0);
        let left = bucket.list("cells/", None, 1_000).await.unwrap();
        assert_eq!(left.objects.len(), near.len());
    }
}
