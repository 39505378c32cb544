//! Operations that the API layer calls.

pub mod bodies;
pub mod calls;
pub mod clone;
pub mod events;
pub mod ids;
pub mod rpc;
pub mod sockets;
pub mod sql;
pub mod storage;
pub mod values;

use bytes::Bytes;
use deno_core::v8;
use deno_error::JsErrorBox;
use http::HeaderMap;

use crate::exchange::{Body, BodyError, EventError};

/// A string property, or element, as UTF-8.
pub(crate) fn to_text(scope: &mut v8::PinScope<'_, '_>, value: v8::Local<v8::Value>) -> String {
    value.to_rust_string_lossy(scope)
}

/// Reads a flat array of header names and values.
pub(crate) fn headers_from_js(
    scope: &mut v8::PinScope<'_, '_>,
    flat: v8::Local<v8::Array>,
) -> Result<HeaderMap, JsErrorBox> {
    let mut headers = HeaderMap::with_capacity(flat.length() as usize / 2);
    for index in (0..flat.length()).step_by(2) {
        let (Some(name), Some(value)) = (
            flat.get_index(scope, index),
            flat.get_index(scope, index + 1),
        ) else {
            break;
        };
        let name = to_text(scope, name);
        let parsed = http::HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| JsErrorBox::type_error(format!("Invalid header name: {name}")))?;
        // Header values are byte strings: one character, one byte.
        let raw: Vec<u8> = to_text(scope, value)
            .chars()
            .map(|c| c as u32 as u8)
            .collect();
        let value = http::HeaderValue::from_bytes(&raw)
            .map_err(|_| JsErrorBox::type_error(format!("Invalid value of header \"{name}\".")))?;
        headers.append(parsed, value);
    }
    Ok(headers)
}

/// Writes headers as a flat array of names and values.
pub(crate) fn headers_to_js<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    headers: &HeaderMap,
) -> v8::Local<'s, v8::Array> {
    let mut flat: Vec<v8::Local<v8::Value>> = Vec::with_capacity(headers.len() * 2);
    for (name, value) in headers {
        flat.push(one_byte(scope, name.as_str().as_bytes()));
        flat.push(one_byte(scope, value.as_bytes()));
    }
    v8::Array::new_with_elements(scope, &flat)
}

/// A string of one character per byte.
pub(crate) fn one_byte<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: &[u8],
) -> v8::Local<'s, v8::Value> {
    v8::String::new_from_one_byte(scope, bytes, v8::NewStringType::Normal)
        .map_or_else(|| v8::String::empty(scope).into(), Into::into)
}

/// A string.
pub(crate) fn text<'s>(scope: &mut v8::PinScope<'s, '_>, text: &str) -> v8::Local<'s, v8::Value> {
    v8::String::new(scope, text).map_or_else(|| v8::String::empty(scope).into(), Into::into)
}

/// A `Uint8Array` with its own copy of the bytes.
pub(crate) fn bytes<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: &[u8],
) -> v8::Local<'s, v8::Value> {
    let store = v8::ArrayBuffer::new_backing_store_from_vec(bytes.to_vec()).make_shared();
    let buffer = v8::ArrayBuffer::with_backing_store(scope, &store);
    v8::Uint8Array::new(scope, buffer, 0, bytes.len())
        .map_or_else(|| v8::null(scope).into(), Into::into)
}

/// The contents of a string or a typed array.
pub(crate) fn payload(
    scope: &mut v8::PinScope<'_, '_>,
    value: v8::Local<v8::Value>,
) -> Option<Bytes> {
    if let Ok(view) = v8::Local::<v8::ArrayBufferView>::try_from(value) {
        let mut copy = vec![0; view.byte_length()];
        view.copy_contents(&mut copy);
        Some(copy.into())
    } else if value.is_string() {
        Some(to_text(scope, value).into())
    } else {
        None
    }
}

/// What JavaScript says about an outgoing body.
pub(crate) fn body_from_js(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut crate::state::HostState,
    whole: v8::Local<v8::Value>,
    channel: u32,
) -> Body {
    if channel != 0 {
        return state
            .unsent
            .remove(&channel)
            .or_else(|| state.bodies.remove(&channel))
            .map_or(Body::Empty, Body::Stream);
    }
    payload(scope, whole).map_or(Body::Empty, Body::Bytes)
}

/// An error as `errors.js` describes one.
pub(crate) fn error_from_js(
    scope: &mut v8::PinScope<'_, '_>,
    value: v8::Local<v8::Value>,
) -> EventError {
    let mut error = EventError::new("unknown error");
    let Ok(object) = v8::Local::<v8::Object>::try_from(value) else {
        return error;
    };
    let mut member = |name: &str| {
        let key = text(scope, name);
        // Own properties only: no script runs while they are read.
        let own = v8::Local::<v8::Name>::try_from(key).ok()?;
        if !object.has_own_property(scope, own).unwrap_or(false) {
            return None;
        }
        object.get(scope, key).filter(|value| !value.is_undefined())
    };
    let (name, message, stack, own) = (
        member("name"),
        member("message"),
        member("stack"),
        member("value"),
    );
    error.retryable = member("retryable").is_some_and(|flag| flag.is_true());
    error.overloaded = member("overloaded").is_some_and(|flag| flag.is_true());
    error.durable_object_reset = member("reset").is_some_and(|flag| flag.is_true());
    error.name = name.map_or_else(String::new, |name| to_text(scope, name));
    error.message = message.map_or_else(String::new, |message| to_text(scope, message));
    error.stack = stack.map(|stack| crate::loader::without_addresses(&to_text(scope, stack)));
    error.value = own.and_then(|own| payload(scope, own));
    error
}

/// An error in the form that `errors.js` rebuilds: `{ error: … }`.
pub(crate) fn error_to_js<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    error: &EventError,
    remote: bool,
) -> v8::Local<'s, v8::Value> {
    let inner = v8::Object::new(scope);
    let name = text(scope, &error.name);
    set(scope, inner, "name", name);
    let message = text(scope, &error.message);
    set(scope, inner, "message", message);
    if let Some(value) = &error.value {
        let value = bytes(scope, value);
        set(scope, inner, "value", value);
    }
    for (name, flag) in [
        ("remote", remote),
        ("retryable", error.retryable),
        ("overloaded", error.overloaded),
        ("reset", error.durable_object_reset),
    ] {
        if flag {
            let value = v8::Boolean::new(scope, true).into();
            set(scope, inner, name, value);
        }
    }
    let outer = v8::Object::new(scope);
    set(scope, outer, "error", inner.into());
    outer.into()
}

/// Sets a property of a plain object.
pub(crate) fn set(
    scope: &mut v8::PinScope<'_, '_>,
    object: v8::Local<v8::Object>,
    name: &str,
    value: v8::Local<v8::Value>,
) {
    let key = text(scope, name);
    // Not `set`: a setter that a script put on `Object.prototype` must not run here.
    if let Ok(key) = v8::Local::<v8::Name>::try_from(key) {
        object.create_data_property(scope, key, value);
    }
}

/// A body failure as scripts see it.
pub(crate) fn body_error(error: &BodyError) -> EventError {
    match error {
        BodyError::Disconnected => EventError::disconnected(),
        other => EventError::new(other.to_string()),
    }
}
