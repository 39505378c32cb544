//! The extension that connects the JavaScript API layer with the host, and the snapshot of both.

use std::path::Path;
use std::sync::Arc;

use deno_core::{Extension, ExtensionFileSource};

use crate::ops;

deno_core::extension!(
    celld,
    deps = [deno_webidl, deno_web, deno_crypto, deno_fetch],
    ops = [
        ops::events::op_event_finish,
        ops::events::op_event_fail,
        ops::events::op_event_respond,
        ops::events::op_event_return,
        ops::events::op_console,
        ops::events::op_cell_reset,
        ops::events::op_alarm_begin,
        ops::events::op_cell_wake,
        ops::events::op_run_for,
        ops::bodies::op_body_open,
        ops::bodies::op_body_read,
        ops::bodies::op_body_write,
        ops::bodies::op_body_end,
        ops::bodies::op_body_fail,
        ops::bodies::op_body_cancel,
        ops::calls::op_call_cancel,
        ops::calls::op_call_fetch,
        ops::calls::op_call_cell_fetch,
        ops::calls::op_call_worker_fetch,
        ops::rpc::op_rpc_open_cell,
        ops::rpc::op_rpc_open_worker,
        ops::rpc::op_rpc_call,
        ops::rpc::op_rpc_return,
        ops::rpc::op_rpc_throw,
        ops::rpc::op_rpc_release,
        ops::rpc::op_rpc_finish,
        ops::rpc::op_rpc_close,
        ops::values::op_value_read,
        ops::values::op_blob_bytes,
        ops::ids::op_id_unique,
        ops::ids::op_id_from_name,
        ops::ids::op_id_check,
        ops::ids::op_module_bytes,
        ops::ids::op_module_compile,
        ops::ids::op_module_kind,
        ops::ids::op_crypto_timing_safe_equal,
        ops::sockets::op_socket_pair,
        ops::sockets::op_socket_next,
        ops::sockets::op_socket_send,
        ops::sockets::op_socket_close,
        ops::sockets::op_socket_drop,
        ops::sockets::op_socket_forget,
        ops::sockets::op_socket_unlist,
        ops::sockets::op_socket_accept,
        ops::sockets::op_socket_attach,
        ops::sockets::op_socket_attachment,
        ops::sockets::op_socket_tags,
        ops::sockets::op_cell_sockets,
        ops::sockets::op_auto_response_set,
        ops::sockets::op_auto_response_get,
        ops::sockets::op_auto_response_time,
        ops::sockets::op_event_timeout_get,
        ops::sockets::op_event_timeout_set,
        ops::storage::op_kv_get,
        ops::storage::op_kv_put,
        ops::storage::op_kv_put_many,
        ops::storage::op_kv_delete,
        ops::storage::op_kv_list,
        ops::storage::op_kv_list_open,
        ops::storage::op_kv_list_next,
        ops::storage::op_kv_delete_all,
        ops::storage::op_alarm_get,
        ops::storage::op_alarm_set,
        ops::storage::op_storage_nest,
        ops::storage::op_storage_release,
        ops::storage::op_storage_rollback,
        ops::storage::op_storage_sync,
        ops::sql::op_sql_exec,
        ops::sql::op_sql_next,
        ops::sql::op_sql_counts,
        ops::sql::op_sql_close,
        ops::sql::op_sql_size,
    ],
);

/// Modules of the API layer, in no particular order; `entry.js` imports nearly all.
const API_MODULES: &[&str] = &[
    "bodies",
    "calls",
    "cell",
    "console",
    "context",
    "email",
    "public",
    "entry",
    "errors",
    "globals",
    "http",
    "ids",
    "modules",
    "node/async_hooks",
    "node/diagnostics_channel",
    "node/errors",
    "node/events",
    "node/os",
    "node/path",
    "rpc",
    "rpc_session",
    "rpc_streams",
    "rpc_stubs",
    "rpc_target",
    "rpc_values",
    "sql",
    "state",
    "kv",
    "receive",
    "store",
    "storage",
    "streams",
    "web",
    "websocket",
    "workers",
];

/// The API layer could not be made into a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A module of the API layer cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The snapshot cannot be stored.
    #[error("cannot write {path}: {cause}")]
    Write {
        /// The file.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The API layer failed to evaluate.
    #[error("the API layer does not evaluate: {0}")]
    Evaluate(String),
}

/// Every extension of an isolate. The order is part of the snapshot's format.
pub fn extensions() -> Vec<Extension> {
    vec![
        deno_webidl::deno_webidl::init(),
        deno_web::deno_web::init(
            Arc::new(deno_web::BlobStore::default()),
            None,
            false,
            deno_web::InMemoryBroadcastChannel::default(),
        ),
        deno_crypto::deno_crypto::init(None),
        net_names(),
        deno_fetch::deno_fetch::init(deno_fetch::Options::default()),
        with_public_modules(celld::init()),
    ]
}

/// Modules that scripts, and the modules that the loader generates, import by name: the name, and
/// that of the script that returns the exports, an object that the API layer leaves in `internals`.
const PUBLIC_MODULES: &[(&str, &str)] = &[
    ("celld:modules", "ext:celld/public/celld:modules"),
    ("cloudflare:email", "ext:celld/public/cloudflare:email"),
    ("cloudflare:workers", "ext:celld/public/cloudflare:workers"),
    ("node:async_hooks", "ext:celld/public/node:async_hooks"),
    (
        "node:diagnostics_channel",
        "ext:celld/public/node:diagnostics_channel",
    ),
    ("node:events", "ext:celld/public/node:events"),
    ("node:os", "ext:celld/public/node:os"),
    ("node:path", "ext:celld/public/node:path"),
    ("node:path/posix", "ext:celld/public/node:path/posix"),
];

/// Whether scripts find a module of the API layer under this name.
pub(crate) fn is_public_module(specifier: &str) -> bool {
    PUBLIC_MODULES.iter().any(|(name, _)| *name == specifier)
}

fn with_public_modules(mut celld: Extension) -> Extension {
    celld.synthetic_esm_modules = std::borrow::Cow::Borrowed(PUBLIC_MODULES);
    let script = |(name, script): &(&'static str, &'static str)| {
        let source =
            format!("(function () {{ return __bootstrap.internals.celldPublic[\"{name}\"]; }})()");
        ExtensionFileSource::new_computed(script, source.into())
    };
    celld.lazy_loaded_js_files = PUBLIC_MODULES.iter().map(script).collect();
    celld
}

/// `deno_fetch` names one script of `deno_net`, for client certificates, which Workers do not have.
fn net_names() -> Extension {
    Extension {
        name: "deno_net",
        lazy_loaded_js_files: std::borrow::Cow::Owned(vec![ExtensionFileSource::new(
            "ext:deno_net/02_tls.js",
            deno_core::ascii_str!("(function () { return { loadTlsKeyPair() {} }; })()"),
        )]),
        ..Default::default()
    }
}

/// Evaluates the API layer in `directory` (`runtime-js/src`) and returns the snapshot.
///
/// Called by the build script of `celld-snapshot`.
pub fn create_snapshot(directory: &Path) -> Result<Box<[u8]>, SnapshotError> {
    let mut extensions = extensions();
    let mut files = Vec::new();
    for name in API_MODULES {
        files.push(api_module(directory, name, format!("ext:celld/{name}.js"))?);
    }
    let celld = extensions
        .last_mut()
        .expect("the list of extensions is never empty");
    celld.esm_files = std::borrow::Cow::Owned(files);
    celld.esm_entry_point = Some("ext:celld/public.js");
    let made = deno_core::snapshot::create_snapshot(
        deno_core::snapshot::CreateSnapshotOptions {
            cargo_manifest_dir: env!("CARGO_MANIFEST_DIR"),
            startup_snapshot: None,
            skip_op_registration: false,
            extensions,
            extension_transpiler: None,
            with_runtime_cb: None,
        },
        None,
    )
    .map_err(|error| SnapshotError::Evaluate(error.to_string()))?;
    Ok(made.output)
}

fn api_module(
    directory: &Path,
    name: &str,
    specifier: String,
) -> Result<ExtensionFileSource, SnapshotError> {
    let path = directory.join(format!("{name}.js"));
    let source = std::fs::read_to_string(&path).map_err(|cause| SnapshotError::Read {
        path: path.display().to_string(),
        cause,
    })?;
    // A build script runs once and ends: what it leaks is gone with it.
    let specifier: &'static str = Box::leak(specifier.into_boxed_str());
    Ok(ExtensionFileSource::new_computed(specifier, source.into()))
}
