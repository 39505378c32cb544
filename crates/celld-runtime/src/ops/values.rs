//! Reading values that hold more than data: each special object is made by the API layer.
//!
//! `core.serialize` writes an object that is marked with `core.hostObjectBrand` as a tag and the
//! form that the mark makes of it. Here the form goes back to a function, whatever it is: the
//! counterpart in `core` looks a function up by a name that the message chooses.

use std::sync::Arc;

use deno_core::convert::Uint8Array;
use deno_core::{JsBuffer, OpState, op2, v8};
use deno_error::JsErrorBox;
use futures::FutureExt;
use v8::ValueDeserializerHelper;

/// Written before the form of a marked object.
const FORM_TAG: u32 = u32::MAX;

struct Forms<'a> {
    build: v8::Local<'a, v8::Function>,
}

impl v8::ValueDeserializerImpl for Forms<'_> {
    fn read_host_object<'s>(
        &self,
        scope: &mut v8::PinScope<'s, '_>,
        reader: &dyn v8::ValueDeserializerHelper,
    ) -> Option<v8::Local<'s, v8::Object>> {
        let mut tag = 0;
        if !reader.read_uint32(&mut tag) || tag != FORM_TAG {
            return None;
        }
        let form = reader.read_value(scope.get_current_context())?;
        let this = v8::undefined(scope).into();
        let allowed = std::pin::pin!(v8::AllowJavascriptExecutionScope::new(scope));
        let scope = &mut allowed.init();
        let made = self.build.call(scope, this, &[form])?;
        v8::Local::<v8::Object>::try_from(made).ok()
    }
}

/// Reads a value in V8's format. `build` makes the special objects from their forms; what it
/// throws is thrown.
#[op2(reentrant)]
pub fn op_value_read<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    #[buffer] bytes: JsBuffer,
    build: v8::Local<'s, v8::Function>,
) -> Result<v8::Local<'s, v8::Value>, JsErrorBox> {
    let undefined = v8::undefined(scope).into();
    let reader = v8::ValueDeserializer::new(scope, Box::new(Forms { build }), &bytes);
    v8::tc_scope!(let scope, scope);
    let context = scope.get_current_context();
    let value = reader
        .read_header(context)
        .filter(|sound| *sound)
        .and_then(|_| reader.read_value(context));
    if scope.has_caught() || scope.has_terminated() {
        scope.rethrow();
        return Ok(undefined);
    }
    value.ok_or_else(|| JsErrorBox::range_error("could not deserialize value"))
}

/// The bytes of a Blob's parts, which are in memory. No bytes for a part that is unknown.
#[op2]
pub fn op_blob_bytes(
    state: &mut OpState,
    scope: &mut v8::PinScope<'_, '_>,
    parts: v8::Local<v8::Array>,
) -> Uint8Array {
    let store = state.borrow::<Arc<dyn deno_web::BlobStoreTrait>>();
    let mut whole = Vec::new();
    for index in 0..parts.length() {
        let part = parts
            .get_index(scope, index)
            .map(|id| super::to_text(scope, id))
            .and_then(|id| id.parse().ok())
            .and_then(|id| store.get_part(&id));
        // Reading memory never waits.
        if let Some(bytes) = part.as_ref().and_then(|part| part.read().now_or_never()) {
            whole.extend_from_slice(bytes);
        }
    }
    whole.into()
}
