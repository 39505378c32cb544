//! Specifiers that the runtime provides, as against those that a project brings along.

/// Modules that Node.js ships and that may be imported without the `node:` prefix.
const NODE_BUILTINS: &[&str] = &[
    "_http_agent",
    "_http_client",
    "_http_common",
    "_http_incoming",
    "_http_outgoing",
    "_http_server",
    "_stream_duplex",
    "_stream_passthrough",
    "_stream_readable",
    "_stream_transform",
    "_stream_wrap",
    "_stream_writable",
    "_tls_common",
    "_tls_wrap",
    "assert",
    "assert/strict",
    "async_hooks",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "constants",
    "crypto",
    "dgram",
    "diagnostics_channel",
    "dns",
    "dns/promises",
    "domain",
    "events",
    "fs",
    "fs/promises",
    "http",
    "http2",
    "https",
    "inspector",
    "inspector/promises",
    "module",
    "net",
    "os",
    "path",
    "path/posix",
    "path/win32",
    "perf_hooks",
    "process",
    "punycode",
    "querystring",
    "readline",
    "readline/promises",
    "repl",
    "stream",
    "stream/consumers",
    "stream/promises",
    "stream/web",
    "string_decoder",
    "sys",
    "timers",
    "timers/promises",
    "tls",
    "trace_events",
    "tty",
    "url",
    "util",
    "util/types",
    "v8",
    "vm",
    "wasi",
    "worker_threads",
    "zlib",
];

/// Whether `specifier` names a Node.js module without its `node:` prefix.
pub(super) fn is_bare_node_builtin(specifier: &str) -> bool {
    NODE_BUILTINS.binary_search(&specifier).is_ok()
}

/// Whether the runtime alone can provide `specifier`, whatever the project holds.
pub(super) fn is_runtime_module(specifier: &str) -> bool {
    specifier.starts_with("cloudflare:")
        || specifier.starts_with("workerd:")
        || specifier.starts_with("node:")
        || specifier == "__STATIC_CONTENT_MANIFEST"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_for_the_binary_search() {
        assert!(NODE_BUILTINS.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn only_whole_names_are_builtins() {
        assert!(is_bare_node_builtin("fs"));
        assert!(is_bare_node_builtin("fs/promises"));
        assert!(!is_bare_node_builtin("fs/"));
        assert!(!is_bare_node_builtin("node:fs"));
        assert!(!is_bare_node_builtin("buffer/"));
        assert!(is_runtime_module("node:fs"));
        assert!(is_runtime_module("cloudflare:workers"));
        assert!(!is_runtime_module("cloudflare"));
    }
}
