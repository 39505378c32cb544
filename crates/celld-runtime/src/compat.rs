//! Which compatibility flags are in force for a Worker.

use crate::api::WorkerCode;

/// Flags that this runtime acts upon: default date, name, opposite.
///
/// `Cloudflare.compatibilityFlags` lists these and whatever the Worker enables by name.
const FLAGS: &[(&str, &str, &str)] = &[
    (
        "2021-11-03",
        "formdata_parser_supports_files",
        "formdata_parser_converts_files_to_strings",
    ),
    ("2022-03-21", "global_navigator", "no_global_navigator"),
    (
        "2022-11-30",
        "streams_enable_constructors",
        "streams_disable_constructors",
    ),
    (
        "2022-11-30",
        "transformstream_enable_standard_constructor",
        "transformstream_disable_standard_constructor",
    ),
    (
        "2023-03-01",
        "http_headers_getsetcookie",
        "no_http_headers_getsetcookie",
    ),
    ("2024-04-03", "rpc", "no_rpc"),
    ("2025-11-17", "enable_ctx_exports", "disable_ctx_exports"),
    (
        "2026-01-20",
        "rpc_params_dup_stubs",
        "rpc_params_transfer_stubs",
    ),
    (
        "2026-02-24",
        "delete_all_deletes_alarm",
        "delete_all_preserves_alarm",
    ),
    (
        "2026-03-03",
        "websocket_close_reason_byte_limit",
        "no_websocket_close_reason_byte_limit",
    ),
    (
        "2026-03-17",
        "websocket_standard_binary_type",
        "no_websocket_standard_binary_type",
    ),
    (
        "2026-04-07",
        "web_socket_auto_reply_to_close",
        "web_socket_manual_reply_to_close",
    ),
    (
        "2026-04-21",
        "enhanced_error_serialization",
        "legacy_error_serialization",
    ),
    ("2026-08-04", "nodejs_compat", "no_nodejs_compat"),
];

/// Names of the flags in force.
pub fn enabled_flags(code: &WorkerCode) -> Vec<String> {
    let mut enabled: Vec<String> = FLAGS
        .iter()
        .filter(|(date, name, opposite)| !code.lacks_flag(date, name, opposite))
        .map(|(_, name, _)| (*name).to_owned())
        .collect();
    for flag in &code.compatibility_flags {
        if !enabled.contains(flag) {
            enabled.push(flag.clone());
        }
    }
    enabled
}

impl WorkerCode {
    /// Whether the Worker's flags let it import a module of the API layer; only those of Node.js
    /// need one.
    pub(crate) fn offers_node_module(&self, specifier: &str) -> bool {
        let has = |name: &str| self.compatibility_flags.iter().any(|flag| flag == name);
        let compatible = !self.lacks_flag("2026-08-04", "nodejs_compat", "no_nodejs_compat")
            || (has("nodejs_compat_v2") && !has("no_nodejs_compat"));
        let storage_alone = specifier == "node:async_hooks" && has("nodejs_als");
        !specifier.starts_with("node:") || compatible || storage_alone
    }
}
