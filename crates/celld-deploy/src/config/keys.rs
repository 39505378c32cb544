//! Every key of Wrangler's configuration, and what celld does with it.

use super::diagnostic::shown;

/// Where a key may stand, and whether an environment takes it over from the top level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Anywhere; an environment that lacks it uses the top level's.
    Inherited,
    /// Anywhere; an environment that lacks it has none.
    PerEnvironment,
    /// At the top level only.
    TopLevel,
}

/// What celld does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Read and honoured.
    Supported,
    /// Without meaning for a self-hosted node; accepted silently.
    Ignored,
    /// Accepted with a warning that says what does not happen.
    NoEffect(&'static str),
    /// Refused unless its value asks for nothing; the text names what is missing.
    Refused {
        /// What is not supported, as the subject of a sentence.
        what: &'static str,
        /// What to do.
        help: &'static str,
    },
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Where it may stand.
    pub scope: Scope,
    /// What celld does with it.
    pub treatment: Treatment,
}

/// Finds a key by its exact name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// What came of looking for a misspelt name among known ones.
pub fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > 64 {
        return None;
    }
    let folded = fold(name);
    let reach = match folded.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    known
        .map(|candidate| (strsim::osa_distance(&folded, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The help text that suggests `candidate`.
pub(super) fn did_you_mean(candidate: &str) -> String {
    format!("did you mean `{}`?", shown(candidate))
}

/// Ignores what people mix up most: case, `-`, `_`.
fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

const fn key(name: &'static str, scope: Scope, treatment: Treatment) -> Key {
    Key {
        name,
        scope,
        treatment,
    }
}

const fn binding(name: &'static str, what: &'static str) -> Key {
    key(
        name,
        Scope::PerEnvironment,
        Treatment::Refused {
            what,
            help: "remove the key, and do without the binding in `env`",
        },
    )
}

const fn refused(name: &'static str, scope: Scope, what: &'static str, help: &'static str) -> Key {
    key(name, scope, Treatment::Refused { what, help })
}

use Scope::{Inherited, PerEnvironment, TopLevel};
use Treatment::{Ignored, NoEffect, Supported};

/// All keys of Wrangler 4.164, then those that older versions and build plugins write.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    // What a Worker is.
    key("name", Inherited, Supported),
    key("main", Inherited, Supported),
    key("compatibility_date", Inherited, Supported),
    key("compatibility_flags", Inherited, Supported),
    key("env", TopLevel, Supported),
    key("migrations", Inherited, Supported),
    key("limits", Inherited, Supported),
    key("triggers", Inherited, Supported),
    // Bindings.
    key("vars", PerEnvironment, Supported),
    key("secrets", PerEnvironment, Supported),
    key("durable_objects", PerEnvironment, Supported),
    key("services", PerEnvironment, Supported),
    key("assets", Inherited, Supported),
    // How it is built.
    key("rules", Inherited, Supported),
    key("no_bundle", Inherited, Supported),
    key("find_additional_modules", Inherited, Supported),
    key("base_dir", Inherited, Supported),
    key("define", PerEnvironment, Supported),
    key("alias", TopLevel, Supported),
    key("tsconfig", Inherited, Supported),
    key("jsx_factory", Inherited, Supported),
    key("jsx_fragment", Inherited, Supported),
    key("minify", Inherited, Supported),
    key("keep_names", Inherited, Supported),
    key("build", Inherited, Supported),
    key("preserve_file_names", Inherited, Ignored),
    key("python_modules", Inherited, Ignored),
    key("upload_source_maps", Inherited, Ignored),
    // Cloudflare's account, dashboard and network.
    key("$schema", TopLevel, Ignored),
    key("account_id", Inherited, Ignored),
    key("workers_dev", Inherited, Ignored),
    key("preview_urls", Inherited, Ignored),
    key("previews", Inherited, Ignored),
    key("placement", Inherited, Ignored),
    key("logpush", Inherited, Ignored),
    key("observability", Inherited, Ignored),
    key("compliance_region", Inherited, Ignored),
    key("first_party_worker", Inherited, Ignored),
    key("cache", Inherited, Ignored),
    key("keep_vars", TopLevel, Ignored),
    key("send_metrics", TopLevel, Ignored),
    key("dependencies_instrumentation", TopLevel, Ignored),
    key("dev", TopLevel, Ignored),
    key("route", Inherited, NoEffect("routes are not applied: every request that reaches the node goes to the Worker")),
    key("routes", Inherited, NoEffect("routes are not applied: every request that reaches the node goes to the Worker")),
    // What is not there yet, or never will be.
    refused("access", Inherited, "Cloudflare Access", "remove the key, and let the Worker or a proxy in front of the node check who calls"),
    refused("addresses", TopLevel, "incoming mail", "remove the key"),
    refused("connect", PerEnvironment, "listening for raw TCP and UDP", "remove the key"),
    refused("data_blobs", TopLevel, "`data_blobs`", "import the file as a module: `import data from \"./file.bin\"`"),
    refused("exports", Inherited, "declaring Durable Object classes by `exports`", "declare the classes by `migrations`"),
    refused("logfwdr", Inherited, "logfwdr", "remove the key"),
    refused("pages_build_output_dir", TopLevel, "Cloudflare Pages", "turn the project into a Worker: remove the key and give `main`"),
    refused("site", TopLevel, "Workers Sites", "remove the key, and serve the files from the Worker or from a server in front of the node"),
    refused("streaming_tail_consumers", PerEnvironment, "tail Workers", "remove the key; console lines go to the node's log"),
    refused("tail_consumers", PerEnvironment, "tail Workers", "remove the key; console lines go to the node's log"),
    refused("text_blobs", TopLevel, "`text_blobs`", "import the file as a module: `import text from \"./file.txt\"`"),
    refused("wasm_modules", TopLevel, "`wasm_modules`", "import the file as a module: `import wasm from \"./file.wasm\"`"),
    refused("workflows", PerEnvironment, "Workflows", "remove the key"),
    refused("containers", PerEnvironment, "running containers", "remove the key"),
    refused("cloudchamber", PerEnvironment, "running containers", "remove the key"),
    refused("queues", PerEnvironment, "queues", "remove the key; the Worker's `queue` handler is never called"),
    binding("agent_memory", "Agent Memory"),
    binding("ai", "Workers AI"),
    binding("ai_search", "AI Search"),
    binding("ai_search_namespaces", "AI Search"),
    binding("analytics", "the analytics binding"),
    binding("analytics_engine_datasets", "Analytics Engine"),
    binding("artifacts", "Artifacts"),
    binding("browser", "Browser Rendering"),
    binding("d1_databases", "D1"),
    binding("dispatch_namespaces", "Workers for Platforms"),
    binding("flagship", "Flagship"),
    binding("hyperdrive", "Hyperdrive"),
    binding("images", "Cloudflare Images"),
    binding("k2", "K2"),
    binding("kv_namespaces", "KV"),
    binding("media", "Media Transformations"),
    binding("mtls_certificates", "client certificates"),
    binding("pipelines", "Pipelines"),
    binding("r2_buckets", "R2"),
    binding("ratelimits", "the rate limiting binding"),
    binding("secrets_store_secrets", "Secrets Store"),
    binding("send_email", "sending mail"),
    binding("stream", "Cloudflare Stream"),
    binding("unsafe", "`unsafe`"),
    binding("unsafe_hello_world", "`unsafe_hello_world`"),
    binding("vectorize", "Vectorize"),
    binding("version_metadata", "the version metadata binding"),
    binding("vpc_networks", "Workers VPC"),
    binding("vpc_services", "Workers VPC"),
    binding("worker_loaders", "loading Workers dynamically"),
    // Of older versions of Wrangler.
    key("legacy_env", TopLevel, Ignored),
    key("type", TopLevel, Ignored),
    key("usage_model", Inherited, Ignored),
    key("webpack_config", TopLevel, Ignored),
    key("zone_id", Inherited, Ignored),
    refused("node_compat", Inherited, "`node_compat`", "remove the key, and add \"nodejs_compat\" to `compatibility_flags`"),
    // Of configurations that build plugins write.
    key("configPath", TopLevel, Ignored),
    key("definedEnvironments", TopLevel, Ignored),
    key("targetEnvironment", TopLevel, Ignored),
    key("topLevelName", TopLevel, Ignored),
    key("userConfigPath", TopLevel, Ignored),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Wrangler's schema has 91 keys at the top level, 78 of which an environment may repeat.
    #[test]
    fn the_table_covers_the_schema() {
        let old = [
            "legacy_env",
            "type",
            "usage_model",
            "webpack_config",
            "zone_id",
            "node_compat",
        ];
        let current: Vec<_> = KEYS
            .iter()
            .filter(|key| !old.contains(&key.name) && !key.name.chars().any(char::is_uppercase))
            .collect();
        assert_eq!(current.len(), 91);
        assert_eq!(
            current.iter().filter(|key| key.scope != TopLevel).count(),
            78
        );
        let names: std::collections::HashSet<_> = KEYS.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), KEYS.len());
    }

    /// Each key stands in the section of the page that says what happens to it.
    #[test]
    fn the_documentation_names_every_key() {
        let page = include_str!("../../../../docs/configuration.md");
        let section = |heading: &str| {
            let start = page
                .find(heading)
                .unwrap_or_else(|| panic!("no section {heading}"));
            let body = &page[start + heading.len()..];
            &body[..body.find("\n## ").unwrap_or(body.len())]
        };
        for key in KEYS {
            let heading = match key.treatment {
                Supported => "\n## Keys that are honoured",
                NoEffect(_) => "\n## Keys that are accepted with a warning",
                Ignored => "\n## Keys that are ignored",
                Treatment::Refused { .. } => "\n## Keys that are refused",
            };
            assert!(
                section(heading).contains(&format!("`{}`", key.name)),
                "{} in {heading}",
                key.name
            );
        }
    }

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let names = || KEYS.iter().map(|key| key.name);
        for (slip, meant) in [
            ("compatability_date", "compatibility_date"),
            ("compatibilityDate", "compatibility_date"),
            ("durable_object", "durable_objects"),
            ("var", "vars"),
            ("nmae", "name"),
            ("migration", "migrations"),
            ("kv-namespaces", "kv_namespaces"),
            ("MAIN", "main"),
        ] {
            assert_eq!(closest(slip, names()), Some(meant), "{slip}");
        }
        for stranger in [
            "x",
            "my_company_settings",
            "description",
            "tags",
            "",
            "owner",
            "version",
        ] {
            assert_eq!(closest(stranger, names()), None, "{stranger}");
        }
        assert_eq!(closest(&"a".repeat(10_000), names()), None);
    }
}
