//! Deployments in the bucket: noticing that a pointer has moved, and handing code to the node.

use std::collections::BTreeMap;
use std::time::Duration;

use celld_bucket::{Bucket, Etag};
use celld_core::NamespaceKey;
use celld_deploy::bundle::ModuleKind as BuiltKind;
use celld_deploy::manifest::{self, Deployment};
use celld_deploy::upload::{FetchError, Fetched, fetch_deployment, list_scripts, read_pointer};
use celld_runtime::api::{Binding, DurableClass, Module, ModuleKind, WorkerCode};
use tokio::time::Instant;

use crate::console::Notice;
use crate::node::NodeHandle;

/// How often pointers are read and new scripts are looked for. A node at rest should ask its bucket
/// for little; a deployment should not wait long.
#[derive(Clone, Copy, Debug)]
pub struct WatchPeriods {
    /// Between two looks at the pointer of a known script (default 2 s).
    pub pointers: Duration,
    /// Between two looks for new scripts, once there is one (default 10 s).
    pub scripts: Duration,
}

impl Default for WatchPeriods {
    fn default() -> Self {
        Self { pointers: Duration::from_secs(2), scripts: Duration::from_secs(10) }
    }
}

/// What was last seen of a script.
#[derive(Default)]
struct Seen {
    /// The pointer that was adopted or refused for good.
    settled: Option<Etag>,
    /// The last failure that was told, so that it is told once.
    complaint: Option<String>,
}

/// Adopts what is deployed in the node's bucket, now and whenever a pointer moves. Runs until it is
/// dropped. The node is ready after the first round that found something to serve.
pub async fn watch(node: NodeHandle, periods: WatchPeriods) {
    let bucket = node.bucket();
    let mut scripts: BTreeMap<String, Seen> = BTreeMap::new();
    let mut complaint = None;
    let mut next_list = Instant::now();
    loop {
        if scripts.is_empty() || Instant::now() >= next_list {
            next_list = Instant::now() + periods.scripts;
            match list_scripts(bucket.as_ref()).await {
                Ok(found) => {
                    complaint = None;
                    for script in found {
                        scripts.entry(script).or_default();
                    }
                }
                Err(error) => tell_once(&node, &mut complaint, "*", &error),
            }
        }
        for (script, seen) in &mut scripts {
            look(&node, script, seen).await;
        }
        if node.serves_anything() {
            node.set_ready();
        }
        tokio::time::sleep(periods.pointers).await;
    }
}

/// Adopts a script's current deployment, if it is another than before.
async fn look(node: &NodeHandle, script: &str, seen: &mut Seen) {
    let bucket = node.bucket();
    let fetched = match fetch(bucket.as_ref(), script, seen.settled.as_ref()).await {
        Ok(None) => return,
        Ok(Some(fetched)) => fetched,
        Err(error) => return tell_once(node, &mut seen.complaint, script, &error),
    };
    let (etag, fetched) = fetched;
    let cpu_max = fetched.deployment.limits.cpu_ms.map(Duration::from_millis);
    // A refusal is told by the node. The same code would fail again: it waits for the next one.
    let _ = node.adopt(worker_code(fetched), cpu_max).await;
    *seen = Seen { settled: Some(etag), complaint: None };
}

async fn fetch(bucket: &dyn Bucket, script: &str, settled: Option<&Etag>) -> Result<Option<(Etag, Fetched)>, FetchError> {
    let Some((pointer, etag)) = read_pointer(bucket, script).await? else {
        return Ok(None);
    };
    if settled == Some(&etag) {
        return Ok(None);
    }
    let fetched = fetch_deployment(bucket, script, pointer.deployment).await?;
    Ok(Some((etag, fetched)))
}

fn tell_once(node: &NodeHandle, told: &mut Option<String>, script: &str, error: &FetchError) {
    let why = error.to_string();
    if told.as_ref() != Some(&why) {
        node.notice(Notice::Refused { script: script.into(), version: None, why: why.clone() });
        *told = Some(why);
    }
}

/// A deployment in the form that isolates take.
pub fn worker_code(fetched: Fetched) -> WorkerCode {
    let Fetched { id, deployment, modules } = fetched;
    let modules = modules
        .into_iter()
        .map(|module| Module {
            specifier: module.specifier,
            kind: kind(module.kind),
            source: module.bytes,
            source_map: module.source_map,
        })
        .collect();
    let Deployment { script, main_module, compatibility_date, compatibility_flags, bindings, classes, .. } = deployment;
    WorkerCode {
        name: script,
        version: id.to_string(),
        main_module,
        modules,
        compatibility_date,
        compatibility_flags,
        bindings: bindings.into_iter().map(|(name, value)| (name, binding(value))).collect(),
        classes: classes.into_iter().map(|(name, class)| durable_class(name, class.namespace, class.sqlite)).collect(),
        code_cache: celld_runtime::code_cache::CodeCache::default(),
    }
}

fn durable_class(class_name: String, namespace: NamespaceKey, sqlite: bool) -> DurableClass {
    DurableClass { class_name, namespace, sqlite }
}

fn kind(kind: BuiltKind) -> ModuleKind {
    match kind {
        BuiltKind::EsModule => ModuleKind::EsModule,
        BuiltKind::CommonJs => ModuleKind::CommonJs,
        BuiltKind::CompiledWasm => ModuleKind::CompiledWasm,
        BuiltKind::Text => ModuleKind::Text,
        BuiltKind::Data => ModuleKind::Data,
        BuiltKind::Json => ModuleKind::Json,
    }
}

fn binding(value: manifest::Binding) -> Binding {
    match value {
        manifest::Binding::Text { text } => Binding::Text(text),
        manifest::Binding::Json { value } => Binding::Json(value.to_string()),
        manifest::Binding::DurableObject { namespace, .. } => Binding::DurableObject(namespace),
        manifest::Binding::Service { entrypoint, props } => {
            Binding::Service { worker: None, entrypoint, props: props.map(|props| props.to_string()) }
        }
    }
}
