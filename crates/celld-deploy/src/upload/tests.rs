//! Uploads against a bucket in memory, with faults, rivals and damage.

use std::sync::Arc;

use celld_bucket::testing::{Effect, Fault, MemoryBucket};
use celld_bucket::{Answer, Listing, Object, Operation};

use super::*;
use crate::bundle::Bundle;
use crate::config::Project;
use crate::manifest::{BundledModule, ModuleKind};

const REFUSE: UploadOptions = UploadOptions {
    implicit: Implicit::Refuse,
};

/// A program of one module with this text, from a configuration with `rest`.
fn draft_of(text: &str, rest: &str) -> Draft {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.js"), "").unwrap();
    let config = format!(
        "{{\"name\": \"w\", \"main\": \"m.js\", \"compatibility_date\": \"2026-01-01\", {rest}}}"
    );
    std::fs::write(dir.path().join("wrangler.jsonc"), config).unwrap();
    let (project, _) = Project::load(dir.path(), None).unwrap_or_else(|errors| panic!("{errors}"));
    let module = |specifier: &str, kind, text: &str, map: Option<&str>| BundledModule {
        specifier: specifier.into(),
        kind,
        bytes: text.to_owned().into(),
        source_map: map.map(|map| map.to_owned().into()),
    };
    let bundle = Bundle {
        main: "m.js".into(),
        modules: vec![
            module("m.js", ModuleKind::EsModule, text, Some("{\"version\":3}")),
            module("a.txt", ModuleKind::Text, "shared", None),
            module("b.txt", ModuleKind::Text, "shared", None),
        ],
        inputs: Vec::new(),
        warnings: Vec::new(),
    };
    Draft::new(&project, &bundle)
}

fn draft(text: &str) -> Draft {
    draft_of(text, "\"vars\": {\"A\": \"x\"}")
}

/// A program with these classes, one migration each.
fn with_classes(text: &str, classes: &[&str]) -> Draft {
    let migration = |(index, class): (usize, &&str)| {
        format!("{{\"tag\": \"v{index}\", \"new_sqlite_classes\": [\"{class}\"]}}")
    };
    let migrations: Vec<_> = classes.iter().enumerate().map(migration).collect();
    let binding =
        |class: &&str| format!("{{\"name\": \"{class}_NS\", \"class_name\": \"{class}\"}}");
    let bindings: Vec<_> = classes.iter().map(binding).collect();
    draft_of(
        text,
        &format!(
            "\"migrations\": [{}], \"durable_objects\": {{\"bindings\": [{}]}}",
            migrations.join(","),
            bindings.join(",")
        ),
    )
}

async fn put(bucket: &MemoryBucket, key: &Key, bytes: &[u8]) {
    assert!(matches!(
        bucket
            .put(key, Bytes::copy_from_slice(bytes), Condition::None)
            .await,
        Ok(PutOutcome::Done(_))
    ));
}

async fn pointer(bucket: &MemoryBucket) -> Pointer {
    read_pointer(bucket, "w").await.unwrap().unwrap().0
}

#[tokio::test]
async fn what_was_uploaded_is_fetched() {
    let bucket = MemoryBucket::new();
    let report = upload(&bucket, &with_classes("code", &["C"]), REFUSE)
        .await
        .unwrap();
    assert!(report.moved && report.previous.is_none());
    assert_eq!(
        (report.blobs_new, report.blobs_reused, report.bytes_new),
        (3, 0, 4 + 13 + 6)
    );
    let current = pointer(&bucket).await;
    assert_eq!(
        (current.deployment, current.registry.last_tag()),
        (report.id, Some("v0"))
    );
    let fetched = fetch_deployment(&bucket, "w", report.id).await.unwrap();
    assert_eq!(fetched.deployment, report.deployment);
    assert_eq!(fetched.modules[0].bytes, "code");
    assert_eq!(
        fetched.modules[0].source_map.as_deref(),
        Some(&b"{\"version\":3}"[..])
    );
    assert_eq!(fetched.modules[2].bytes, "shared");
    assert_eq!(fetched.deployment.classes["C"].namespace.as_str(), "w-C");
    assert_eq!(bucket.keys().len(), 5, "three blobs, a manifest, a pointer");
}

#[tokio::test]
async fn an_equal_upload_changes_nothing() {
    let bucket = MemoryBucket::new();
    let first = upload(&bucket, &draft("code"), REFUSE).await.unwrap();
    let before = pointer(&bucket).await;
    let again = upload(&bucket, &draft("code"), REFUSE).await.unwrap();
    assert_eq!(
        (again.id, again.moved, again.blobs_new, again.blobs_reused),
        (first.id, false, 0, 3)
    );
    assert_eq!(pointer(&bucket).await, before);
}

#[tokio::test]
async fn a_new_version_remembers_the_one_before() {
    let bucket = MemoryBucket::new();
    let first = upload(&bucket, &draft("one"), REFUSE).await.unwrap();
    let second = upload(&bucket, &draft("two"), REFUSE).await.unwrap();
    assert_eq!(
        (second.previous, second.blobs_new, second.blobs_reused),
        (Some(first.id), 1, 2)
    );
    assert_eq!(pointer(&bucket).await.previous, Some(first.id));
    assert!(
        fetch_deployment(&bucket, "w", first.id).await.is_ok(),
        "old versions stay"
    );
    let back = upload(&bucket, &draft("one"), REFUSE).await.unwrap();
    assert_eq!((back.id, back.moved), (first.id, true));
}

#[tokio::test]
async fn migrations_continue_from_the_pointer() {
    let bucket = MemoryBucket::new();
    upload(&bucket, &with_classes("one", &["A"]), REFUSE)
        .await
        .unwrap();
    let report = upload(&bucket, &with_classes("two", &["A", "B"]), REFUSE)
        .await
        .unwrap();
    assert_eq!(report.migration.tags, ["v1"]);
    assert_eq!(pointer(&bucket).await.registry.applied, ["v0", "v1"]);
}

#[tokio::test]
async fn a_migration_alone_moves_the_pointer() {
    let bucket = MemoryBucket::new();
    let bare = |tag: &str| draft_of("code", &format!("\"migrations\": [{tag}]"));
    let first = upload(&bucket, &bare(""), REFUSE).await.unwrap();
    let second = upload(&bucket, &bare("{\"tag\": \"v1\"}"), REFUSE)
        .await
        .unwrap();
    assert_eq!((second.id, second.moved), (first.id, true));
    assert_eq!(pointer(&bucket).await.registry.last_tag(), Some("v1"));
}

#[tokio::test]
async fn mistakes_are_found_before_anything_is_written() {
    let bucket = MemoryBucket::new();
    let unbound = draft_of(
        "code",
        "\"durable_objects\": {\"bindings\": [{\"name\": \"A\", \"class_name\": \"A\"}]}",
    );
    let error = upload(&bucket, &unbound, REFUSE).await.unwrap_err();
    assert!(
        matches!(&error, UploadError::Migrations(errors) if errors.errors[0].help.contains("new_sqlite_classes"))
    );
    assert!(bucket.keys().is_empty());
    let allowed = upload(
        &bucket,
        &unbound,
        UploadOptions {
            implicit: Implicit::Allow,
        },
    )
    .await
    .unwrap();
    assert_eq!(allowed.warnings().len(), 1);
}

/// Two uploads at once, each with a class of its own: one wins, and the other's migrations are
/// judged again, against what the first one recorded.
#[tokio::test]
async fn a_rival_makes_migrations_be_computed_anew() {
    let bucket = MemoryBucket::new();
    upload(&bucket, &with_classes("one", &["A"]), REFUSE)
        .await
        .unwrap();
    // The answer to this upload's read of the pointer is old by the time that it writes.
    bucket.script(Fault::once(
        Operation::Put,
        "deploy/w/versions/",
        Effect::Delay(Duration::from_millis(100)),
    ));
    let slow = tokio::spawn({
        let bucket = bucket.clone();
        async move { upload(&bucket, &with_classes("slow", &["A", "B"]), REFUSE).await }
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    let fast = upload(&bucket, &with_classes("fast", &["A", "B", "C"]), REFUSE)
        .await
        .unwrap();
    assert_eq!(fast.migration.tags, ["v1", "v2"]);
    // `v2` was applied meanwhile and is not in the slow project.
    let error = slow.await.unwrap().unwrap_err();
    assert!(matches!(error, UploadError::Migrations(_)), "{error}");
    assert_eq!(pointer(&bucket).await.deployment, fast.id);
}

#[tokio::test]
async fn many_rivals_all_get_through() {
    let bucket = Arc::new(MemoryBucket::new());
    let uploads = (0..4).map(|index| {
        let bucket = bucket.clone();
        tokio::spawn(
            async move { upload(&*bucket, &draft(&format!("code {index}")), REFUSE).await },
        )
    });
    let mut ids = Vec::new();
    for upload in uploads.collect::<Vec<_>>() {
        ids.push(upload.await.unwrap().unwrap().id);
    }
    assert!(ids.contains(&pointer(&bucket).await.deployment));
}

#[tokio::test]
async fn a_lost_answer_is_settled_by_reading_back() {
    for applied in [true, false] {
        let bucket = MemoryBucket::new();
        let first = upload(&bucket, &draft("one"), REFUSE).await.unwrap();
        let effect = if applied {
            Effect::LoseReply
        } else {
            Effect::LoseRequest
        };
        bucket.script(Fault::once(Operation::Put, "deploy/w/current", effect));
        let second = upload(&bucket, &draft("two"), REFUSE).await.unwrap();
        assert!(second.moved);
        assert_eq!(
            (second.previous, pointer(&bucket).await.deployment),
            (Some(first.id), second.id)
        );
    }
}

#[tokio::test]
async fn lost_answers_to_blobs_and_manifests_are_tried_again() {
    let bucket = MemoryBucket::new();
    for prefix in ["deploy/blobs/", "deploy/w/versions/"] {
        for effect in [Effect::LoseReply, Effect::FailBefore, Effect::LoseRequest] {
            bucket.script(Fault::once(Operation::Put, prefix, effect));
        }
    }
    let report = upload(&bucket, &draft("code"), REFUSE).await.unwrap();
    assert!(fetch_deployment(&bucket, "w", report.id).await.is_ok());
}

#[tokio::test]
async fn a_failing_bucket_leaves_the_pointer_alone() {
    let bucket = MemoryBucket::new();
    let first = upload(&bucket, &draft("one"), REFUSE).await.unwrap();
    for prefix in ["deploy/blobs/", "deploy/w/versions/", "deploy/w/current"] {
        bucket.script(Fault::always(Operation::Put, prefix, Effect::FailBefore));
        let error = upload(&bucket, &draft("two"), REFUSE).await.unwrap_err();
        assert!(
            matches!(error, UploadError::Bucket(_)) && error.to_string().contains("try again"),
            "{error}"
        );
        bucket.heal();
        assert_eq!(pointer(&bucket).await.deployment, first.id);
    }
}

/// A bucket that goes away in the middle of the pointer's write.
#[derive(Debug)]
struct GoesAway(MemoryBucket);

impl Bucket for GoesAway {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Object>> {
        self.0.get(key)
    }
    fn get_range<'a>(
        &'a self,
        key: &'a Key,
        range: std::ops::Range<u64>,
    ) -> Answer<'a, Option<Bytes>> {
        self.0.get_range(key, range)
    }
    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        condition: Condition,
    ) -> Answer<'a, PutOutcome> {
        if key.as_str().ends_with("/current") {
            self.0
                .script(Fault::once(Operation::Put, key.as_str(), Effect::LoseReply));
            self.0
                .script(Fault::always(Operation::Get, "", Effect::FailBefore));
        }
        self.0.put(key, bytes, condition)
    }
    fn delete<'a>(&'a self, key: &'a Key) -> Answer<'a, ()> {
        self.0.delete(key)
    }
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        start_after: Option<&'a str>,
        limit: usize,
    ) -> Answer<'a, Listing> {
        self.0.list(prefix, start_after, limit)
    }
}

#[tokio::test]
async fn an_outcome_that_cannot_be_known_is_called_so() {
    let error = upload(&GoesAway(MemoryBucket::new()), &draft("code"), REFUSE)
        .await
        .unwrap_err();
    assert!(
        matches!(error, UploadError::Unknown(_)) && error.to_string().contains("may or may not"),
        "{error}"
    );
}

#[tokio::test]
async fn damage_is_named() {
    let bucket = MemoryBucket::new();
    let report = upload(&bucket, &draft("code"), REFUSE).await.unwrap();
    let blob = blob_key(report.deployment.modules[0].sha256).unwrap();
    let fetch = || fetch_deployment(&bucket, "w", report.id);

    put(&bucket, &blob, b"c0de").await;
    let error = fetch().await.unwrap_err();
    assert!(
        matches!(error, FetchError::Hash { .. }) && error.to_string().contains(blob.as_str()),
        "{error}"
    );
    bucket.delete(&blob).await.unwrap();
    let error = fetch().await.unwrap_err();
    assert!(
        matches!(error, FetchError::Missing { .. }) && error.to_string().contains(blob.as_str()),
        "{error}"
    );

    let manifest = manifest_key("w", report.id).unwrap();
    let mut other = report.deployment.clone();
    other.crons.push("* * * * *".into());
    put(&bucket, &manifest, &other.to_json()).await;
    assert!(
        matches!(fetch().await.unwrap_err(), FetchError::Hash { key, .. } if key == manifest.as_str())
    );
    put(&bucket, &manifest, b"{\"format\": \"celld.deployment.v9\"}").await;
    assert!(
        fetch()
            .await
            .unwrap_err()
            .to_string()
            .contains("celld.deployment.v9")
    );
    bucket.delete(&manifest).await.unwrap();
    assert!(matches!(
        fetch().await.unwrap_err(),
        FetchError::Missing { .. }
    ));
}

#[tokio::test]
async fn a_pointer_that_is_not_understood_is_never_overwritten() {
    let bucket = MemoryBucket::new();
    let key = pointer_key("w").unwrap();
    for text in [
        "{\"format\": \"celld.pointer.v2\"}",
        "not json",
        "{}",
        "{\"format\": \"celld.pointer.v1\"}",
    ] {
        put(&bucket, &key, text.as_bytes()).await;
        let error = upload(&bucket, &draft("code"), REFUSE).await.unwrap_err();
        assert!(
            matches!(error, UploadError::Fetch(FetchError::Content { .. })),
            "{error}"
        );
        assert!(error.to_string().contains("deploy/w/current"), "{error}");
        assert_eq!(bucket.get(&key).await.unwrap().unwrap().bytes, text);
    }
    let report = {
        bucket.delete(&key).await.unwrap();
        upload(&bucket, &draft("code"), REFUSE).await.unwrap()
    };
    let mut foreign = pointer(&bucket).await;
    foreign.script = "other".into();
    put(&bucket, &key, &foreign.to_json()).await;
    assert!(
        read_pointer(&bucket, "w")
            .await
            .unwrap_err()
            .to_string()
            .contains("other")
    );
    assert!(fetch_deployment(&bucket, "other", report.id).await.is_err());
}

#[tokio::test]
async fn scripts_are_listed_without_walking_their_versions() {
    let bucket = MemoryBucket::new();
    for name in ["b", "a", "a-1", "a0", "blobs"] {
        let draft = draft_of(
            "code",
            &format!("\"env\": {{\"e\": {{\"name\": \"{name}\"}}}}"),
        );
        let mut pointer = Pointer {
            format: POINTER_FORMAT.into(),
            script: name.into(),
            deployment: draft
                .settle(&Registry::default(), Implicit::Refuse)
                .unwrap()
                .0
                .id(),
            previous: None,
            uploaded_ms: 1,
            upload: "0".into(),
            registry: Registry::default(),
        };
        pointer.script = name.into();
        put(&bucket, &pointer_key(name).unwrap(), &pointer.to_json()).await;
        put(
            &bucket,
            &manifest_key(name, pointer.deployment).unwrap(),
            b"x",
        )
        .await;
    }
    put(&bucket, &Key::new("deploy/never/versions/x").unwrap(), b"x").await;
    put(&bucket, &Key::new("deployed/x").unwrap(), b"x").await;
    assert_eq!(
        list_scripts(&bucket).await.unwrap(),
        ["a-1", "a", "a0", "b", "blobs"]
    );
    assert!(list_scripts(&MemoryBucket::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_preview_shows_what_would_happen_and_does_nothing() {
    let bucket = MemoryBucket::new();
    let draft = with_classes("code", &["C"]);
    let alone = plan(None, &draft, Implicit::Refuse).await.unwrap();
    assert_eq!((alone.current, alone.modules[0].upload), (None, None));
    let before = plan(Some(&bucket), &draft, Implicit::Refuse).await.unwrap();
    assert_eq!(
        (before.modules[0].upload, before.migrations.as_slice()),
        (Some(true), &["v0".to_owned()][..])
    );
    assert!(bucket.keys().is_empty());
    let report = upload(&bucket, &draft, REFUSE).await.unwrap();
    assert_eq!((alone.id, before.id), (report.id, report.id));
    let after = plan(Some(&bucket), &draft, Implicit::Refuse).await.unwrap();
    assert_eq!(
        (
            after.current,
            after.modules[0].upload,
            after.migrations.len()
        ),
        (Some(report.id), Some(false), 0)
    );
    let text = before.to_string();
    for part in [
        "m.js",
        "CompiledWasm",
        "C_NS",
        "Durable Object C (w-C)",
        "SQLite, namespace w-C  (new)",
        "v0",
    ] {
        assert_eq!(
            text.contains(part),
            part != "CompiledWasm",
            "{part} in {text}"
        );
    }
}

#[tokio::test]
async fn values_of_variables_are_in_no_message() {
    let draft = draft_of(
        "code",
        "\"vars\": {\"A\": \"secret\", \"B\": {\"x\": \"secret\"}}",
    );
    let preview = plan(None, &draft, Implicit::Refuse).await.unwrap();
    let shown = format!(
        "{preview} {preview:?} {draft:?} {}",
        serde_json::to_string(&preview).unwrap()
    );
    assert!(!shown.contains("secret"));
}

#[tokio::test]
async fn the_local_bucket_holds_deployments_too() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = celld_bucket::LocalBucket::open(dir.path()).unwrap();
    let report = upload(&bucket, &draft("one"), REFUSE).await.unwrap();
    let second = upload(&bucket, &draft("two"), REFUSE).await.unwrap();
    assert_eq!(second.previous, Some(report.id));
    assert!(fetch_deployment(&bucket, "w", report.id).await.is_ok());
    assert_eq!(list_scripts(&bucket).await.unwrap(), ["w"]);
}

/// A draft with static files of these names and texts, and the directory that holds them.
fn with_files(files: &[(&str, &str)]) -> (Draft, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let place = serde_json::json!(dir.path());
    let rest = format!("\"assets\": {{\"directory\": {place}, \"binding\": \"FILES\"}}");
    let config = format!(
        "{{\"name\": \"w\", \"compatibility_date\": \"2026-01-01\", \"main\": \"m.js\", {rest}}}"
    );
    let project_dir = tempfile::tempdir().unwrap();
    std::fs::write(project_dir.path().join("m.js"), "").unwrap();
    std::fs::write(project_dir.path().join("wrangler.json"), config).unwrap();
    let (project, _) = Project::load(project_dir.path(), None).unwrap();
    let collected = crate::assets::collect(project.assets.as_ref().unwrap()).unwrap();
    (draft_of("1", &rest).with_assets(&project, &collected), dir)
}

#[tokio::test]
async fn static_files_are_stored_once_and_not_fetched_with_the_modules() {
    let bucket = MemoryBucket::new();
    let (draft, _dir) = with_files(&[("a.txt", "same"), ("b.txt", "same"), ("c", "other")]);
    let report = upload(&bucket, &draft, REFUSE).await.unwrap();
    // Two modules' contents, a source map and two files' contents.
    assert_eq!((report.blobs_new, report.blobs_reused), (5, 0));
    let again = upload(&bucket, &draft, REFUSE).await.unwrap();
    assert_eq!((again.blobs_new, again.moved), (0, false));
    let fetched = fetch_deployment(&bucket, "w", report.id).await.unwrap();
    assert_eq!(fetched.modules.len(), 3);
    assert_eq!(
        fetched.deployment.bindings["FILES"],
        crate::manifest::Binding::Assets {}
    );
    let files = fetched.deployment.assets.unwrap().files;
    assert_eq!(
        files
            .iter()
            .map(|file| file.path.as_str())
            .collect::<Vec<_>>(),
        ["/a.txt", "/b.txt", "/c"]
    );
    for file in files {
        let object = bucket
            .get(&blob_key(file.sha256).unwrap())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(BlobHash::of(&object.bytes), file.sha256);
    }
}

#[tokio::test]
async fn a_static_file_that_changes_during_the_upload_stops_it() {
    let bucket = MemoryBucket::new();
    let (draft, dir) = with_files(&[("a.txt", "before")]);
    std::fs::write(dir.path().join("a.txt"), "after").unwrap();
    let error = upload(&bucket, &draft, REFUSE)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a.txt") && error.contains("deploy again"),
        "{error}"
    );
    assert!(read_pointer(&bucket, "w").await.unwrap().is_none());
}
