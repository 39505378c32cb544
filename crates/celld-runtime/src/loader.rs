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
        if is_public_module(specifier) && (specifier != CONTENTS || referrer.starts_with(ROOT)) {
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
