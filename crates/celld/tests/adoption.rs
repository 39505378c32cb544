//! `celld deploy` and `celld run`: adoption without a dropped request, and damage in the bucket.

mod support;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use support::http::Connection;
use support::{Celld, Project, eventually, fails, files, succeeds};

const WRANGLER: &str = r#"{
  "name": "adopted",
  "main": "index.js",
  "compatibility_date": "2026-06-01",
  "durable_objects": { "bindings": [{ "name": "CELL", "class_name": "Cell" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Cell"] }]
}"#;

fn code(version: u32) -> String {
    format!(
        r#"import {{ DurableObject }} from "cloudflare:workers";
export class Cell extends DurableObject {{
  async fetch() {{
    const count = ((await this.ctx.storage.get("count")) ?? 0) + 1;
    await this.ctx.storage.put("count", count);
    await scheduler.wait(2);
    return new Response("v{version} " + count);
  }}
}}
export default {{
  async fetch(request, env) {{
    const {{ pathname }} = new URL(request.url);
    if (pathname === "/throws") throw new Error("not for the client");
    if (pathname === "/slow") await scheduler.wait(300);
    if (pathname.startsWith("/cell")) return env.CELL.getByName(pathname).fetch(request);
    return new Response("v{version}");
  }},
}};
"#
    )
}

fn deployed() -> Project {
    let project = Project::new(WRANGLER, &code(1));
    deploy(&project);
    project
}

fn deploy(project: &Project) -> String {
    let folder = project.path().to_str().expect("UTF-8");
    succeeds(&["deploy", folder, "--bucket", &project.bucket_url()])
}

/// Requests one path again and again; every answer must be 200.
fn hammer(port: u16, path: &str, stop: &AtomicBool, answers: &AtomicU64) -> Vec<String> {
    let mut connection = Connection::open(port).expect("connect");
    let mut texts = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let answer = connection.request("GET", path, b"");
        let answer = answer.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        texts.push(answer.text());
        answers.fetch_add(1, Ordering::Relaxed);
        if answer.header("connection") == Some("close") {
            connection = Connection::open(port).expect("connect again");
        }
    }
    texts
}

#[test]
fn a_newer_deployment_is_adopted_without_a_dropped_request() {
    let project = deployed();
    let server = Celld::run(&project);
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let port = server.port();
    let paths = ["/", "/slow", "/cell1", "/cell2"];
    thread::scope(|scope| {
        let clients: Vec<_> = paths
            .iter()
            .map(|path| scope.spawn(|| hammer(port, path, &stop, &answers)))
            .collect();
        for version in 2..=4 {
            thread::sleep(Duration::from_millis(300));
            project.write("index.js", &code(version));
            deploy(&project);
            let wanted = format!("v{version}");
            eventually("the deployment is adopted", || {
                server.get("/").text() == wanted
            });
        }
        thread::sleep(Duration::from_millis(700));
        stop.store(true, Ordering::Relaxed);
        for (client, path) in clients.into_iter().zip(paths) {
            let texts = client.join().expect("no request is dropped");
            assert!(
                texts.last().is_some_and(|text| text.starts_with("v4")),
                "{path}"
            );
            if path.starts_with("/cell") {
                counts_go_up(&texts);
            }
        }
    });
    assert!(answers.load(Ordering::Relaxed) > 100, "there was load");
}

/// A cell counts on over the change of its code.
fn counts_go_up(texts: &[String]) {
    let counts: Vec<u64> = texts
        .iter()
        .filter_map(|text| text.split(' ').nth(1)?.parse().ok())
        .collect();
    assert_eq!(counts.len(), texts.len());
    assert!(
        counts.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{counts:?}"
    );
}

#[test]
fn an_exception_is_logged_and_not_told_to_the_client() {
    let project = deployed();
    let server = Celld::run(&project);
    let answer = server.get("/throws");
    assert_eq!(answer.status, 500);
    assert!(!answer.text().contains("not for"), "{}", answer.text());
    assert!(!answer.text().contains("index.js"), "{}", answer.text());
    server.prints("not for the client");
}

#[test]
fn the_same_code_is_uploaded_once() {
    let project = deployed();
    let before = files(&project.bucket()).expect("the bucket");
    deploy(&project);
    let after = files(&project.bucket()).expect("the bucket");
    let blobs = |list: &[PathBuf]| {
        let is_blob = |path: &&PathBuf| path.to_string_lossy().contains("/deploy/blobs/");
        list.iter().filter(is_blob).count()
    };
    assert_eq!(blobs(&before), blobs(&after));
    assert!(blobs(&before) > 0);
}

#[test]
fn an_empty_bucket_says_what_to_do() {
    let project = Project::new(WRANGLER, &code(1));
    fs::create_dir(project.bucket()).expect("an empty bucket");
    let said = fails(&[
        "run",
        "--bucket",
        &project.bucket_url(),
        "--listen",
        "127.0.0.1:0",
    ]);
    assert!(said.contains("celld deploy"), "{said}");
}

fn find(project: &Project, part: &str) -> PathBuf {
    let all = files(&project.bucket()).expect("the bucket");
    let found = all
        .iter()
        .find(|path| path.to_string_lossy().contains(part));
    found
        .unwrap_or_else(|| panic!("no {part} in {all:?}"))
        .clone()
}

fn refuses_damage(part: &str, damage: impl Fn(Vec<u8>) -> Vec<u8>) {
    let project = deployed();
    let path = find(&project, part);
    let bytes = fs::read(&path).expect("read");
    fs::write(&path, damage(bytes)).expect("write");
    let said = fails(&[
        "run",
        "--bucket",
        &project.bucket_url(),
        "--listen",
        "127.0.0.1:0",
    ]);
    assert!(
        said.contains(part.trim_matches('/')),
        "{part} is not named in:\n{said}"
    );
}

fn garbage(_: Vec<u8>) -> Vec<u8> {
    b"\xff\xfe not what celld wrote".to_vec()
}

fn half(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() / 2);
    bytes
}

fn flipped(mut bytes: Vec<u8>) -> Vec<u8> {
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes
}

#[test]
fn a_damaged_pointer_is_named() {
    refuses_damage("/current", garbage);
    refuses_damage("/current", half);
}

#[test]
fn a_damaged_manifest_is_named() {
    refuses_damage("manifest.json", garbage);
    refuses_damage("manifest.json", half);
}

#[test]
fn a_damaged_module_is_named() {
    refuses_damage("deploy/blobs/", flipped);
    refuses_damage("deploy/blobs/", half);
}

#[test]
fn a_running_node_keeps_its_code_when_the_newest_deployment_is_damaged() {
    let project = deployed();
    let server = Celld::run(&project);
    let pointer = find(&project, "/current");
    fs::write(&pointer, b"{ not a pointer").expect("write");
    server.prints("current");
    assert_eq!(server.get("/").text(), "v1");
    assert_eq!(server.get("/cell1").text(), "v1 1");
}

#[test]
fn foreign_objects_in_the_bucket_are_left_alone() {
    let project = deployed();
    let strangers = [
        "readme.txt",
        "deploy/stranger",
        "cells/stranger",
        "log/stranger",
        "alarms/stranger",
    ];
    for name in strangers {
        let path = project.bucket().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
        fs::write(path, b"not celld's").expect("write");
    }
    let server = Celld::run(&project);
    assert_eq!(server.get("/cell1").text(), "v1 1");
    server.kill();
    let server = Celld::run(&project);
    assert_eq!(server.get("/cell1").text(), "v1 2");
    for name in strangers {
        let text = fs::read(project.bucket().join(name)).expect("still there");
        assert_eq!(text, b"not celld's", "{name}");
    }
}
