//! Watching a project.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::{Changes, Watcher, watch};
use super::support::Fixture;

/// Long enough for a loaded machine.
const SOON: Duration = Duration::from_secs(20);

/// Long enough for an event that should not come.
const NEVER: Duration = Duration::from_millis(400);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

fn next(watcher: &mut Watcher) -> Vec<PathBuf> {
    runtime()
        .block_on(async { tokio::time::timeout(SOON, watcher.changed()).await })
        .expect("a change in time")
        .expect("the watch goes on")
        .files
}

/// Waits for a change of `path`. A loaded machine may deliver one burst in several parts, so
/// announcements of earlier changes may come first.
fn until(watcher: &mut Watcher, path: &Path) {
    while !next(watcher).iter().any(|file| file == path) {}
}

fn quiet(watcher: &mut Watcher) -> Option<Changes> {
    runtime()
        .block_on(async { tokio::time::timeout(NEVER, watcher.changed()).await })
        .ok()
        .flatten()
}

fn project() -> (Fixture, Watcher) {
    let fixture = Fixture::new(&[
        ("src/index.ts", "1"),
        ("README.md", "read me"),
        ("wrangler.jsonc", "{}"),
        ("node_modules/p/index.js", "1"),
        ("node_modules/p/other.js", "1"),
    ]);
    let inputs = [
        "src/index.ts",
        "wrangler.jsonc",
        ".dev.vars",
        "node_modules/p/index.js",
    ]
    .map(|path| fixture.path(path));
    let watcher = watch(&fixture.options.project_dir, &inputs).expect("a watch");
    (fixture, watcher)
}

#[test]
fn a_changed_input_is_announced_once() {
    let (fixture, mut watcher) = project();
    for n in 0..5 {
        fixture.write("src/index.ts", format!("{n}"));
    }
    assert_eq!(next(&mut watcher), [fixture.path("src/index.ts")]);
    if let Some(again) = quiet(&mut watcher) {
        assert_eq!(again.files, [fixture.path("src/index.ts")]);
    }
    fixture.write("wrangler.jsonc", "{ }");
    until(&mut watcher, &fixture.path("wrangler.jsonc"));
}

#[test]
fn an_atomic_rename_is_a_change() {
    let (fixture, mut watcher) = project();
    for n in 0..3 {
        fixture.write("src/.index.ts.tmp", format!("new {n}"));
        std::fs::rename(
            fixture.path("src/.index.ts.tmp"),
            fixture.path("src/index.ts"),
        )
        .expect("renamed");
        until(&mut watcher, &fixture.path("src/index.ts"));
    }
}

#[test]
fn what_is_no_input_counts_only_when_it_appears_or_disappears() {
    let (fixture, mut watcher) = project();
    fixture.write("README.md", "changed");
    fixture.write("node_modules/p/other.js", "2");
    fixture.write("node_modules/p/new.js", "2");
    fixture.write(".celld/bucket/x", "2");
    fixture.write("src/.index.ts.swp", "2");
    assert_eq!(quiet(&mut watcher), None);
    fixture.write("src/missing.ts", "here");
    until(&mut watcher, &fixture.path("src/missing.ts"));
    std::fs::remove_file(fixture.path("src/missing.ts")).expect("removed");
    until(&mut watcher, &fixture.path("src/missing.ts"));
}

#[test]
fn an_ignored_directory_is_quiet() {
    let (fixture, mut watcher) = project();
    watcher.ignore(Path::new("data"));
    fixture.write("data/bucket/log/1", "x");
    assert_eq!(quiet(&mut watcher), None);
    fixture.write("database.ts", "x");
    until(&mut watcher, &fixture.path("database.ts"));
}

#[test]
fn inputs_inside_packages_and_absent_ones_are_watched() {
    let (fixture, mut watcher) = project();
    fixture.write("node_modules/p/index.js", "2");
    until(&mut watcher, &fixture.path("node_modules/p/index.js"));
    fixture.write(".dev.vars", "A=1");
    until(&mut watcher, &fixture.path(".dev.vars"));
    fixture.write("node_modules/.package-lock.json", "{}");
    until(
        &mut watcher,
        &fixture.path("node_modules/.package-lock.json"),
    );
}

#[test]
fn new_directories_are_watched_with_their_files() {
    let (fixture, mut watcher) = project();
    fixture.write("src/new/deep/a.ts", "1");
    assert!(!next(&mut watcher).is_empty());
    watcher
        .set_inputs(&[fixture.path("src/new/deep/a.ts")])
        .expect("watched");
    quiet(&mut watcher);
    fixture.write("src/new/deep/a.ts", "2");
    until(&mut watcher, &fixture.path("src/new/deep/a.ts"));
}

#[test]
fn a_project_that_is_not_there_cant_be_watched() {
    let error = watch(&PathBuf::from("/no/such/project"), &[])
        .map(|_| ())
        .expect_err("it is not there");
    assert!(error.to_string().contains("/no/such/project"), "{error}");
}
