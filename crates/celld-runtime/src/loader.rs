//! Loads a Worker's modules into an isolate.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;

use deno_core::{
    ModuleLoadOptions, ModuleLoadReferrer, ModuleLoadResponse, ModuleLoader, ModuleSource,
    ModuleSourceCode, ModuleSpecifier, ModuleType, ResolutionKind, SourceCodeCacheInfo,
};
use deno_error::JsErrorBox;

use crate::api::{Module, ModuleKind, WorkerCode};
use crate::extension::is_public_module;

/// Scheme and host of the addresses that a Worker's modules have inside an isolate.
const ROOT: &str = "worker:///";

/// Module through which the other kinds of modules get their contents. Its name is not a valid
/// import for scripts: `resolve` lets only generated modules have it.
const CONTENTS: &str = "celld:modules";

/// The address of a module.
pub fn address_of(specifier: &str) -> String {
    format!("{ROOT}{specifier}")
}

/// Removes the isolate's address scheme from a text, such as a stack trace.
pub fn without_addresses(text: &str) -> String {
    text.replace(ROOT, "")
}

/// Loads from the modules of one deployment.
pub struct WorkerLoader {
    code: Arc<WorkerCode>,
    by_address: HashMap<String, usize>,
}

impl WorkerLoader {
    /// A loader for `code`.
    pub fn new(code: Arc<WorkerCode>) -> Self {
        let by_address = code
            .modules
            .iter()
            .enumerate()
            .map(|(index, module)| (address_of(&module.specifier), index))
            .collect();
        Self { code, by_address }
    }

    fn module(&self, address: &str) -> Option<&Module> {
        self.by_address
            .get(address)
            .map(|index| &self.code.modules[*index])
    }

    /// Whether the source of a module is not a script of the Worker but made here.
    fn is_generated(&self, address: &str) -> bool {
        self.module(address)
            .is_some_and(|module| module.kind != ModuleKind::EsModule)
    }
}

/// Whether the API layer offers the scripts of a Worker a module of this name.
pub(crate) fn is_offered(code: &WorkerCode, specifier: &str) -> bool {
    is_public_module(specifier) && specifier != CONTENTS && code.offers_node_module(specifier)
}

fn unknown_module(specifier: &str, referrer: &str) -> JsErrorBox {
    let hint = if specifier.starts_with("cloudflare:") || specifier.starts_with("node:") {
        "it is not supported by this version of celld"
    } else {
        "the bundle does not contain it"
    };
    no_module(specifier, referrer, hint)
}

fn no_module(specifier: &str, referrer: &str, why: &str) -> JsErrorBox {
    let referrer = referrer.strip_prefix(ROOT).unwrap_or(referrer);
    JsErrorBox::type_error(format!(
        "No such module \"{specifier}\", imported from \"{referrer}\": {why}."
    ))
}

impl ModuleLoader for WorkerLoader {
    fn resolve(
        &self,
        specifier: &str,
        referrer: &str,
        _kind: ResolutionKind,
    ) -> Result<ModuleSpecifier, JsErrorBox> {
        if is_public_module(specifier) && (specifier != CONTENTS || self.is_generated(referrer)) {
            if !self.code.offers_node_module(specifier) {
                return Err(no_module(
                    specifier,
                    referrer,
                    "it needs the compatibility flag \"nodejs_compat\", which is on by default from the compatibility date 2026-08-04",
                ));
            }
            return ModuleSpecifier::parse(specifier).map_err(JsErrorBox::from_err);
        }
        let relative = specifier.starts_with("./")
            || specifier.starts_with("../")
            || specifier.starts_with('/');
        let address = if relative {
            ModuleSpecifier::parse(referrer).and_then(|base| base.join(specifier))
        } else if specifier.starts_with(ROOT) {
            ModuleSpecifier::parse(specifier)
        } else {
            // A bare name may be that of a module in the bundle.
            ModuleSpecifier::parse(&address_of(specifier))
        };
        let address = address.map_err(|_| unknown_module(specifier, referrer))?;
        if self.module(address.as_str()).is_some() {
            Ok(address)
        } else {
            Err(unknown_module(specifier, referrer))
        }
    }

    fn load(
        &self,
        address: &ModuleSpecifier,
        _referrer: Option<&ModuleLoadReferrer>,
        _options: ModuleLoadOptions,
    ) -> ModuleLoadResponse {
        let Some(module) = self.module(address.as_str()) else {
            return ModuleLoadResponse::Sync(Err(unknown_module(address.as_str(), "")));
        };
        let source = match source_text(module) {
            Ok(source) => source,
            Err(error) => return ModuleLoadResponse::Sync(Err(error)),
        };
        let cache = SourceCodeCacheInfo {
            hash: hash_of(&source),
            data: self
                .code
                .code_cache
                .get(address.as_str())
                .map(|data| Cow::Owned(data.to_vec())),
        };
        ModuleLoadResponse::Sync(Ok(ModuleSource::new(
            ModuleType::JavaScript,
            ModuleSourceCode::String(source.into()),
            address,
            Some(cache),
        )))
    }

    fn code_cache_ready(
        &self,
        address: ModuleSpecifier,
        _hash: u64,
        data: &[u8],
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        self.code
            .code_cache
            .put(address.as_str(), bytes::Bytes::copy_from_slice(data));
        Box::pin(async {})
    }

    fn source_map_source_exists(&self, _source: &str) -> Option<bool> {
        // Sources lie on the machine that built the bundle; their names are what is wanted.
        Some(true)
    }

    fn get_source_map(&self, address: &str) -> Option<Cow<'_, [u8]>> {
        let map = self.module(address)?.source_map.as_ref()?;
        Some(Cow::Borrowed(map))
    }
}

fn hash_of(source: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    hasher.finish()
}

/// The ECMAScript module that stands for a module of any kind.
fn source_text(module: &Module) -> Result<String, JsErrorBox> {
    let utf8 = || {
        std::str::from_utf8(&module.source).map_err(|error| {
            JsErrorBox::type_error(format!(
                "module \"{}\" is not UTF-8: {error}",
                module.specifier
            ))
        })
    };
    let name = serde_json::Value::from(module.specifier.as_str());
    Ok(match module.kind {
        ModuleKind::EsModule => utf8()?.to_owned(),
        ModuleKind::CommonJs => {
            format!("import {{ cjs }} from \"{CONTENTS}\"; export default cjs({name});")
        }
        ModuleKind::CompiledWasm => {
            format!("import {{ wasm }} from \"{CONTENTS}\"; export default wasm({name});")
        }
        ModuleKind::Text => {
            format!("import {{ text }} from \"{CONTENTS}\"; export default text({name});")
        }
        ModuleKind::Data => {
            format!("import {{ data }} from \"{CONTENTS}\"; export default data({name});")
        }
        ModuleKind::Json => format!(
            "import {{ text }} from \"{CONTENTS}\"; export default JSON.parse(text({name}));"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loader(date: &str, flags: &[&str]) -> WorkerLoader {
        WorkerLoader::new(Arc::new(WorkerCode {
            name: "w".into(),
            version: "v".into(),
            main_module: "main.js".into(),
            modules: vec![Module {
                specifier: "main.js".into(),
                kind: ModuleKind::EsModule,
                source: bytes::Bytes::from_static(b"export default {}"),
                source_map: None,
            }],
            compatibility_date: date.into(),
            compatibility_flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            bindings: Vec::new(),
            classes: Vec::new(),
            code_cache: crate::code_cache::CodeCache::default(),
        }))
    }

    /// What comes of `import "<specifier>"` in the main module.
    fn import(loader: &WorkerLoader, specifier: &str) -> Result<String, String> {
        loader
            .resolve(specifier, "worker:///main.js", ResolutionKind::Import)
            .map(String::from)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn modules_of_node_need_their_flag() {
        let new = loader("2026-08-04", &[]);
        assert_eq!(import(&new, "node:path").as_deref(), Ok("node:path"));
        let old = loader("2026-08-03", &[]);
        let refused = import(&old, "node:path").expect_err("no flag");
        assert!(
            refused.starts_with("No such module \"node:path\", imported from \"main.js\"")
                && refused.contains("nodejs_compat"),
            "{refused}"
        );
        for (date, flags, path, hooks) in [
            ("2026-08-03", &["nodejs_compat"][..], true, true),
            ("2026-08-03", &["nodejs_compat_v2"][..], true, true),
            ("2026-08-03", &["nodejs_als"][..], false, true),
            ("2026-08-04", &["no_nodejs_compat"][..], false, false),
            (
                "2026-08-04",
                &["no_nodejs_compat", "nodejs_als"][..],
                false,
                true,
            ),
        ] {
            let loader = loader(date, flags);
            let found = ["node:path", "node:async_hooks"]
                .map(|specifier| import(&loader, specifier).is_ok());
            assert_eq!(found, [path, hooks], "{date} {flags:?}");
        }
        assert!(import(&old, "cloudflare:workers").is_ok(), "needs no flag");
    }

    #[test]
    fn what_is_missing_is_named() {
        let loader = loader("2026-11-17", &[]);
        for specifier in [
            "node:fs",
            "node:",
            "node:path/",
            "node:PATH",
            "cloudflare:sockets",
        ] {
            let refused = import(&loader, specifier).expect_err(specifier);
            let wanted = format!(
                "No such module \"{specifier}\", imported from \"main.js\": it is not supported by this version of celld."
            );
            assert_eq!(refused, wanted);
        }
        let refused = import(&loader, "lodash").expect_err("not bundled");
        assert!(
            refused.contains("the bundle does not contain it"),
            "{refused}"
        );
    }

    #[test]
    fn no_specifier_leads_out_of_the_bundle() {
        let loader = loader("2026-11-17", &[]);
        let odd = [
            "",
            "/",
            "//",
            "///main.js",
            "..",
            "../..",
            "../../../etc/passwd",
            "file:///etc/passwd",
            "https://example.com/x.js",
            "ext:core/mod.js",
            "ext:celld/entry.js",
            "worker:",
            "worker:///",
            "worker:///x",
            "data:text/javascript,1",
            "\0",
            "./\u{0}",
            "./%00",
            "node:path?x",
            "node:path#x",
            "celld:",
            "celld:entry",
            "celld:modules",
            "blob:x",
            "./main.js?",
            "\\\\host\\x",
            "[",
            "./[",
            "http://[",
        ];
        for specifier in odd {
            if let Ok(address) = import(&loader, specifier) {
                assert_eq!(address, "worker:///main.js", "{specifier:?}");
            }
        }
        assert_eq!(
            import(&loader, "./main.js").as_deref(),
            Ok("worker:///main.js")
        );
        assert_eq!(
            import(&loader, "../main.js").as_deref(),
            Ok("worker:///main.js")
        );
    }
}
