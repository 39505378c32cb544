//! What a script is told about a request that failed.

use std::error::Error;

use celld_runtime::exchange::EventError;
use http::Uri;

use super::connect::ConnectFailure;

/// An error of the script's making.
pub(super) fn type_error(message: impl Into<String>) -> EventError {
    EventError {
        name: "TypeError".into(),
        ..EventError::new(message)
    }
}

/// Puts a failed exchange with `uri` into words.
pub(super) fn exchange_failed(uri: &Uri, error: &hyper_util::client::legacy::Error) -> EventError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(failure) = error.downcast_ref::<ConnectFailure>() {
            return EventError::new(failure.to_string());
        }
        cause = error.source();
    }
    let host = uri.authority().map_or("", |authority| authority.as_str());
    EventError::new(format!(
        "Network connection lost: the request to {host} failed: {}",
        root_cause(error)
    ))
}

/// The innermost cause. The layers above it only say that something below them failed.
pub(super) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    // The number says nothing that the words before it don't.
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
