//! Paths and what answers for them.

use celld_runtime::exchange::Redirect;

use super::*;

fn site(html: HtmlHandling, not_found: NotFoundHandling, paths: &[&str]) -> StaticAssets {
    let file = |path: &&str| {
        // Each file has a content of its own.
        let blob = format!("{path:_<64}");
        (
            (*path).to_owned(),
            AssetFile {
                blob,
                bytes: 3,
                content_type: Some("text/html".into()),
            },
        )
    };
    StaticAssets {
        html_handling: html,
        not_found_handling: not_found,
        run_worker_first: false,
        navigation_prefers_assets: true,
        files: paths.iter().map(file).collect(),
    }
}

/// `=file`, `404=file`, `>path` or `-`.
fn at(site: &StaticAssets, path: &str) -> String {
    match site.resolve(path) {
        Outcome::File {
            file,
            not_found: false,
        } => format!("={}", file.blob.trim_end_matches('_')),
        Outcome::File {
            file,
            not_found: true,
        } => format!("404={}", file.blob.trim_end_matches('_')),
        Outcome::Redirect(to) => format!(">{to}"),
        Outcome::Nothing => "-".into(),
    }
}

#[track_caller]
fn check(html: HtmlHandling, files: &[&str], cases: &[(&str, &str)]) {
    let site = site(html, NotFoundHandling::None, files);
    for (path, expected) in cases {
        assert_eq!(at(&site, path), *expected, "{html:?} {path}");
    }
}

const PAGES: &[&str] = &[
    "/index.html",
    "/file.html",
    "/dir/index.html",
    "/both.html",
    "/both/index.html",
    "/bin",
    "/a.css",
];

#[test]
fn slashes_follow_the_files_by_default() {
    check(
        HtmlHandling::AutoTrailingSlash,
        PAGES,
        &[
            ("/", "=/index.html"),
            ("/index.html", ">/"),
            ("/index", ">/"),
            ("/file", "=/file.html"),
            ("/file.html", ">/file"),
            ("/file/", ">/file"),
            ("/file/index", ">/file"),
            ("/file/index.html", ">/file"),
            ("/dir", ">/dir/"),
            ("/dir/", "=/dir/index.html"),
            ("/dir.html", ">/dir/"),
            ("/dir/index", ">/dir/"),
            ("/dir/index.html", ">/dir/"),
            ("/both", "=/both.html"),
            ("/both.html", ">/both"),
            ("/both/", "=/both/index.html"),
            ("/both/index.html", ">/both/"),
            ("/bin", "=/bin"),
            ("/bin/", "-"),
            ("/a.css", "=/a.css"),
            ("/none", "-"),
            ("/none/", "-"),
        ],
    );
}

#[test]
fn slashes_are_added_or_dropped_on_demand() {
    check(
        HtmlHandling::ForceTrailingSlash,
        PAGES,
        &[
            ("/", "=/index.html"),
            ("/file", ">/file/"),
            ("/file.html", ">/file/"),
            ("/file/", "=/file.html"),
            ("/dir", ">/dir/"),
            ("/dir/index.html", ">/dir/"),
            ("/both/", "=/both/index.html"),
            ("/both.html", "=/both.html"),
            ("/bin", "=/bin"),
            ("/a.css", "=/a.css"),
        ],
    );
    check(
        HtmlHandling::DropTrailingSlash,
        PAGES,
        &[
            ("/", "=/index.html"),
            ("/index", ">/"),
            ("/index.html", ">/"),
            ("/file/", ">/file"),
            ("/file.html", ">/file"),
            ("/dir", "=/dir/index.html"),
            ("/dir/", ">/dir"),
            ("/dir/index.html", ">/dir"),
            ("/both", "=/both.html"),
            ("/both/index.html", "=/both/index.html"),
        ],
    );
    check(
        HtmlHandling::None,
        PAGES,
        &[
            ("/", "-"),
            ("/file", "-"),
            ("/file.html", "=/file.html"),
            ("/dir/", "-"),
        ],
    );
}

#[test]
fn a_file_without_extension_is_not_hidden_by_a_redirect() {
    check(
        HtmlHandling::AutoTrailingSlash,
        &["/x", "/x.html"],
        &[("/x", "=/x"), ("/x.html", "=/x.html")],
    );
}

#[test]
fn what_is_not_there_may_have_a_page() {
    let files = ["/index.html", "/404.html", "/docs/404.html"];
    let pages = site(
        HtmlHandling::AutoTrailingSlash,
        NotFoundHandling::Page404,
        &files,
    );
    assert_eq!(at(&pages, "/x/y"), "404=/404.html");
    assert_eq!(at(&pages, "/docs/a/b"), "404=/docs/404.html");
    let spa = site(
        HtmlHandling::AutoTrailingSlash,
        NotFoundHandling::SinglePageApplication,
        &files,
    );
    assert_eq!(at(&spa, "/any/where"), "=/index.html");
    assert_eq!(at(&spa, "/index.html"), ">/");
}

fn request(method: Method, path: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
    let headers = headers.iter().map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        )
    });
    HttpRequest {
        method,
        url: format!("http://a.example{path}"),
        headers: headers.collect(),
        body: Body::Empty,
        cf: None,
        websocket: false,
        redirect: Redirect::Manual,
    }
}

fn location(found: &Found) -> &str {
    assert_eq!(found.status, 307);
    found.headers[header::LOCATION].to_str().unwrap()
}

#[test]
fn a_file_has_one_address() {
    let site = site(
        HtmlHandling::AutoTrailingSlash,
        NotFoundHandling::None,
        &["/a b.txt", "/é", "/x/y.txt", "/p.html"],
    );
    let get = |path: &str| site.before_worker(&request(Method::GET, path, &[]));
    assert_eq!(get("/a%20b.txt").unwrap().status, 200);
    assert_eq!(get("/é").unwrap().status, 200);
    assert_eq!(
        location(&get("/%61%20b.txt?q=1&r").unwrap()),
        "/a%20b.txt?q=1&r"
    );
    assert_eq!(location(&get("//x///y.txt").unwrap()), "/x/y.txt");
    assert_eq!(location(&get("/x%2Fy.txt").unwrap()), "/x/y.txt");
    assert_eq!(location(&get("/p.html?q").unwrap()), "/p?q");
    // Steps upwards end at the root, however they are written.
    assert_eq!(get("/../../x/y.txt").unwrap().status, 200);
    assert!(get("/x/..%2f..%2fetc/passwd").is_none());
    assert!(get("/%ff%fe").is_none());
}

#[test]
fn known_content_is_not_sent_again() {
    let site = site(
        HtmlHandling::AutoTrailingSlash,
        NotFoundHandling::None,
        &["/index.html"],
    );
    let get = |headers: &[(&'static str, &str)]| {
        site.before_worker(&request(Method::GET, "/", headers))
            .unwrap()
    };
    let first = get(&[]);
    assert_eq!(
        first.headers[header::CACHE_CONTROL],
        "public, max-age=0, must-revalidate"
    );
    assert_eq!(first.headers[header::CONTENT_TYPE], "text/html");
    let etag = first.headers[header::ETAG].to_str().unwrap().to_owned();
    assert_eq!(etag.len(), ETAG_DIGITS + 2);
    for known in [
        etag.clone(),
        format!("W/{etag}"),
        format!("\"x\", {etag}"),
        "*".into(),
    ] {
        let again = get(&[("if-none-match", &known)]);
        assert_eq!((again.status.as_u16(), again.file), (304, None), "{known}");
        assert_eq!(again.headers[header::ETAG], etag);
    }
    assert_eq!(get(&[("if-none-match", "\"other\"")]).status, 200);
    assert!(
        !get(&[("authorization", "x")])
            .headers
            .contains_key(header::CACHE_CONTROL)
    );
}

#[test]
fn the_worker_gets_what_files_do_not_answer() {
    let mut site = site(
        HtmlHandling::AutoTrailingSlash,
        NotFoundHandling::SinglePageApplication,
        &["/index.html"],
    );
    let status = |site: &StaticAssets, method, path: &str, headers: &[(&'static str, &str)]| {
        site.before_worker(&request(method, path, headers))
            .map(|found| found.status.as_u16())
    };
    let navigate = [("sec-fetch-mode", "navigate")];
    assert_eq!(status(&site, Method::GET, "/", &[]), Some(200));
    assert_eq!(status(&site, Method::POST, "/", &[]), None);
    assert_eq!(status(&site, Method::GET, "/message", &[]), None);
    assert_eq!(status(&site, Method::GET, "/message", &navigate), Some(200));
    site.navigation_prefers_assets = false;
    assert_eq!(status(&site, Method::GET, "/message", &navigate), None);
    site.run_worker_first = true;
    assert_eq!(status(&site, Method::GET, "/", &[]), None);
    // Behind the binding only reading is allowed.
    let post = site
        .find(&request(Method::POST, "/", &[]), NotFoundHandling::None)
        .unwrap();
    assert_eq!(
        (post.status.as_u16(), &post.headers[header::ALLOW]),
        (405, &HeaderValue::from_static("GET, HEAD"))
    );
    let head = site
        .find(&request(Method::HEAD, "/", &[]), NotFoundHandling::None)
        .unwrap();
    assert_eq!(
        (head.file, &head.headers[header::CONTENT_LENGTH]),
        (None, &HeaderValue::from(3))
    );
}
