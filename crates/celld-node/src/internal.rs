//! The node's own requests: liveness, readiness, numbers.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use serde_json::json;

use crate::node::NodeHandle;

/// Cells that `/cells` names at most.
const QUARANTINED_SHOWN_MAX: usize = 1_000;

impl NodeHandle {
    /// Answers a request of the internal listener. Who may ask is the listener's to check;
    /// `/healthz` and `/readyz` tell nothing and may be asked by anybody.
    pub async fn internal(&self, request: Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text(
                StatusCode::METHOD_NOT_ALLOWED,
                "This listener answers GET only.\n",
            );
        }
        match path {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" if self.is_ready() => text(StatusCode::OK, "ready\n"),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            "/debug/metrics" => self.metrics(),
            "/cells" => self.cells(),
            _ => text(
                StatusCode::NOT_FOUND,
                "Known here: /healthz, /readyz, /cells, /debug/metrics.\n",
            ),
        }
    }

    /// What is out of the ordinary with cells: those that are kept out, and why.
    fn cells(&self) -> Response<Bytes> {
        let shared = &self.shared;
        let counts = *shared.counts.lock();
        let now = shared.clock.now().wall;
        let all = shared.quarantined.lock();
        let kept_out = all.iter().filter(|(_, why)| why.until > now);
        let quarantined: Vec<_> = kept_out
            .take(QUARANTINED_SHOWN_MAX)
            .map(|(cell, why)| {
                json!({
                    "namespace": cell.namespace.as_str(),
                    "id": cell.object.to_hex(),
                    "why": why.reason(),
                    "times": why.strikes,
                    "until_ms": why.until.get(),
                })
            })
            .collect();
        json_answer(&json!({
            "resident": counts.cells,
            "quarantined_count": counts.quarantined,
            "quarantined": quarantined,
        }))
    }

    fn metrics(&self) -> Response<Bytes> {
        let shared = &self.shared;
        let counts = *shared.counts.lock();
        let total = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &shared.counters;
        let log = shared.store.log.stats();
        let bucket: Vec<_> = shared
            .store
            .bucket
            .snapshot()
            .into_iter()
            .map(|count| {
                json!({
                    "operation": count.operation.name(),
                    "class": count.class,
                    "outcome": count.outcome.name(),
                    "requests": count.requests,
                    "total_us": u64::try_from(count.total.as_micros()).unwrap_or(u64::MAX),
                })
            })
            .collect();
        let body = json!({
            "session": shared.store.session.to_string(),
            "uptime_ms": shared.clock.mono().get(),
            "cells": {
                "resident": counts.cells,
                "waiting_for_place": counts.cells_waiting,
                "recovered_unsaved": counts.recovered_cells,
                "quarantined": counts.quarantined,
                "activations": total(&counters.activations),
                "evictions": total(&counters.evictions),
                "records_written": total(&counters.saves),
            },
            "hosts": { "stateless": counts.stateless_hosts, "cells": counts.cell_hosts },
            "events": {
                "worker": total(&counters.worker_events),
                "cell": total(&counters.cell_events),
                "waiting_for_cells": shared.routes.waiting(),
            },
            "alarms": { "set": counts.alarms, "fired": total(&counters.alarms) },
            "log": {
                "commits": total(&counters.commits),
                "commit_bytes": total(&counters.commit_bytes),
                "durable_lsn": shared.store.log.durable().get(),
                "backlog_bytes": shared.store.log.backlog_bytes(),
                "records": log.records,
                "bytes": log.bytes,
                "batches": log.batches,
                "flush_total_us": u64::try_from(log.flush_total.as_micros()).unwrap_or(u64::MAX),
                "files": log.files,
                "live_bytes": log.live_bytes,
            },
            "bucket": bucket,
        });
        json_answer(&body)
    }
}

fn json_answer(body: &serde_json::Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

impl crate::front::InternalHandler for NodeHandle {
    fn handle(
        &self,
        request: Request<Bytes>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Response<Bytes>> + Send + '_>> {
        Box::pin(self.internal(request))
    }
}

impl crate::front::Handler for NodeHandle {
    fn handle(
        &self,
        request: celld_runtime::exchange::HttpRequest,
        reply: celld_runtime::exchange::Reply<celld_runtime::exchange::HttpResponse>,
    ) {
        self.fetch(None, request, reply);
    }
}
