//! Every bucket keeps the contract, and the contract catches buckets that do not.

use celld_bucket::testing::{Effect, Fault, MemoryBucket, bucket_contract};
use celld_bucket::{
    Bucket, BucketError, Condition, Counted, Key, LocalBucket, Operation, Outcome, PutOutcome,
    open_url,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_bucket_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = LocalBucket::open(dir.path()).unwrap();
    for _ in 0..3 {
        bucket_contract(&bucket).await.unwrap();
    }
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|item| item.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "only ~tmp and ~locks remain: {left:?}");
    assert_eq!(
        std::fs::read_dir(dir.path().join("~tmp")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn the_memory_bucket_keeps_the_contract() {
    let bucket = MemoryBucket::new();
    bucket_contract(&bucket).await.unwrap();
    assert_eq!(bucket.keys(), []);
}

#[tokio::test]
async fn a_counted_bucket_behind_an_arc_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = open_url(&format!("file://{}", dir.path().display())).unwrap();
    bucket_contract(&Counted::new(bucket, &["contract"]))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_contract_catches_a_bucket_that_ignores_conditions() {
    let bucket = MemoryBucket::new();
    bucket.script(Fault::always(Operation::Put, "", Effect::IgnoreCondition));
    let broken = bucket_contract(&bucket).await.unwrap_err().to_string();
    assert!(
        broken.contains("a create of what exists is a conflict"),
        "{broken}"
    );
}

#[tokio::test]
async fn the_contract_catches_a_stale_listing() {
    let bucket = MemoryBucket::new();
    bucket.script(Fault::always(
        Operation::List,
        "contract/list/",
        Effect::StaleList,
    ));
    let broken = bucket_contract(&bucket).await.unwrap_err().to_string();
    assert!(broken.contains("pages give every key once"), "{broken}");
}

#[tokio::test]
async fn scripted_faults_hit_as_they_say() {
    let bucket = MemoryBucket::new();
    let key = Key::new("cells/a").unwrap();
    bucket.script(Fault::once(Operation::Put, "cells/", Effect::FailBefore));
    bucket.script(Fault::once(Operation::Put, "cells/", Effect::LoseRequest));
    bucket.script(Fault::once(Operation::Put, "cells/", Effect::LoseReply));
    let put = || bucket.put(&key, "x".into(), Condition::IfAbsent);
    assert!(!put().await.unwrap_err().is_ambiguous());
    assert!(put().await.unwrap_err().is_ambiguous());
    assert_eq!(bucket.get(&key).await.unwrap(), None);
    assert!(put().await.unwrap_err().is_ambiguous());
    assert!(bucket.get(&key).await.unwrap().is_some());
    assert_eq!(put().await.unwrap(), PutOutcome::Conflict);
}

#[tokio::test]
async fn requests_are_counted_by_operation_class_and_outcome() {
    let bucket = Counted::new(MemoryBucket::new(), &["cells"]);
    let key = Key::new("cells/a").unwrap();
    let stray = Key::new("stray").unwrap();
    for _ in 0..2 {
        let _ = bucket
            .put(&key, "x".into(), Condition::IfAbsent)
            .await
            .unwrap();
    }
    bucket.get(&key).await.unwrap();
    bucket.get(&stray).await.unwrap();
    bucket
        .inner()
        .script(Fault::once(Operation::Delete, "", Effect::LoseReply));
    bucket.delete(&key).await.unwrap_err();
    bucket.inner().script(Fault::once(
        Operation::Get,
        "",
        Effect::Delay(std::time::Duration::from_secs(60)),
    ));
    let dropped = tokio::time::timeout(std::time::Duration::from_millis(1), bucket.get(&key)).await;
    assert!(dropped.is_err());
    let seen: Vec<_> = bucket
        .snapshot()
        .into_iter()
        .map(|c| (c.operation, c.class, c.outcome, c.requests))
        .collect();
    let expected = [
        (Operation::Get, "cells", Outcome::Done, 1),
        (Operation::Get, "cells", Outcome::Ambiguous, 1),
        (Operation::Put, "cells", Outcome::Done, 1),
        (Operation::Put, "cells", Outcome::Conflict, 1),
        (Operation::Delete, "cells", Outcome::Ambiguous, 1),
        (Operation::Get, "other", Outcome::Absent, 1),
    ];
    assert_eq!(seen, expected);
    assert_eq!(bucket.requests(), 6);
}

#[tokio::test]
async fn damaged_and_foreign_files_are_named_and_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = LocalBucket::open(dir.path()).unwrap();
    let key = Key::new("cells/a").unwrap();
    let _ = bucket
        .put(&key, "content".into(), Condition::None)
        .await
        .unwrap();
    let file = dir.path().join("cells/a~");
    let sound = std::fs::read(&file).unwrap();
    let mut rotten = sound.clone();
    *rotten.last_mut().unwrap() ^= 1;
    let mut later = sound.clone();
    later[8] = 2;
    for (raw, word) in [
        (&sound[..sound.len() - 1], "truncated"),
        (&sound[..10], "shorter than a header"),
        (b"", "shorter than a header"),
        (&[b'x'; 100], "not written by a bucket"),
        (&later, "does not know"),
        (&rotten, "checksum is wrong"),
    ] {
        std::fs::write(&file, raw).unwrap();
        let error = bucket.get(&key).await.unwrap_err();
        assert!(
            matches!(&error, BucketError::Damaged { place, .. } if place == file.to_str().unwrap()),
            "{error}"
        );
        assert!(error.to_string().contains(word), "{error}");
        if raw != &rotten[..] {
            bucket
                .put(&key, "new".into(), Condition::None)
                .await
                .unwrap_err();
        }
        assert_eq!(
            bucket
                .put(&key, "new".into(), Condition::IfAbsent)
                .await
                .unwrap(),
            PutOutcome::Conflict
        );
        assert_eq!(std::fs::read(&file).unwrap(), raw);
    }
    bucket.delete(&key).await.unwrap();
    let _ = bucket
        .put(&key, "new".into(), Condition::IfAbsent)
        .await
        .unwrap();
}

#[tokio::test]
async fn old_temporary_files_are_cleared_and_young_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    LocalBucket::open(dir.path()).unwrap();
    let file = |name: &str| dir.path().join("~tmp").join(name);
    for name in ["old", "young"] {
        std::fs::write(file(name), "").unwrap();
    }
    let two_hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7_200);
    std::fs::File::open(file("old"))
        .unwrap()
        .set_modified(two_hours_ago)
        .unwrap();
    LocalBucket::open(dir.path()).unwrap();
    assert!(!file("old").exists() && file("young").exists());
}

#[test]
fn a_file_is_no_bucket_directory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let message = LocalBucket::open(file.path()).unwrap_err().to_string();
    assert!(message.contains(file.path().to_str().unwrap()), "{message}");
}
