//! `assets`.

use super::*;
use crate::manifest::{HtmlHandling, NotFoundHandling};

#[test]
fn static_assets_are_read_and_need_no_main() {
    let assets = good(
        r#""assets": {"directory": "./public", "binding": "ASSETS", "run_worker_first": true,
        "html_handling": "drop-trailing-slash", "not_found_handling": "404-page"}"#,
    )
    .assets
    .unwrap();
    assert_eq!(assets.directory, PathBuf::from("./public"));
    assert_eq!(assets.binding.as_deref(), Some("ASSETS"));
    assert_eq!(assets.html_handling, HtmlHandling::DropTrailingSlash);
    assert_eq!(assets.not_found_handling, NotFoundHandling::Page404);
    assert!(assets.run_worker_first);
    let plain = good(r#""assets": {"directory": "p", "run_worker_first": []}"#)
        .assets
        .unwrap();
    assert_eq!(
        (
            plain.html_handling,
            plain.not_found_handling,
            plain.run_worker_first
        ),
        (
            HtmlHandling::AutoTrailingSlash,
            NotFoundHandling::None,
            false
        )
    );
    assert_eq!(good(r#""assets": {}"#).assets, None);
    let text = "{\"name\": \"w\", \"compatibility_date\": \"2026-01-01\", \"assets\": {\"directory\": \"p\"}}";
    let (alone, warnings) = parse(Format::Jsonc, text, None).unwrap();
    assert!(alone.is_assets_only() && warnings.is_empty());
}

#[test]
fn static_assets_that_make_no_sense_are_refused() {
    for (rest, code, key, help) in [
        (
            r#""assets": {"binding": "A"}"#,
            Code::Missing,
            "assets",
            "./public",
        ),
        (r#""assets": "public""#, Code::Type, "assets", "object"),
        (
            r#""assets": {"directory": "p", "html_handling": "drop_trailing_slash"}"#,
            Code::Value,
            "assets.html_handling",
            "drop-trailing-slash",
        ),
        (
            r#""assets": {"directory": "p", "run_worker_first": ["/api/*"]}"#,
            Code::Unsupported,
            "assets.run_worker_first",
            "env.ASSETS.fetch",
        ),
        (
            r#""assets": {"directory": "p", "not_found_handlin": "none"}"#,
            Code::Misspelt,
            "assets.not_found_handlin",
            "not_found_handling",
        ),
        (
            r#""vars": {"A": "x"}, "assets": {"directory": "p", "binding": "A"}"#,
            Code::Conflict,
            "assets.binding",
            "rename",
        ),
    ] {
        let error = error(rest);
        assert_eq!((error.code, error.key.as_str()), (code, key), "{rest}");
        assert!(error.help.contains(help), "{rest}: {}", error.help);
    }
}
