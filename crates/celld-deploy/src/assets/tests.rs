//! Which files of a directory are served.

use super::*;
use crate::config::Origin;
use crate::manifest::{HtmlHandling, NotFoundHandling};

fn site(files: &[(&str, &str)]) -> (tempfile::TempDir, AssetsConfig) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let file = dir.path().join("public").join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let config = AssetsConfig {
        directory: dir.path().join("public"),
        binding: None,
        html_handling: HtmlHandling::AutoTrailingSlash,
        not_found_handling: NotFoundHandling::None,
        run_worker_first: false,
        origin: Origin::default(),
    };
    (dir, config)
}

fn paths(collected: &Collected) -> Vec<&str> {
    collected
        .assets
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect()
}

#[test]
fn files_are_listed_with_hash_and_type() {
    let (_dir, config) = site(&[("index.html", "<p>"), ("a/b.css", "x"), ("a/LICENSE", "")]);
    let collected = collect(&config).unwrap();
    assert_eq!(paths(&collected), ["/a/LICENSE", "/a/b.css", "/index.html"]);
    let index = &collected.assets.files[2];
    assert_eq!((index.sha256, index.bytes), (BlobHash::of(b"<p>"), 3));
    assert_eq!(
        index.content_type.as_deref(),
        Some("text/html; charset=utf-8")
    );
    assert!(collected.sources[2].ends_with("index.html"));
    assert!(collected.warnings.is_empty());
}

#[test]
fn what_steers_or_is_private_is_left_out() {
    let (_dir, config) = site(&[
        (
            ".assetsignore",
            "*.map\n!keep.map\n/only-root.txt\nsecret/\n# a comment\n",
        ),
        ("_headers", ""),
        ("_redirects", ""),
        (".dev.vars", "K=1"),
        (".git/config", ""),
        ("sub/node_modules/x.js", ""),
        ("a.map", ""),
        ("keep.map", ""),
        ("only-root.txt", ""),
        ("sub/only-root.txt", ""),
        ("sub/secret/x.txt", ""),
        ("sub/_headers", ""),
    ]);
    let collected = collect(&config).unwrap();
    assert_eq!(
        paths(&collected),
        ["/keep.map", "/sub/_headers", "/sub/only-root.txt"]
    );
    let warned: Vec<_> = collected
        .warnings
        .iter()
        .map(|warning| &warning.0.message)
        .collect();
    assert!(
        warned[0].contains("_headers") && warned[1].contains("_redirects"),
        "{warned:?}"
    );
}

#[test]
fn links_may_not_leave_the_directory_or_loop() {
    use std::os::unix::fs::symlink;
    let (dir, config) = site(&[("a.txt", "a"), ("sub/b.txt", "b")]);
    symlink("a.txt", dir.path().join("public/link.txt")).unwrap();
    assert_eq!(
        paths(&collect(&config).unwrap()),
        ["/a.txt", "/link.txt", "/sub/b.txt"]
    );
    symlink("..", dir.path().join("public/sub/up")).unwrap();
    assert!(
        collect(&config)
            .unwrap_err()
            .to_string()
            .contains("holds it")
    );
    std::fs::remove_file(dir.path().join("public/sub/up")).unwrap();
    std::fs::write(dir.path().join("outside"), "secret").unwrap();
    symlink("../outside", dir.path().join("public/out")).unwrap();
    let error = collect(&config).unwrap_err().to_string();
    assert!(
        error.contains("public/out") && error.contains("leaves"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_served_is_named() {
    let (dir, config) = site(&[("_worker.js", "")]);
    assert!(
        collect(&config)
            .unwrap_err()
            .to_string()
            .contains("_worker.js")
    );
    let (large_dir, large) = site(&[("x.bin", "")]);
    let file = std::fs::File::create(large_dir.path().join("public/x.bin")).unwrap();
    file.set_len(FILE_MAX_BYTES + 1).unwrap();
    assert!(collect(&large).unwrap_err().to_string().contains("25 MiB"));
    std::fs::write(dir.path().join("public/.assetsignore"), "a{b").unwrap();
    assert!(collect(&config).unwrap_err().to_string().contains("line 1"));
    std::fs::remove_dir_all(dir.path().join("public")).unwrap();
    assert!(
        collect(&config)
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
}
