//! Static files of a deployment: which one answers a request, and the answer.
//!
//! Files answer twice: before the Worker, for requests from outside, and behind `env.ASSETS`.

mod blobs;
mod resolve;

use std::collections::HashMap;
use std::sync::Arc;

use celld_runtime::api::WorkerEvent;
use celld_runtime::exchange::{Body, EventError, HttpRequest, HttpResponse, Reply};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use url::Url;

use crate::refuse;
use crate::shared::Shared;

pub(crate) use blobs::BlobCache;
pub use resolve::Outcome;

/// Hexadecimal digits of a file's hash in its `ETag`.
const ETAG_DIGITS: usize = 32;
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The static files of a deployment, and how paths lead to them.
#[derive(Clone, Debug)]
pub struct StaticAssets {
    /// How paths and HTML files correspond.
    pub html_handling: HtmlHandling,
    /// What answers where no file does.
    pub not_found_handling: NotFoundHandling,
    /// Requests go to the Worker even where a file would answer.
    pub run_worker_first: bool,
    /// `not_found_handling` comes before the Worker when a browser is about to show a page.
    pub navigation_prefers_assets: bool,
    /// Files by path: with a leading slash, and nothing escaped.
    pub files: HashMap<String, AssetFile>,
}

/// One static file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetFile {
    /// Name of its blob in the bucket: the SHA-256 of its content, in lower-case hexadecimal.
    pub blob: String,
    /// Length, in bytes.
    pub bytes: u64,
    /// `Content-Type`, when it is known.
    pub content_type: Option<String>,
}

/// How paths and HTML files correspond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HtmlHandling {
    /// `/a` is `a.html`, and `/a/` is `a/index.html`.
    AutoTrailingSlash,
    /// `/a/` is either.
    ForceTrailingSlash,
    /// `/a` is either.
    DropTrailingSlash,
    /// Paths are file names.
    None,
}

/// What answers where no file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFoundHandling {
    /// Nothing.
    None,
    /// `/index.html`, with status 200.
    SinglePageApplication,
    /// The nearest `404.html` on the way to the root, with status 404.
    Page404,
}

/// An answer whose body is not there yet.
#[derive(Debug)]
pub(crate) struct Found {
    status: StatusCode,
    headers: HeaderMap,
    /// The body; `None` for an empty one.
    file: Option<AssetFile>,
}

impl StaticAssets {
    /// What answers for a path that starts with a slash and has no escapes.
    pub fn resolve(&self, path: &str) -> Outcome<'_> {
        resolve::resolve(self, path, self.not_found_handling)
    }

    /// The answer that a request from outside gets without the Worker.
    pub(crate) fn before_worker(&self, request: &HttpRequest) -> Option<Found> {
        let reads = matches!(request.method, Method::GET | Method::HEAD);
        if self.run_worker_first || !reads || request.websocket {
            return None;
        }
        let navigates = request
            .headers
            .get(SEC_FETCH_MODE)
            .is_some_and(|mode| mode == "navigate");
        let not_found = match self.navigation_prefers_assets && navigates {
            true => self.not_found_handling,
            false => NotFoundHandling::None,
        };
        self.find(request, not_found)
    }

    fn find(&self, request: &HttpRequest, not_found: NotFoundHandling) -> Option<Found> {
        let url = Url::parse(&request.url).ok()?;
        let path = resolve::decode(url.path());
        let outcome = resolve::resolve(self, &path, not_found);
        if outcome != Outcome::Nothing && !matches!(request.method, Method::GET | Method::HEAD) {
            let mut headers = HeaderMap::new();
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(Found {
                status: StatusCode::METHOD_NOT_ALLOWED,
                headers,
                file: None,
            });
        }
        // A file has one address: the path in its usual escaped form.
        let (to, served) = match outcome {
            Outcome::Nothing => return None,
            Outcome::Redirect(to) => (resolve::encode(&to), None),
            Outcome::File { file, not_found } => (resolve::encode(&path), Some((file, not_found))),
        };
        match served {
            Some((file, not_found)) if to == url.path() => Some(serve(file, not_found, request)),
            _ => redirect(to, url.query()),
        }
    }
}

fn redirect(to: String, query: Option<&str>) -> Option<Found> {
    let location = match query {
        Some(query) => format!("{to}?{query}"),
        None => to,
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::LOCATION, HeaderValue::try_from(location).ok()?);
    Some(Found {
        status: StatusCode::TEMPORARY_REDIRECT,
        headers,
        file: None,
    })
}

fn serve(file: &AssetFile, not_found: bool, request: &HttpRequest) -> Found {
    let mut headers = HeaderMap::new();
    let etag = format!("\"{}\"", file.blob.get(..ETAG_DIGITS).unwrap_or(&file.blob));
    let unchanged = is_known(&request.headers, &etag);
    if let Ok(etag) = HeaderValue::try_from(etag) {
        headers.insert(header::ETAG, etag);
    }
    if let Some(content_type) = &file.content_type
        && let Ok(content_type) = HeaderValue::try_from(content_type)
    {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    let private = request.headers.contains_key(header::AUTHORIZATION)
        || request.headers.contains_key(header::RANGE);
    if !private {
        let always_ask = HeaderValue::from_static("public, max-age=0, must-revalidate");
        headers.insert(header::CACHE_CONTROL, always_ask);
    }
    if unchanged {
        return Found {
            status: StatusCode::NOT_MODIFIED,
            headers,
            file: None,
        };
    }
    let status = if not_found {
        StatusCode::NOT_FOUND
    } else {
        StatusCode::OK
    };
    if request.method == Method::HEAD {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(file.bytes));
        return Found {
            status,
            headers,
            file: None,
        };
    }
    Found {
        status,
        headers,
        file: Some(file.clone()),
    }
}

/// Whether `If-None-Match` names this content. Weak and strong tags compare alike.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tags.any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
    })
}

/// Handles what a Worker asks of its binding to static files.
pub(crate) fn answer(shared: &Arc<Shared>, assets: Option<&Arc<StaticAssets>>, event: WorkerEvent) {
    let WorkerEvent::Fetch { request, reply, .. } = event else {
        let why = EventError {
            name: "TypeError".into(),
            ..EventError::new("A binding to static assets has no methods but fetch().")
        };
        return refuse::worker_event(event, why);
    };
    let found = assets.and_then(|assets| assets.find(&request, assets.not_found_handling));
    let nothing = || Found {
        status: StatusCode::NOT_FOUND,
        headers: HeaderMap::new(),
        file: None,
    };
    send(shared, found.unwrap_or_else(nothing), reply);
}

/// Sends an answer, with the body from memory or from the bucket.
pub(crate) fn send(shared: &Arc<Shared>, found: Found, reply: Reply<HttpResponse>) {
    let Found {
        status,
        headers,
        file,
    } = found;
    let respond = move |body| HttpResponse {
        status,
        status_text: None,
        headers,
        body,
        websocket: None,
        body_is_encoded: false,
        url: None,
    };
    let Some(file) = file else {
        return reply.send(Ok(respond(Body::Empty)));
    };
    if let Some(bytes) = shared.blobs.get(&file.blob) {
        return reply.send(Ok(respond(Body::Bytes(bytes))));
    }
    let shared = shared.clone();
    shared.tokio.clone().spawn(async move {
        let body = blobs::load(&shared, &file).await;
        reply.send(body.map(respond));
    });
}

#[cfg(test)]
mod tests;
