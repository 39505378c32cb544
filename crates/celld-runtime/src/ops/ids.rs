//! Durable Object ids, module contents, and a comparison in constant time.

use std::cell::RefCell;
use std::rc::Rc;

use celld_core::ObjectId;
use deno_core::{JsBuffer, OpState, op2, v8};
use deno_error::JsErrorBox;

use crate::api::ModuleKind;
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
pub fn op_id_from_name(
    state: &mut OpState,
    number: u32,
    #[string] name: &str,
) -> Result<String, JsErrorBox> {
    Ok(namespace(state, number)?.id_from_name(name).to_hex())
}

/// The id that a string stands for, in canonical form.
#[op2]
#[string]
pub fn op_id_check(
    state: &mut OpState,
    number: u32,
    #[string] text: &str,
) -> Result<String, JsErrorBox> {
    let id = ObjectId::from_hex(text).map_err(|error| JsErrorBox::type_error(error.to_string()))?;
    if !namespace(state, number)?.owns(&id) {
        return Err(JsErrorBox::type_error(
            "Durable Object ID is not valid for this namespace.",
        ));
    }
    Ok(id.to_hex())
}

/// Contents of a module that is not ECMAScript.
#[op2]
#[buffer]
pub fn op_module_bytes(
    state: &mut OpState,
    #[string] specifier: &str,
) -> Result<Vec<u8>, JsErrorBox> {
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

/// Compiles a CommonJS module to a function of `module`, `exports` and `require`.
#[op2(reentrant)]
pub fn op_module_compile<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: Rc<RefCell<OpState>>,
    #[string] specifier: &str,
) -> Result<v8::Local<'s, v8::Function>, JsErrorBox> {
    let source = {
        let state = state.borrow();
        let modules = &state.borrow::<HostState>().config.code.modules;
        let module = modules
            .iter()
            .find(|module| module.specifier == specifier && module.kind == ModuleKind::CommonJs)
            .ok_or_else(|| {
                JsErrorBox::type_error(format!("no CommonJS module \"{specifier}\" in this Worker"))
            })?;
        String::from_utf8_lossy(&module.source).into_owned()
    };
    let text = v8::String::new(scope, &source)
        .ok_or_else(|| JsErrorBox::range_error(format!("module \"{specifier}\" is too long")))?;
    let address = super::text(scope, &crate::loader::address_of(specifier));
    let origin = v8::ScriptOrigin::new(
        scope, address, 0, 0, false, 0, None, false, false, false, None,
    );
    let mut source = v8::script_compiler::Source::new(text, Some(&origin));
    let names = ["module", "exports", "require"];
    let names: Vec<v8::Local<v8::String>> = names
        .iter()
        .filter_map(|name| v8::String::new(scope, name))
        .collect();
    v8::script_compiler::compile_function(
        scope,
        &mut source,
        &names,
        &[],
        v8::script_compiler::CompileOptions::NoCompileOptions,
        v8::script_compiler::NoCacheReason::NoReason,
    )
    // The exception of the compiler is pending and reaches the script as it is.
    .ok_or_else(|| {
        JsErrorBox::new(
            "SyntaxError",
            format!("module \"{specifier}\" does not compile"),
        )
    })
}

/// Kind of a module, as a number that `modules.js` knows: 6 is one of the API layer; -1 when there
/// is none.
#[op2(fast)]
pub fn op_module_kind(state: &mut OpState, #[string] specifier: &str) -> i32 {
    let code = &state.borrow::<HostState>().config.code;
    if crate::loader::is_offered(code, specifier) {
        return 6;
    }
    code.modules
        .iter()
        .find(|module| module.specifier == specifier)
        .map_or(-1, |module| match module.kind {
            ModuleKind::EsModule => 0,
            ModuleKind::CommonJs => 1,
            ModuleKind::CompiledWasm => 2,
            ModuleKind::Text => 3,
            ModuleKind::Data => 4,
            ModuleKind::Json => 5,
        })
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
