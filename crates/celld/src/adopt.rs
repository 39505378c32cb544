//! Deployments on their way from the bucket into a node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use celld_bucket::Bucket;
use celld_core::NamespaceKey;
use celld_deploy::manifest::{self, BundledModule, Deployment, DeploymentId};
use celld_deploy::upload::{FetchError, Fetched, fetch_deployment, list_scripts, read_pointer};
use celld_node::assets::{AssetFile, HtmlHandling, NotFoundHandling, StaticAssets};
use celld_node::{NodeHandle, Notice};
use celld_runtime::api::{Binding, DurableClass, Module, ModuleKind, WorkerCode};

use crate::collect::Serving;
use crate::console::Console;
use crate::excerpt::Sources;

/// Pause between two looks at a pointer. One request each time: a node at rest asks the bucket no
/// more than once in two seconds.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Looks at known Workers between two looks for new ones.
const LOOKS_PER_LISTING: u32 = 30;

/// A deployment as an isolate needs it.
pub fn code_of(id: DeploymentId, deployment: &Deployment, modules: &[BundledModule]) -> WorkerCode {
    WorkerCode {
        name: deployment.script.clone(),
        version: id.to_string(),
        main_module: deployment.main_module.clone(),
        modules: modules.iter().map(module).collect(),
        compatibility_date: deployment.compatibility_date.clone(),
        compatibility_flags: deployment.compatibility_flags.clone(),
        bindings: deployment
            .bindings
            .iter()
            .map(|(name, value)| (name.clone(), binding(value)))
            .collect(),
        classes: deployment
            .classes
            .iter()
            .map(|(class, entry)| durable_class(class, &entry.namespace, entry.sqlite))
            .collect(),
        code_cache: Default::default(),
    }
}

/// The static files of a deployment, for a node. `code` tells from which date on which rule holds.
pub fn assets_of(deployment: &Deployment, code: &WorkerCode) -> Option<StaticAssets> {
    let assets = deployment.assets.as_ref()?;
    let file = |file: &manifest::AssetFile| {
        let entry = AssetFile {
            blob: file.sha256.to_string(),
            bytes: file.bytes,
            content_type: file.content_type.clone(),
        };
        (file.path.clone(), entry)
    };
    Some(StaticAssets {
        html_handling: match assets.html_handling {
            manifest::HtmlHandling::AutoTrailingSlash => HtmlHandling::AutoTrailingSlash,
            manifest::HtmlHandling::ForceTrailingSlash => HtmlHandling::ForceTrailingSlash,
            manifest::HtmlHandling::DropTrailingSlash => HtmlHandling::DropTrailingSlash,
            manifest::HtmlHandling::None => HtmlHandling::None,
        },
        not_found_handling: match assets.not_found_handling {
            manifest::NotFoundHandling::None => NotFoundHandling::None,
            manifest::NotFoundHandling::SinglePageApplication => {
                NotFoundHandling::SinglePageApplication
            }
            manifest::NotFoundHandling::Page404 => NotFoundHandling::Page404,
        },
        run_worker_first: assets.run_worker_first,
        navigation_prefers_assets: !code.lacks_flag(
            "2025-04-01",
            "assets_navigation_prefers_asset_serving",
            "assets_navigation_has_no_effect",
        ),
        files: assets.files.iter().map(file).collect(),
    })
}

/// Hands a deployment to a node.
///
/// # Errors
/// The code does not start: the text says why.
pub async fn adopt(
    node: &NodeHandle,
    id: DeploymentId,
    deployment: &Deployment,
    modules: &[BundledModule],
) -> Result<(), String> {
    let code = code_of(id, deployment, modules);
    let assets = assets_of(deployment, &code);
    let cpu_max = deployment.limits.cpu_ms.map(Duration::from_millis);
    node.deploy_with_assets(code, cpu_max, assets).await
}

fn durable_class(class: &str, namespace: &NamespaceKey, sqlite: bool) -> DurableClass {
    DurableClass {
        class_name: class.to_owned(),
        namespace: namespace.clone(),
        sqlite,
    }
}

fn module(module: &BundledModule) -> Module {
    Module {
        specifier: module.specifier.clone(),
        kind: match module.kind {
            manifest::ModuleKind::EsModule => ModuleKind::EsModule,
            manifest::ModuleKind::CommonJs => ModuleKind::CommonJs,
            manifest::ModuleKind::CompiledWasm => ModuleKind::CompiledWasm,
            manifest::ModuleKind::Text => ModuleKind::Text,
            manifest::ModuleKind::Data => ModuleKind::Data,
            manifest::ModuleKind::Json => ModuleKind::Json,
        },
        source: module.bytes.clone(),
        source_map: module.source_map.clone(),
    }
}

fn binding(value: &manifest::Binding) -> Binding {
    match value {
        manifest::Binding::Text { text } => Binding::Text(text.clone()),
        manifest::Binding::Json { value } => Binding::Json(value.to_string()),
        manifest::Binding::DurableObject { namespace, .. } => {
            Binding::DurableObject(namespace.clone())
        }
        manifest::Binding::Assets {} => Binding::Assets,
        manifest::Binding::Service { entrypoint, props } => Binding::Service {
            worker: None,
            entrypoint: entrypoint.clone(),
            props: props.as_ref().map(ToString::to_string),
        },
    }
}

/// Reads every Worker's current deployment.
pub async fn fetch_all(bucket: &dyn Bucket) -> Result<Vec<Fetched>, FetchError> {
    let mut all = Vec::new();
    for script in list_scripts(bucket).await? {
        if let Some((pointer, _)) = read_pointer(bucket, &script).await? {
            all.push(fetch_deployment(bucket, &script, pointer.deployment).await?);
        }
    }
    Ok(all)
}

/// Keeps a node's Workers up to date with the bucket.
pub struct Adopter {
    bucket: Arc<dyn Bucket>,
    node: NodeHandle,
    console: Console,
    /// Told of what is adopted.
    serving: Arc<Serving>,
    /// Each Worker with the deployment that was last adopted or refused.
    seen: BTreeMap<String, DeploymentId>,
    /// What was last said about each Worker, so that it is not said every two seconds.
    said: BTreeMap<String, String>,
}

impl Adopter {
    /// `adopted` are the deployments that the node has adopted already.
    pub fn new(
        bucket: Arc<dyn Bucket>,
        node: NodeHandle,
        console: Console,
        adopted: impl IntoIterator<Item = (String, DeploymentId)>,
        serving: Arc<Serving>,
    ) -> Self {
        let seen: BTreeMap<_, _> = adopted.into_iter().collect();
        for (script, id) in &seen {
            serving.adopted(script, *id);
        }
        Self {
            bucket,
            node,
            console,
            serving,
            seen,
            said: BTreeMap::new(),
        }
    }

    /// Looks at one Worker after the other, for ever.
    pub async fn run(mut self) {
        let mut looks = 0;
        loop {
            for script in self.seen.keys().cloned().collect::<Vec<_>>() {
                tokio::time::sleep(LOOK_EVERY).await;
                looks += 1;
                self.look(&script).await;
            }
            if looks >= LOOKS_PER_LISTING {
                looks = 0;
                self.look_for_new().await;
            }
        }
    }

    async fn look_for_new(&mut self) {
        match list_scripts(&*self.bucket).await {
            Ok(scripts) => {
                for script in scripts {
                    if !self.seen.contains_key(&script) {
                        self.look(&script).await;
                    }
                }
            }
            Err(error) => tracing::warn!("cannot look for new Workers: {error}"),
        }
    }

    async fn look(&mut self, script: &str) {
        let pointer = match read_pointer(&*self.bucket, script).await {
            Ok(Some((pointer, _))) => pointer,
            // A pointer that is gone takes no running code with it.
            Ok(None) => return,
            Err(error) => return self.refused(script, None, error.to_string()),
        };
        let id = pointer.deployment;
        if self.seen.get(script) == Some(&id) {
            return;
        }
        match fetch_deployment(&*self.bucket, script, id).await {
            Ok(fetched) => {
                // Whatever comes of it, trying the same code again would come to the same.
                self.seen.insert(script.to_owned(), id);
                match adopt(&self.node, id, &fetched.deployment, &fetched.modules).await {
                    Ok(()) => {
                        self.serving.adopted(script, id);
                        self.console.know(script, Sources::of(&fetched.modules));
                    }
                    Err(why) => self.refused(script, Some(id.to_string()), why),
                }
            }
            Err(error) => self.refused(script, Some(id.to_string()), error.to_string()),
        }
    }

    fn refused(&mut self, script: &str, version: Option<String>, why: String) {
        if self.said.get(script) != Some(&why) {
            self.said.insert(script.to_owned(), why.clone());
            let notice = Notice::Refused {
                script: script.to_owned(),
                version,
                why,
            };
            celld_node::ConsoleSink::notice(&self.console, notice);
        }
    }
}
