//! Compatibility dates and flags that the Workers platform knows.

use std::collections::HashSet;

/// The newest compatibility date that this version of celld knows.
pub const NEWEST_DATE: &str = "2026-11-17";

/// One compatibility flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Date from which it is on by default, as `YYYY-MM-DD`; empty when only a flag turns it on.
    pub date: &'static str,
    /// Name that turns it on.
    pub enable: &'static str,
    /// Name that turns it off; empty when there is none.
    pub disable: &'static str,
    /// Not available in production: behaviour may change at any time.
    pub experimental: bool,
}

const fn flag(date: &'static str, enable: &'static str, disable: &'static str) -> Flag {
    Flag {
        date,
        enable,
        disable,
        experimental: false,
    }
}

const fn exp(date: &'static str, enable: &'static str, disable: &'static str) -> Flag {
    Flag {
        date,
        enable,
        disable,
        experimental: true,
    }
}

/// Finds the flag that `name` turns on or off.
pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS
        .iter()
        .find(|flag| flag.enable == name || (!flag.disable.is_empty() && flag.disable == name))
}

/// Every name that turns something on or off.
pub fn names() -> impl Iterator<Item = &'static str> {
    FLAGS
        .iter()
        .flat_map(|flag| [flag.enable, flag.disable])
        .filter(|name| !name.is_empty())
}

/// Pairs in `flags` that turn one thing both on and off.
pub fn contradictions<'a>(flags: &[&'a str]) -> Vec<(&'a str, &'static str)> {
    let given: HashSet<&str> = flags.iter().copied().collect();
    let opposite = |name: &'a str| {
        let flag = find(name).filter(|flag| flag.enable == name && given.contains(flag.disable))?;
        Some((name, flag.disable))
    };
    flags.iter().filter_map(|name| opposite(name)).collect()
}

/// Checks `YYYY-MM-DD` and that the day exists.
pub fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| -> Option<u32> {
        let part = bytes.get(range)?;
        part.iter()
            .all(u8::is_ascii_digit)
            .then(|| part.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0')))
    };
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (digits(0..4), digits(5..7), digits(8..10)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Dated flags by date, then the others.
#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("2021-11-03", "formdata_parser_supports_files", "formdata_parser_converts_files_to_strings"),
    flag("2021-11-10", "fetch_refuses_unknown_protocols", "fetch_treats_unknown_protocols_as_http"),
    flag("2021-11-10", "durable_object_fetch_requires_full_url", "durable_object_fetch_allows_relative_url"),
    flag("2021-11-10", "streams_byob_reader_detaches_buffer", "streams_byob_reader_does_not_detach_buffer"),
    flag("2022-01-31", "workers_api_getters_setters_on_prototype", "workers_api_getters_setters_on_instance"),
    flag("2022-03-08", "no_cots_on_external_fetch", "cots_on_external_fetch"),
    flag("2022-03-21", "global_navigator", "no_global_navigator"),
    flag("2022-04-05", "minimal_subrequests", "no_minimal_subrequests"),
    flag("2022-06-01", "dont_substitute_null_on_type_error", "substitute_null_on_type_error"),
    flag("2022-08-04", "r2_list_honor_include", ""),
    flag("2022-10-31", "url_standard", "url_original"),
    flag("2022-10-31", "capture_async_api_throws", "do_not_capture_async_api_throws"),
    flag("2022-10-31", "export_commonjs_default", "export_commonjs_namespace"),
    flag("2022-11-30", "streams_enable_constructors", "streams_disable_constructors"),
    flag("2022-11-30", "transformstream_enable_standard_constructor", "transformstream_disable_standard_constructor"),
    flag("2023-03-01", "http_headers_getsetcookie", "no_http_headers_getsetcookie"),
    flag("2023-03-01", "dynamic_dispatch_tunnel_exceptions", "dynamic_dispatch_treat_exceptions_as_500"),
    flag("2023-03-14", "response_redirect_url_standard", "response_redirect_url_original"),
    flag("2023-07-01", "urlsearchparams_delete_has_value_arg", "no_urlsearchparams_delete_has_value_arg"),
    flag("2023-08-01", "no_cf_botmanagement_default", "cf_botmanagement_default"),
    flag("2023-08-01", "strict_compression_checks", "no_strict_compression_checks"),
    flag("2023-08-01", "strict_crypto_checks", "no_strict_crypto_checks"),
    flag("2023-08-15", "web_socket_compression", "no_web_socket_compression"),
    flag("2023-11-08", "vectorize_query_metadata_optional", "vectorize_query_original"),
    flag("2023-12-01", "crypto_preserve_public_exponent", "no_crypto_preserve_public_exponent"),
    flag("2024-03-04", "no_global_importscripts", "global_importscripts"),
    flag("2024-03-18", "queues_json_messages", "no_queues_json_messages"),
    flag("2024-03-26", "fetcher_no_get_put_delete", "fetcher_has_get_put_delete"),
    flag("2024-04-01", "unwrap_custom_thenables", "no_unwrap_custom_thenables"),
    flag("2024-04-03", "rpc", "no_rpc"),
    flag("2024-04-29", "brotli_content_encoding", "no_brotli_content_encoding"),
    flag("2024-05-13", "internal_stream_byob_return_view", "internal_stream_byob_return_undefined"),
    flag("2024-06-03", "blob_standard_mime_type", "blob_legacy_mime_type"),
    flag("2024-06-03", "fetch_standard_url", "fetch_legacy_url"),
    flag("2024-09-02", "allow_custom_ports", "ignore_custom_ports"),
    flag("2024-09-02", "internal_writable_stream_abort_clears_queue", "internal_writable_stream_abort_does_not_clear_queue"),
    flag("2024-09-26", "set_tostring_tag", "do_not_set_tostring_tag"),
    flag("2024-10-14", "handle_cross_request_promise_resolution", "no_handle_cross_request_promise_resolution"),
    flag("2024-10-14", "upper_case_all_http_methods", "no_upper_case_all_http_methods"),
    flag("2024-11-11", "cache_option_enabled", "cache_option_disabled"),
    flag("2024-12-02", "disable_top_level_await_in_require", "enable_top_level_await_in_require"),
    flag("2024-12-16", "fixup-transform-stream-backpressure", "original-transform-stream-backpressure"),
    flag("2025-04-01", "assets_navigation_prefers_asset_serving", "assets_navigation_has_no_effect"),
    flag("2025-04-02", "request_cf_overrides_cache_rules", "no_request_cf_overrides_cache_rules"),
    flag("2025-04-19", "cache_api_compat_flags", "no_cache_api_compat_flags"),
    flag("2025-05-01", "urlpattern_standard", "urlpattern_original"),
    flag("2025-05-05", "enable_weak_ref", "disable_weak_ref"),
    flag("2025-05-19", "cache_api_request_cf_overrides_cache_rules", "no_cache_api_request_cf_overrides_cache_rules"),
    flag("2025-05-19", "enable_navigator_language", "disable_navigator_language"),
    flag("2025-06-01", "allow_eval_during_startup", "disallow_eval_during_startup"),
    flag("2025-06-16", "bind_asynclocalstorage_snapshot_to_request", "do_not_bind_asynclocalstorage_snapshot_to-request"),
    flag("2025-06-16", "throw_on_unrecognized_import_assertion", "ignore_unrecognized_import_assertion"),
    flag("2025-08-01", "set_event_target_this", "no_set_event_target_this"),
    flag("2025-08-01", "set_forwardable_email_full_headers", "set_forwardable_email_single_headers"),
    flag("2025-08-11", "python_workers_force_new_vendor_path", ""),
    flag("2025-08-14", "python_no_global_handlers", "disable_python_no_global_handlers"),
    flag("2025-08-15", "expose_global_message_channel", "no_expose_global_message_channel"),
    flag("2025-09-01", "strip_authorization_on_cross_origin_redirect", "retain_authorization_on_cross_origin_redirect"),
    flag("2025-09-20", "enable_validate_workflow_entrypoint", "disable_validate_workflow_entrypoint"),
    flag("2025-11-17", "enable_ctx_exports", "disable_ctx_exports"),
    flag("2025-12-03", "enable_fast_jsg_struct", "disable_fast_jsg_struct"),
    flag("2026-01-13", "strip_bom_in_read_all_text", "do_not_strip_bom_in_read_all_text"),
    flag("2026-01-20", "rpc_params_dup_stubs", "rpc_params_transfer_stubs"),
    flag("2026-01-22", "require_returns_default_export", "require_returns_namespace"),
    flag("2026-02-17", "python_request_headers_preserve_commas", "disable_python_request_headers_preserve_commas"),
    flag("2026-02-19", "fetch_iterable_type_support", "no_fetch_iterable_type_support"),
    flag("2026-02-24", "text_decoder_replace_surrogates", "disable_text_decoder_replace_surrogates"),
    flag("2026-02-24", "delete_all_deletes_alarm", "delete_all_preserves_alarm"),
    flag("2026-03-03", "unhandled_rejection_after_microtask_checkpoint", "no_unhandled_rejection_after_microtask_checkpoint"),
    flag("2026-03-03", "text_decoder_cjk_decoder", "disable_text_decoder_cjk_decoder"),
    flag("2026-03-03", "websocket_close_reason_byte_limit", "no_websocket_close_reason_byte_limit"),
    flag("2026-03-12", "queue_expose_error_codes", "no_queue_expose_error_codes"),
    flag("2026-03-17", "websocket_standard_binary_type", "no_websocket_standard_binary_type"),
    flag("2026-03-24", "writable_stream_spec_compliant_writer", "no_writable_stream_spec_compliant_writer"),
    flag("2026-03-24", "encoder_stream_spec_compliant_backpressure", "no_encoder_stream_spec_compliant_backpressure"),
    flag("2026-04-01", "containers_pid_namespace", "no_containers_pid_namespace"),
    flag("2026-04-07", "web_socket_auto_reply_to_close", "web_socket_manual_reply_to_close"),
    flag("2026-04-21", "enhanced_error_serialization", "legacy_error_serialization"),
    flag("2026-04-21", "enable_python_external_sdk", "disable_python_external_sdk"),
    flag("2026-05-14", "workflows_preserve_non_retryable_error_message", "workflows_replace_non_retryable_error_message"),
    flag("2026-05-19", "diagnostics_channel_has_subscribers_getter", "no_diagnostics_channel_has_subscribers_getter"),
    flag("2026-05-26", "python_process_pth_files", "disable_python_process_pth_files"),
    flag("2026-06-16", "throw_on_not_implemented_tls_options", "no_throw_on_not_implemented_tls_options"),
    flag("2026-08-04", "nodejs_compat", "no_nodejs_compat"),
    flag("2026-08-04", "nodejs_compat_v2", "no_nodejs_compat_v2"),
    flag("2026-08-11", "workflows_enable_fast_engine_creation", "workflows_disable_fast_engine_creation"),
    flag("", "html_rewriter_treats_esi_include_as_void_tag", ""),
    flag("", "r2_public_beta_bindings", "r2_internal_beta_bindings"),
    flag("", "durable_object_alarms", ""),
    exp("", "durable_object_rename", ""),
    flag("", "tcp_sockets_support", ""),
    exp("", "experimental", ""),
    exp("", "durable_object_get_existing", ""),
    exp("", "service_binding_extra_handlers", ""),
    exp("", "rtti_api", ""),
    exp("", "webgpu", ""),
    exp("", "unsafe_module", ""),
    exp("", "js_rpc", ""),
    flag("", "nodejs_als", "no_nodejs_als"),
    flag("", "python_workers", ""),
    flag("", "global_fetch_strictly_public", "global_fetch_private_origin"),
    flag("", "new_module_registry", "legacy_module_registry"),
    exp("", "kv_direct_binding", ""),
    exp("", "increase_websocket_message_size", ""),
    exp("", "python_workers_development", ""),
    flag("", "nodejs_zlib", "no_nodejs_zlib"),
    exp("", "replica_routing", ""),
    exp("", "enable_d1_with_sessions_api", ""),
    flag("", "python_external_packages", ""),
    exp("", "tail_worker_user_spans", ""),
    flag("", "cache_no_cache_enabled", "cache_no_cache_disabled"),
    flag("", "python_workers_20250116", "no_python_workers_20250116"),
    exp("", "memory_cache_delete", ""),
    flag("", "queue_consumer_no_wait_for_wait_until", "queue_consumer_wait_for_wait_until"),
    flag("", "nodejs_compat_populate_process_env", "nodejs_compat_do_not_populate_process_env"),
    flag("", "disallow_importable_env", "allow_importable_env"),
    exp("", "python_workers_durable_objects", ""),
    exp("", "streaming_tail_worker", ""),
    flag("", "request_signal_passthrough", "no_request_signal_passthrough"),
    exp("", "enable_web_file_system", ""),
    exp("", "enable_abortsignal_rpc", ""),
    flag("", "enable_request_signal", "disable_request_signal"),
    exp("", "connect_pass_through", ""),
    flag("", "python_workflows", "disable_python_workflows"),
    exp("", "unsupported_process_actual_platform", ""),
    flag("", "enable_nodejs_process_v2", "disable_nodejs_process_v2"),
    flag("", "enable_nodejs_http_modules", "disable_nodejs_http_modules"),
    flag("", "pedantic_wpt", "non_pedantic_wpt"),
    flag("", "enable_nodejs_http_server_modules", "disable_nodejs_http_server_modules"),
    flag("", "enable_nodejs_fs_module", "disable_nodejs_fs_module"),
    flag("", "enable_nodejs_os_module", "disable_nodejs_os_module"),
    flag("", "remove_nodejs_compat_eol", "add_nodejs_compat_eol"),
    flag("", "python_dedicated_snapshot", "disable_python_dedicated_snapshot"),
    exp("", "typescript_strip_types", ""),
    flag("", "enable_nodejs_http2_module", "disable_nodejs_http2_module"),
    exp("", "allow_insecure_inefficient_logged_eval", ""),
    flag("", "enable_email_sending_queuing", "disable_email_sending_queuing"),
    flag("", "remove_nodejs_compat_eol_v22", "add_nodejs_compat_eol_v22"),
    flag("", "remove_nodejs_compat_eol_v23", "add_nodejs_compat_eol_v23"),
    flag("", "remove_nodejs_compat_eol_v24", "add_nodejs_compat_eol_v24"),
    flag("", "enable_nodejs_console_module", "disable_nodejs_console_module"),
    flag("", "enable_nodejs_vm_module", "disable_nodejs_vm_module"),
    flag("", "enable_nodejs_perf_hooks_module", "disable_nodejs_perf_hooks_module"),
    flag("", "enable_global_performance_classes", "disable_global_performance_classes"),
    flag("", "enable_nodejs_domain_module", "disable_nodejs_domain_module"),
    flag("", "enable_nodejs_v8_module", "disable_nodejs_v8_module"),
    flag("", "enable_nodejs_tty_module", "disable_nodejs_tty_module"),
    flag("", "enable_nodejs_punycode_module", "disable_nodejs_punycode_module"),
    flag("", "enable_nodejs_cluster_module", "disable_nodejs_cluster_module"),
    flag("", "enable_nodejs_child_process_module", "disable_nodejs_child_process_module"),
    flag("", "enable_nodejs_worker_threads_module", "disable_nodejs_worker_threads_module"),
    flag("", "enable_nodejs_stream_wrap_module", "disable_nodejs_stream_wrap_module"),
    flag("", "enable_nodejs_wasi_module", "disable_nodejs_wasi_module"),
    flag("", "enable_nodejs_dgram_module", "disable_nodejs_dgram_module"),
    flag("", "enable_nodejs_inspector_module", "disable_nodejs_inspector_module"),
    flag("", "enable_nodejs_trace_events_module", "disable_nodejs_trace_events_module"),
    flag("", "enable_nodejs_readline_module", "disable_nodejs_readline_module"),
    flag("", "enable_nodejs_repl_module", "disable_nodejs_repl_module"),
    flag("", "enable_nodejs_sqlite_module", "disable_nodejs_sqlite_module"),
    exp("", "cache_reload_enabled", "cache_reload_disabled"),
    flag("", "enable_streams_nodejs_v24_compat", "disable_streams_nodejs_v24_compat"),
    flag("", "immutable_api_prototypes", "mutable_api_prototypes"),
    flag("", "env_module_nullable_support", "no_env_module_nullable_support"),
    exp("", "precise_timers", "no_precise_timers"),
    flag("", "fetch_iterable_type_support_override_adjustment", "no_fetch_iterable_type_support_override_adjustment"),
    flag("", "allow_irrevocable_stub_storage", ""),
    flag("", "enable_nodejs_global_timers", "no_nodejs_global_timers"),
    exp("", "streams_no_default_auto_allocate_chunk_size", "streams_auto_allocate_chunk_size_default"),
    flag("", "python_workflows_implicit_dependencies", "no_python_workflows_implicit_dependencies"),
    exp("", "enable_version_api", ""),
    exp("", "spec_compliant_property_attributes", "no_spec_compliant_property_attributes"),
    exp("", "enable_ctx_version_metadata", ""),
    flag("", "no_resizable_array_buffer_in_blob", "resizable_array_buffer_in_blob"),
    exp("", "workflows_step_rollback", ""),
    exp("", "auto_grpc_convert", ""),
    flag("", "python_workers_20260610", "no_python_workers_20260610"),
    exp("", "enable_nodejs_inspector_local_dev", ""),
    exp("", "d1_binding_jsrpc", ""),
    exp("", "workflows_bindings_rpc", ""),
    exp("", "typescript_implemented_streams", ""),
    exp("", "expose_draining_reader", ""),
    exp("", "wasm_memory_discard", ""),
    exp("", "python_workers_20260817", "no_python_workers_20260817"),    flag("2026-10-01", "durable_object_io_tasks_prevent_eviction", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_must_exist() {
        for good in ["2024-02-29", "2026-11-17", "2000-02-29", "2021-12-31"] {
            assert!(is_date(good), "{good}");
        }
        for bad in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-04-31",
            "2024-4-3",
            "2024/04/03",
            "",
            "２０２４-01-01",
            "2024-01-0a",
            "<COMPATIBILITY_DATE>",
        ] {
            assert!(!is_date(bad), "{bad}");
        }
    }

    #[test]
    fn the_table_is_consistent() {
        let mut seen = HashSet::new();
        for name in names() {
            assert!(seen.insert(name), "{name} is listed twice");
        }
        for flag in FLAGS {
            assert!(!flag.enable.is_empty());
            assert!(flag.date.is_empty() || is_date(flag.date), "{}", flag.date);
        }
        assert!(FLAGS.len() > 180);
    }

    #[test]
    fn flags_are_found_by_either_name() {
        assert_eq!(
            find("nodejs_compat").map(|flag| flag.date),
            Some("2026-08-04")
        );
        assert_eq!(find("no_nodejs_compat"), find("nodejs_compat"));
        assert_eq!(find(""), None);
        assert!(find("precise_timers").is_some_and(|flag| flag.experimental));
    }

    #[test]
    fn opposite_flags_are_noticed() {
        assert_eq!(
            contradictions(&["rpc", "url_standard", "no_rpc"]),
            [("rpc", "no_rpc")]
        );
        assert!(contradictions(&["rpc", "r2_list_honor_include"]).is_empty());
    }
}
