//! What a client learns of an event that failed.

use celld_node::front::{ErrorDetail, FrontConfig};
use celld_runtime::exchange::{EventError, Limit};
use http::StatusCode;

use crate::support::{front, get, ok};

async fn failing(errors: ErrorDetail, error: EventError) -> celld_node::front::Front {
    let config = FrontConfig {
        errors,
        ..FrontConfig::default()
    };
    front(config, move |_, reply| reply.send(Err(error.clone()))).await
}

fn thrown() -> EventError {
    EventError {
        stack: Some("Error: sesame\n    at fetch (src/index.ts:3:9)".into()),
        ..EventError::new("sesame")
    }
}

#[tokio::test]
async fn in_development_message_and_stack_are_shown() {
    let front = failing(ErrorDetail::Full, thrown()).await;
    let plain = get(front.local_addr(), "/", "Accept: */*\r\n").await;
    assert!(plain.starts_with("HTTP/1.1 500 "));
    assert!(plain.contains("content-type: text/plain"), "{plain}");
    assert!(
        plain.ends_with("Error: sesame\n    at fetch (src/index.ts:3:9)\n"),
        "{plain}"
    );
    let page = get(front.local_addr(), "/", "Accept: text/html,*/*\r\n").await;
    let json = get(front.local_addr(), "/", "Accept: application/json\r\n").await;
    let value: serde_json::Value =
        serde_json::from_str(json.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(value["error"]["stack"][0], "at fetch (src/index.ts:3:9)");
    assert!(
        page.contains("content-type: text/html") && page.contains("src/index.ts:3:9"),
        "{page}"
    );
}

#[tokio::test]
async fn in_production_only_the_ray_is_shown() {
    let front = failing(ErrorDetail::Hidden, thrown()).await;
    for accept in ["Accept: text/html\r\n", ""] {
        let answer = get(front.local_addr(), "/", accept).await;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        assert!(
            !answer.contains("sesame") && !answer.contains("index.ts"),
            "{answer}"
        );
        let ray = answer.split("Ray ID: ").nth(1).unwrap().trim();
        assert!(answer.contains(&format!("cf-ray: {ray}\r\n")), "{answer}");
    }
}

#[tokio::test]
async fn overload_and_disconnects_are_503() {
    let front = failing(
        ErrorDetail::Hidden,
        EventError::overloaded("Durable Object is overloaded."),
    )
    .await;
    let answer = get(front.local_addr(), "/", "").await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 1\r\n"),
        "{answer}"
    );
    let front = failing(ErrorDetail::Hidden, EventError::disconnected()).await;
    let answer = get(front.local_addr(), "/", "").await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && !answer.contains("retry-after"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_dropped_reply_is_503() {
    let front = front(FrontConfig::default(), |_, reply| drop(reply)).await;
    assert!(
        get(front.local_addr(), "/", "")
            .await
            .starts_with("HTTP/1.1 503 ")
    );
}

#[tokio::test]
async fn a_body_limit_is_413() {
    let error = EventError {
        limit: Some(Limit::Body),
        ..EventError::new("body is larger than the limit")
    };
    let front = failing(ErrorDetail::Hidden, error).await;
    assert!(
        get(front.local_addr(), "/", "")
            .await
            .starts_with("HTTP/1.1 413 ")
    );
}

#[tokio::test]
async fn an_interim_status_is_no_answer() {
    let front = front(FrontConfig::default(), |_, reply| {
        let mut answer = ok("");
        answer.status = StatusCode::SWITCHING_PROTOCOLS;
        reply.send(Ok(answer));
    })
    .await;
    assert!(
        get(front.local_addr(), "/", "")
            .await
            .starts_with("HTTP/1.1 500 ")
    );
}
