//! Static files under `celld dev` and `celld run`: before the Worker and by its binding.

mod support;

use support::{Celld, Project, eventually, fails, succeeds};

const WRANGLER: &str = r#"{
  "name": "site",
  "main": "index.js",
  "compatibility_date": "2026-06-01",
  "assets": { "directory": "./public", "binding": "FILES", "not_found_handling": "404-page" }
}"#;

const CODE: &str = r#"export default {
  fetch(request, env) {
    const url = new URL(request.url);
    if (!url.pathname.startsWith("/via/")) return new Response("worker");
    url.pathname = url.pathname.slice(4);
    return env.FILES.fetch(new Request(url, request));
  },
};
"#;

fn site() -> Project {
    let project = Project::new(WRANGLER, CODE);
    project.write("public/index.html", "<h1>home</h1>");
    project.write("public/404.html", "lost");
    // Larger than what is kept in memory, so that it is sent in pieces.
    project.write("public/large.txt", &"0123456789abcdef".repeat(100_000));
    project
}

/// What holds wherever a site is served.
fn check(server: &Celld) {
    let home = server.get("/");
    assert_eq!((home.status, home.text().as_str()), (200, "<h1>home</h1>"));
    assert_eq!(
        home.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(home.header("etag").is_some());
    let redirect = server.get("/index.html?a=1");
    assert_eq!(
        (redirect.status, redirect.header("location")),
        (307, Some("/?a=1"))
    );
    for path in ["/large.txt", "/via/large.txt"] {
        let large = server.get(path);
        assert_eq!(large.body.len(), 1_600_000, "{path}");
        assert!(large.body.ends_with(b"0123456789abcdef"), "{path}");
    }
    // Without a file the Worker answers; behind the binding the page for what is not there does.
    assert_eq!(server.get("/none").text(), "worker");
    assert_eq!(server.post("/", b"").text(), "worker");
    let none = server.get("/via/none");
    assert_eq!((none.status, none.text().as_str()), (404, "lost"));
    assert_eq!(server.post("/via/", b"").status, 405);
}

#[test]
fn files_are_served_and_reloaded_under_dev() {
    let project = site();
    let server = Celld::dev(&project);
    check(&server);
    project.write("public/index.html", "<h1>changed</h1>");
    project.write("public/new.txt", "new");
    eventually("changed files are served", || {
        server.get("/").text() == "<h1>changed</h1>" && server.get("/new.txt").text() == "new"
    });
    std::fs::remove_file(project.path().join("public/new.txt")).unwrap();
    eventually("a removed file is not served", || {
        server.get("/new.txt").text() == "worker"
    });
}

#[test]
fn files_are_deployed_with_the_worker() {
    let project = site();
    let folder = project.path().to_str().unwrap();
    succeeds(&["deploy", folder, "--bucket", &project.bucket_url()]);
    // What is served comes from the bucket alone.
    std::fs::remove_dir_all(project.path().join("public")).unwrap();
    check(&Celld::run(&project));
    let text = fails(&["deploy", folder, "--bucket", &project.bucket_url()]);
    assert!(
        text.contains("public") && text.contains("wrangler.jsonc:5"),
        "{text}"
    );
}

#[test]
fn a_project_may_have_files_alone() {
    let project = site();
    let alone = WRANGLER
        .replace("\"main\": \"index.js\",", "")
        .replace("\"binding\": \"FILES\",", "");
    project.write("wrangler.jsonc", &alone);
    let server = Celld::dev(&project);
    assert_eq!(server.get("/").text(), "<h1>home</h1>");
    let none = server.get("/none");
    assert_eq!((none.status, none.text().as_str()), (404, "lost"));
    assert_eq!(server.post("/", b"").status, 405);
}
