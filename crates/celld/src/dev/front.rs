//! What `celld dev` answers besides the Worker: triggers by hand, and why there is no Worker yet.
//!
//! The triggers are the `scheduled` handler and the eviction of every object that has nothing to
//! do, after which the next event constructs it anew, as after a long rest.

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

/// How long an eviction that was triggered by hand waits for objects that work.
const EVICTION_MAX: Duration = Duration::from_secs(10);

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
            Some(Ok(Trigger::Scheduled { cron, at_ms })) => {
                run_scheduled(&self.node, cron, at_ms, reply);
            }
            Some(Ok(Trigger::Evict)) => evict(self.node.clone(), reply),
        }
    }
}

/// What can be triggered by hand.
#[derive(Debug, PartialEq, Eq)]
enum Trigger {
    /// The `scheduled` handler.
    Scheduled {
        /// The cron expression, literally.
        cron: String,
        /// Nominal time, in ms since 1970.
        at_ms: i64,
    },
    /// Objects that have nothing to do are let go.
    Evict,
}

/// The trigger that a request is; `None` for any other request. Paths and parameters of the
/// `scheduled` handler are those of `wrangler dev`.
fn trigger(request: &HttpRequest) -> Option<Result<Trigger, String>> {
    // Most requests are none: a look at the text is cheaper than parsing every URL.
    if !request.url.contains("/cdn-cgi/") && !request.url.contains("/__scheduled") {
        return None;
    }
    let url = Url::parse(&request.url).ok()?;
    match url.path() {
        "/cdn-cgi/handler/scheduled" | "/__scheduled" => Some(scheduled(request, &url)),
        "/cdn-cgi/celld/evict" => Some(match request.method {
            Method::POST => Ok(Trigger::Evict),
            _ => Err("Use POST to evict objects.\n".into()),
        }),
        _ => None,
    }
}

fn scheduled(request: &HttpRequest, url: &Url) -> Result<Trigger, String> {
    if !matches!(request.method, Method::GET | Method::POST) {
        return Err("Use GET or POST to run the scheduled handler.\n".into());
    }
    let parameter = |name: &str| {
        url.query_pairs()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    };
    let cron = parameter("cron").unwrap_or_default();
    let at_ms = match parameter("time") {
        None => now_ms(),
        Some(text) => text
            .parse()
            .map_err(|_| format!("time={text} is not a number of ms since 1970.\n"))?,
    };
    Ok(Trigger::Scheduled { cron, at_ms })
}

fn evict(node: NodeHandle, answer: Reply<HttpResponse>) {
    tokio::spawn(async move {
        answer.send(Ok(match node.evict_idle(EVICTION_MAX).await {
            0 => text(StatusCode::OK, "Evicted every object.\n".into()),
            busy => text(
                StatusCode::CONFLICT,
                format!("Evicted what had nothing to do; {busy} objects are busy.\n"),
            ),
        }));
    });
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

    fn asked(method: Method, url: &str) -> Option<Result<Trigger, String>> {
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
        let wanted = Trigger::Scheduled {
            cron: "* * * * *".into(),
            at_ms: 12,
        };
        assert_eq!(found, Some(Ok(wanted)));
        assert!(matches!(
            asked(Method::POST, "http://a/__scheduled"),
            Some(Ok(Trigger::Scheduled { cron, .. })) if cron.is_empty()
        ));
        let evict = "http://a/cdn-cgi/celld/evict";
        assert_eq!(asked(Method::POST, evict), Some(Ok(Trigger::Evict)));
        assert!(matches!(asked(Method::GET, evict), Some(Err(_))));
        assert_eq!(asked(Method::POST, "http://a/cdn-cgi/celld/x"), None);
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
