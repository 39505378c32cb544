//! What the command line refuses, and how well it says so: what, where, and what to do.

mod support;

use std::net::TcpListener;

use support::{Celld, Project, fails, succeeds};

const HELLO: &str = "export default { fetch: () => new Response('hello') };\n";

fn wrangler(extra: &str) -> String {
    format!(
        "{{\n  \"name\": \"refused\",\n  \"main\": \"index.js\",\n  \"compatibility_date\": \"2026-06-01\"{extra}\n}}\n"
    )
}

/// Runs `celld deploy --dry-run` on a project that it must refuse with all of `texts`.
fn refused(wrangler: &str, code: &str, texts: &[&str]) {
    let project = Project::new(wrangler, code);
    let said = fails(&[
        "deploy",
        folder(&project),
        "--dry-run",
        "--bucket",
        &project.bucket_url(),
    ]);
    for text in texts {
        assert!(said.contains(text), "{text:?} is missing in:\n{said}");
    }
    assert!(!said.contains("\u{1b}["), "colours in a pipe:\n{said}");
    assert!(!project.bucket().exists(), "a dry run makes no bucket");
}

fn folder(project: &Project) -> &str {
    project.path().to_str().expect("UTF-8")
}

#[test]
fn a_misspelt_key_gets_a_suggestion() {
    let text = wrangler(",\n  \"compatability_flags\": []");
    refused(
        &text,
        HELLO,
        &[
            "compatability_flags",
            "compatibility_flags",
            "wrangler.jsonc:5",
        ],
    );
}

#[test]
fn a_key_that_is_not_supported_is_named_with_its_line() {
    let text = wrangler(",\n  \"kv_namespaces\": [{ \"binding\": \"KV\", \"id\": \"x\" }]");
    refused(&text, HELLO, &["kv_namespaces", "wrangler.jsonc:5"]);
}

#[test]
fn a_value_of_the_wrong_type_is_refused() {
    refused(
        &wrangler(",\n  \"compatibility_flags\": \"nodejs_compat\""),
        HELLO,
        &["compatibility_flags", "wrangler.jsonc:5"],
    );
}

#[test]
fn broken_json_is_shown_with_its_place() {
    refused(
        "{\n  \"name\": \"x\",\n  \"main\" \"index.js\"\n}",
        HELLO,
        &["wrangler.jsonc:3"],
    );
}

#[test]
fn a_bad_compatibility_date_is_refused() {
    let text =
        "{ \"name\": \"x\", \"main\": \"index.js\", \"compatibility_date\": \"2026-13-01\" }";
    refused(text, HELLO, &["compatibility_date", "2026-13-01"]);
}

#[test]
fn a_missing_main_file_is_named() {
    let text = wrangler("").replace("index.js", "src/none.ts");
    refused(&text, HELLO, &["src/none.ts"]);
}

#[test]
fn a_syntax_error_is_shown_with_file_line_and_excerpt() {
    let code = "const a = 1;\nexport default { fetch( { };\n";
    refused(
        &wrangler(""),
        code,
        &["index.js:2", "export default { fetch( { };"],
    );
}

#[test]
fn an_import_that_does_not_exist_is_named() {
    let code = format!("import x from \"no-such-package\";\n{HELLO}");
    refused(&wrangler(""), &code, &["no-such-package", "index.js:1"]);
}

#[test]
fn a_class_that_is_not_exported_is_named() {
    let text = wrangler(
        ",\n  \"durable_objects\": { \"bindings\": [{ \"name\": \"A\", \"class_name\": \"Absent\" }] },\n  \"migrations\": [{ \"tag\": \"v1\", \"new_sqlite_classes\": [\"Absent\"] }]",
    );
    refused(&text, HELLO, &["Absent"]);
}

#[test]
fn a_class_without_a_migration_is_refused() {
    let text = wrangler(
        ",\n  \"durable_objects\": { \"bindings\": [{ \"name\": \"A\", \"class_name\": \"Lost\" }] }",
    );
    let code = format!("export class Lost {{}}\n{HELLO}");
    refused(&text, &code, &["Lost", "migrations"]);
}

#[test]
fn a_folder_that_is_no_project_is_refused() {
    let empty = tempfile::tempdir().expect("a scratch folder");
    let path = empty.path().to_str().expect("UTF-8");
    let said = fails(&["dev", path, "--port", "0"]);
    assert!(said.contains("wrangler.jsonc"), "{said}");
    let said = fails(&["dev", "/no/such/folder", "--port", "0"]);
    assert!(said.contains("/no/such/folder"), "{said}");
}

#[test]
fn a_port_in_use_is_named() {
    let project = Project::new(&wrangler(""), HELLO);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let said = fails(&["dev", folder(&project), "--port", &port]);
    assert!(said.contains(&port), "{said}");
    assert!(said.contains("in use") && said.contains("--port"), "{said}");
}

#[test]
fn a_bucket_that_is_not_usable_is_refused() {
    let project = Project::new(&wrangler(""), HELLO);
    let said = fails(&["deploy", folder(&project), "--bucket", "ftp://x/y"]);
    assert!(said.contains("ftp"), "{said}");
    project.write("file", "not a folder");
    let file = format!("file://{}/file", folder(&project));
    let said = fails(&["deploy", folder(&project), "--bucket", &file]);
    assert!(said.contains("/file"), "{said}");
}

#[test]
fn unknown_commands_and_flags_get_help() {
    let said = fails(&["depoly"]);
    assert!(said.contains("deploy"), "{said}");
    let said = fails(&["dev", "--prot", "1"]);
    assert!(said.contains("--port"), "{said}");
}

#[test]
fn help_and_version_succeed() {
    for command in ["dev", "deploy", "run"] {
        assert!(succeeds(&[command, "--help"]).contains("Usage"));
    }
    assert!(succeeds(&["--version"]).contains("celld"));
}

#[test]
fn the_example_project_of_these_tests_is_accepted() {
    let project = Project::new(&wrangler(""), HELLO);
    let said = succeeds(&[
        "deploy",
        folder(&project),
        "--dry-run",
        "--bucket",
        &project.bucket_url(),
    ]);
    assert!(said.contains("index.js"), "{said}");
    succeeds(&[
        "deploy",
        folder(&project),
        "--bucket",
        &project.bucket_url(),
    ]);
    assert_eq!(Celld::run(&project).get("/").text(), "hello");
}
