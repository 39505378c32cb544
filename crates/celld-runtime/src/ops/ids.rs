//! Durable Object ids, module contents, and a comparison in constant time.

use celld_core::ObjectId;
use deno_core::{JsBuffer, OpState, op2};
use deno_error::JsErrorBox;

use crate::state::{HostState, Namespace};

fn namespace(state: &OpState, number: u32) -> Result<&Namespace, JsErrorBox> {
    state
        .borrow::<HostState>()
        .namespaces
        .get(number as usize)
        .ok_or_else(|| JsErrorBox::type_error("unknown Durable Object namespace"))
}

/// A fresh id, in hex.
#[op2]
#[string]
pub fn op_id_unique(state: &mut OpState, number: u32) -> Result<String, JsErrorBox> {
    let id = namespace(state, number)?
        .unique_id()
        .map_err(|error| JsErrorBox::generic(format!("no randomness: {error}")))?;
    Ok(id.to_hex())
}

/// The id of a name, in hex.
#[op2]
#[string]
pub fn op_id_from_name(state: &mut OpState, number: u32, #[string] name: &str) -> Result<String, JsErrorBox> {
    Ok(namespace(state, number)?.id_from_name(name).to_hex())
}

/// The id that a string stands for, in canonical form.
#[op2]
#[string]
pub fn op_id_check(state: &mut OpState, number: u32, #[string] text: &str) -> Result<String, JsErrorBox> {
    let id = ObjectId::from_hex(text).map_err(|error| JsErrorBox::type_error(error.to_string()))?;
    if !namespace(state, number)?.owns(&id) {
        return Err(JsErrorBox::type_error("Durable Object ID is not valid for this namespace."));
    }
    Ok(id.to_hex())
}

/// Contents of a module that is not ECMAScript.
#[op2]
#[buffer]
pub fn op_module_bytes(state: &mut OpState, #[string] specifier: &str) -> Result<Vec<u8>, JsErrorBox> {
    state
        .borrow::<HostState>()
        .config
        .code
        .modules
        .iter()
        .find(|module| module.specifier == specifier)
        .map(|module| module.source.to_vec())
        .ok_or_else(|| JsErrorBox::type_error(format!("no module \"{specifier}\" in this Worker")))
}

/// Compares without revealing by its duration where the difference is. Equal lengths are the
/// caller's business.
#[op2]
pub fn op_crypto_timing_safe_equal(#[buffer] left: JsBuffer, #[buffer] right: JsBuffer) -> bool {
    let difference = left
        .iter()
        .zip(right.iter())
        .fold(0u8, |seen, (a, b)| seen | (a ^ b));
    std::hint::black_box(difference) == 0 && left.len() == right.len()
}
