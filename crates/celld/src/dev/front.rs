//! What `celld dev` answers besides the Worker: triggers by hand, and why there is no Worker yet.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use celld_node::NodeHandle;
use celld_node::front::Handler;
use celld_runtime::api::WorkerEvent;
use celld_runtime::exchange::{Body, EventError, HttpRequest, HttpResponse, Reply, reply};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use parking_lot::RwLock;
use url::Url;

/// How long a handler that was triggered by hand may run.
const TRIGGER_MAX: Duration = Duration::from_secs(15 * 60);

/// Takes public requests while a project is developed.
pub struct DevFront {
    node: NodeHandle,
    /// Why nothing serves yet; `None` once something does.
    unborn: RwLock<Option<String>>,
}

impl DevFront {
    /// In front of a node that serves nothing yet.
    pub fn new(node: NodeHandle) -> Self {
        Self {
            node,
            unborn: RwLock::new(Some("The project is being built.".into())),
        }
    }

    /// Sets the reason why nothing serves, as plain text.
    pub fn explain(&self, why: String) {
        let mut unborn = self.unborn.write();
        if unborn.is_some() {
            *unborn = Some(why);
        }
    }

    /// Something serves from here on, whatever comes later.
    pub fn is_served(&self) {
        *self.unborn.write() = None;
    }
}

impl Handler for DevFront {
    fn handle(&self, request: HttpRequest, reply: Reply<HttpResponse>) {
        if let Some(why) = &*self.unborn.read() {
            return reply.send(Ok(text(StatusCode::SERVICE_UNAVAILABLE, why.clone())));
        }
        match trigger(&request) {
            None => self.node.fetch(None, request, reply),
            Some(Err(why)) => reply.send(Ok(text(StatusCode::BAD_REQUEST, why))),
            Some(Ok((cron, scheduled_ms))) => run_scheduled(&self.node, cron, scheduled_ms, reply),
        }
    }
}

/// The cron expression and time of a trigger by hand; `None` for any other request. Paths and
/// parameters are those of `wrangler dev`.
fn trigger(request: &HttpRequest) -> Option<Result<(String, i64), String>> {
    // Most requests are none: a look at the text is cheaper than parsing every URL.
    if !request.url.contains("/cdn-cgi/handler/scheduled") && !request.url.contains("/__scheduled")
    {
        return None;
    }
    let url = Url::parse(&request.url).ok()?;
    if !matches!(url.path(), "/cdn-cgi/handler/scheduled" | "/__scheduled") {
        return None;
    }
    if !matches!(request.method, Method::GET | Method::POST) {
        return Some(Err("Use GET or POST to run the scheduled handler.\n".into()));
    }
    let parameter = |name: &str| {
        url.query_pairs()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    };
    let cron = parameter("cron").unwrap_or_default();
    let time = match parameter("time") {
        None => now_ms(),
        Some(text) => match text.parse() {
            Ok(ms) => ms,
            Err(_) => {
                return Some(Err(format!(
                    "time={text} is not a number of ms since 1970.\n"
                )));
            }
        },
    };
    Some(Ok((cron, time)))
}

fn run_scheduled(node: &NodeHandle, cron: String, scheduled_ms: i64, answer: Reply<HttpResponse>) {
    let (done, outcome) = reply();
    node.worker_event(
        None,
        WorkerEvent::Scheduled {
            cron,
            scheduled_ms,
            reply: done,
        },
    );
    tokio::spawn(async move {
        let ended = tokio::time::timeout(TRIGGER_MAX, outcome).await;
        answer.send(match ended {
            Ok(Ok(())) => Ok(text(StatusCode::OK, "Ran scheduled event\n".into())),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(EventError::new(
                "The scheduled handler did not end within 15 minutes.",
            )),
        });
    });
}

fn text(status: StatusCode, text: String) -> HttpResponse {
    let mut headers = HeaderMap::new();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    HttpResponse {
        status,
        headers,
        body: Body::Bytes(Bytes::from(text)),
        websocket: None,
        body_is_encoded: false,
        status_text: None,
        url: None,
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use celld_runtime::exchange::Redirect;

    fn asked(method: Method, url: &str) -> Option<Result<(String, i64), String>> {
        trigger(&HttpRequest {
            method,
            url: url.into(),
            headers: HeaderMap::new(),
            body: Body::Empty,
            cf: None,
            websocket: false,
            redirect: Redirect::Manual,
        })
    }

    #[test]
    fn triggers_are_told_from_other_requests() {
        assert_eq!(asked(Method::GET, "http://a/"), None);
        assert_eq!(asked(Method::GET, "http://a/x?next=/__scheduled"), None);
        assert_eq!(asked(Method::GET, "http://a/__scheduled/x"), None);
        let found = asked(
            Method::GET,
            "http://a/cdn-cgi/handler/scheduled?cron=*+*+*+*+*&time=12",
        );
        assert_eq!(found, Some(Ok(("* * * * *".into(), 12))));
        assert!(
            matches!(asked(Method::POST, "http://a/__scheduled"), Some(Ok((cron, _))) if cron.is_empty())
        );
        assert!(matches!(
            asked(Method::GET, "http://a/__scheduled?time=x"),
            Some(Err(_))
        ));
        assert!(matches!(
            asked(Method::PUT, "http://a/__scheduled"),
            Some(Err(_))
        ));
    }
}
