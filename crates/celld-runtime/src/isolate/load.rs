//! Starting an isolate and loading a Worker into it.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deno_core::{JsRuntime, ModuleSpecifier, PollEventLoopOptions, RuntimeOptions, v8};

use super::{Entry, Isolate, from_js_error, thrown};
use crate::api::{ASSETS_WORKER, Binding, HostConfig, WorkerCode};
use crate::exchange::{EventError, Limit};
use crate::host::WorkerSurface;
use crate::ops;
use crate::state::{HostState, Namespace};
use crate::watch::Watched;

/// Room that a script gets, once, to unwind after it hit the heap limit, in bytes.
const UNWIND_BYTES: usize = 32 << 20;

impl Isolate {
    /// Starts an isolate from the snapshot and evaluates the Worker's main module.
    pub async fn load(config: HostConfig) -> Result<(Self, WorkerSurface), EventError> {
        let loader = Rc::new(crate::loader::WorkerLoader::new(config.code.clone()));
        let mut js = JsRuntime::try_new(RuntimeOptions {
            module_loader: Some(loader),
            extensions: crate::extension::extensions(),
            startup_snapshot: Some(config.snapshot),
            shared_array_buffer_store: Some(deno_core::SharedArrayBufferStore::default()),
            create_params: Some(crate::memory::create_params(config.limits.heap_max_bytes)),
            ..Default::default()
        })
        .map_err(|error| EventError::new(format!("cannot start an isolate: {error}")))?;
        let heap_exhausted = Arc::new(AtomicBool::new(false));
        let context = js.main_context();
        js.v8_isolate().set_slot(crate::watch::MainContext(context));
        let watched =
            Watched::register(js.v8_isolate().thread_safe_handle(), config.limits.cpu_max);
        limit_heap(&mut js, heap_exhausted.clone(), watched.clone());
        let limits = config.limits.clone();
        let (code, namespaces) = (config.code.clone(), namespaces(&config.code));
        let numbers: Vec<_> = namespaces
            .iter()
            .map(|namespace| namespace.key.clone())
            .collect();
        let state = js.op_state();
        let mut host_state = HostState::new(config, namespaces);
        host_state.watched = Some(watched.clone());
        state.borrow_mut().put(host_state);
        let host = take_host(&mut js)?;
        let number = |key: &celld_core::NamespaceKey| {
            numbers.iter().position(|known| known == key).unwrap_or(0) as u32
        };
        configure(&mut js, &host, &code, &limits, &number)?;
        watched.enter();
        let evaluated = evaluate(&mut js, &code).await;
        watched.leave();
        if heap_exhausted.load(Ordering::Relaxed) {
            return Err(EventError {
                limit: Some(Limit::Memory),
                ..EventError::new("the Worker exceeded its memory limit while starting")
            });
        }
        if watched.take_culprit().is_some() {
            return Err(EventError {
                limit: Some(Limit::Cpu),
                ..EventError::new("the Worker exceeded its CPU time limit while starting")
            });
        }
        let module = evaluated?;
        let surface = finish(&mut js, &host, module)?;
        let entries = entries(&mut js, &host)?;
        let isolate = Self {
            js,
            state,
            entries,
            watched,
            heap_exhausted,
            stopping: None,
            doomed: false,
            has_worked: false,
            reported: 0,
            wake_up: None,
        };
        Ok((isolate, surface))
    }
}

/// Ends the running script when the heap is full, and leaves it room to unwind.
fn limit_heap(js: &mut JsRuntime, exhausted: Arc<AtomicBool>, watched: Arc<Watched>) {
    let handle = js.v8_isolate().thread_safe_handle();
    js.add_near_heap_limit_callback(move |current, _initial| {
        // At first in a way that tells who it was; then, if it goes on, at once.
        if exhausted.swap(true, Ordering::Relaxed) {
            handle.terminate_execution();
        } else {
            watched.end_for_memory();
        }
        current + UNWIND_BYTES
    });
}

/// Every namespace that a binding or a class of the Worker refers to.
fn namespaces(code: &WorkerCode) -> Vec<Namespace> {
    let bound = code
        .bindings
        .iter()
        .filter_map(|(_, binding)| match binding {
            Binding::DurableObject(key) => Some(key),
            _ => None,
        });
    let mut seen = HashSet::new();
    bound
        .chain(code.classes.iter().map(|class| &class.namespace))
        .filter(|key| seen.insert((*key).clone()))
        .map(|key| Namespace::new(key.clone()))
        .collect()
}

/// Takes the API layer's functions off the global object, and removes what scripts must not see.
fn take_host(js: &mut JsRuntime) -> Result<v8::Global<v8::Object>, EventError> {
    deno_core::scope!(scope, js);
    let global = scope.get_current_context().global(scope);
    let key = ops::text(scope, "__celld");
    let host = global
        .get(scope, key)
        .and_then(|host| v8::Local::<v8::Object>::try_from(host).ok())
        .ok_or_else(|| EventError::new("the start-up snapshot does not hold the API layer"))?;
    let host = v8::Global::new(scope, host);
    for name in ["__celld", "Deno", "__bootstrap"] {
        let key = ops::text(scope, name);
        global.delete(scope, key);
    }
    Ok(host)
}

fn member<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    host: &v8::Global<v8::Object>,
    name: &str,
) -> Result<v8::Local<'s, v8::Function>, EventError> {
    let host = v8::Local::new(scope, host);
    let key = ops::text(scope, name);
    host.get(scope, key)
        .and_then(|function| v8::Local::<v8::Function>::try_from(function).ok())
        .ok_or_else(|| EventError::new(format!("the start-up snapshot lacks the function {name}")))
}

fn entries(
    js: &mut JsRuntime,
    host: &v8::Global<v8::Object>,
) -> Result<Vec<v8::Global<v8::Function>>, EventError> {
    deno_core::scope!(scope, js);
    Entry::ALL
        .iter()
        .map(|(_, name)| {
            let function = member(scope, host, name)?;
            Ok(v8::Global::new(scope, function))
        })
        .collect()
}

/// Tells the API layer about bindings, classes and flags.
fn configure(
    js: &mut JsRuntime,
    host: &v8::Global<v8::Object>,
    code: &WorkerCode,
    limits: &crate::api::Limits,
    number: &dyn Fn(&celld_core::NamespaceKey) -> u32,
) -> Result<(), EventError> {
    deno_core::scope!(scope, js);
    let function = member(scope, host, "configure")?;
    let optional = |text: &Option<String>| serde_json::Value::from(text.clone());
    let bindings: Vec<serde_json::Value> = code
        .bindings
        .iter()
        .map(|(name, binding)| match binding {
            Binding::Text(value) => serde_json::json!([name, "text", value]),
            Binding::Json(value) => serde_json::json!([name, "json", value]),
            Binding::DurableObject(key) => serde_json::json!([name, "durable", number(key)]),
            Binding::Service {
                worker,
                entrypoint,
                props,
            } => {
                serde_json::json!([
                    name,
                    "service",
                    optional(worker),
                    optional(entrypoint),
                    optional(props)
                ])
            }
            Binding::Assets => serde_json::json!([name, "service", ASSETS_WORKER, null, null]),
        })
        .collect();
    let classes: Vec<serde_json::Value> = code
        .classes
        .iter()
        .map(|class| serde_json::json!([class.class_name, number(&class.namespace), class.sqlite]))
        .collect();
    let flags = crate::compat::enabled_flags(code);
    let milliseconds = |time: std::time::Duration| {
        serde_json::json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    };
    let mut arguments = Vec::new();
    for value in [
        serde_json::json!(bindings),
        serde_json::json!(classes),
        serde_json::json!(flags),
        milliseconds(limits.wait_until_max),
        milliseconds(limits.alarm_max),
    ] {
        let text = ops::text(scope, &value.to_string());
        let text = v8::Local::<v8::String>::try_from(text)
            .map_err(|_| EventError::new("bindings are too large"))?;
        let parsed = v8::json::parse(scope, text)
            .ok_or_else(|| EventError::new("bindings are too large"))?;
        arguments.push(parsed);
    }
    let this = v8::undefined(scope).into();
    v8::tc_scope!(let scope, scope);
    match function.call(scope, this, &arguments) {
        Some(_) => Ok(()),
        None => Err(thrown(scope)),
    }
}

/// Evaluates the main module and everything that it imports.
async fn evaluate(
    js: &mut JsRuntime,
    code: &WorkerCode,
) -> Result<deno_core::ModuleId, EventError> {
    let address = crate::loader::address_of(&code.main_module);
    let address = ModuleSpecifier::parse(&address)
        .map_err(|error| EventError::new(format!("main module {}: {error}", code.main_module)))?;
    let module = js.load_main_es_module(&address).await.map_err(core_error)?;
    let evaluation = js.mod_evaluate(module);
    js.with_event_loop_promise(evaluation, PollEventLoopOptions::default())
        .await
        .map_err(core_error)?;
    Ok(module)
}

fn core_error(error: deno_core::error::CoreError) -> EventError {
    core_error_kind(error.into_kind())
}

fn core_error_kind(error: deno_core::error::CoreErrorKind) -> EventError {
    use deno_core::error::{CoreErrorKind, JsError};
    use deno_error::JsErrorClass;
    match error {
        CoreErrorKind::Js(error) => from_js_error(&error),
        CoreErrorKind::CouldNotExecute { error, .. } => core_error_kind(*error),
        CoreErrorKind::JsBox(error) => {
            let inner = error.get_ref();
            match inner
                .downcast_ref::<JsError>()
                .or_else(|| inner.downcast_ref::<Box<JsError>>().map(AsRef::as_ref))
            {
                Some(error) => from_js_error(error),
                None => EventError::new(crate::loader::without_addresses(&error.to_string())),
            }
        }
        other => EventError::new(crate::loader::without_addresses(&other.to_string())),
    }
}

/// Answers V8 whether a script may compile WebAssembly from bytes.
unsafe extern "C" fn no_wasm_code(
    _context: v8::Local<v8::Context>,
    _source: v8::Local<v8::String>,
) -> bool {
    false
}

/// Hands the evaluated module to the API layer, which says what it offers.
fn finish(
    js: &mut JsRuntime,
    host: &v8::Global<v8::Object>,
    module: deno_core::ModuleId,
) -> Result<WorkerSurface, EventError> {
    let namespace = js.get_module_namespace(module).map_err(core_error)?;
    deno_core::scope!(scope, js);
    let function = member(scope, host, "loaded")?;
    let namespace = v8::Local::new(scope, namespace).into();
    let this = v8::undefined(scope).into();
    // Code from strings, and WebAssembly from bytes, are for start-up only.
    scope.set_allow_wasm_code_generation_callback(no_wasm_code);
    scope
        .get_current_context()
        .set_allow_generation_from_strings(false);
    v8::tc_scope!(let scope, scope);
    let Some(offered) = function.call(scope, this, &[namespace]) else {
        return Err(thrown(scope));
    };
    let lists: Vec<Vec<String>> = deno_core::serde_v8::from_v8(scope, offered)
        .map_err(|error| EventError::new(format!("the API layer answered nonsense: {error}")))?;
    let mut lists = lists.into_iter();
    Ok(WorkerSurface {
        handlers: lists.next().unwrap_or_default(),
        durable_classes: lists.next().unwrap_or_default(),
        entrypoints: lists.next().unwrap_or_default(),
    })
}
