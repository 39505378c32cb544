//! A program before it is known which namespaces its classes have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::UploadError;
use crate::assets::Collected;
use crate::bundle::Bundle;
use crate::config::{DurableBinding, Migration, Project, VarValue};
use crate::manifest::{
    AssetFile, Binding, BlobHash, BlobRef, BundledModule, ClassEntry, Deployment, FORMAT, Limits,
    MANIFEST_MAX_BYTES, ModuleEntry,
};
use crate::migrations::{self, Implicit, MigrationPlan, Registry};

/// A program with its settings. Together with the namespaces that its script has in a bucket it
/// becomes a [`Deployment`].
#[derive(Clone, Debug)]
pub struct Draft {
    /// The deployment without classes and their bindings.
    base: Deployment,
    modules: Vec<BundledModule>,
    /// Where the static files of `base` lie, in the order of the manifest.
    asset_sources: Vec<PathBuf>,
    durable_objects: Vec<DurableBinding>,
    migrations: Vec<Migration>,
}

impl Draft {
    /// Puts a project and what was built from it together. Variables are taken as the project has
    /// them, so [`crate::dotenv::apply`] comes first where it is wanted.
    pub fn new(project: &Project, bundle: &Bundle) -> Self {
        let vars = project.vars.iter().map(|(name, value)| {
            let binding = match value {
                VarValue::Text(text) => Binding::Text { text: text.clone() },
                VarValue::Json(value) => Binding::Json {
                    value: value.clone(),
                },
            };
            (name.clone(), binding)
        });
        let services = project.services.iter().map(|service| {
            let binding = Binding::Service {
                entrypoint: service.entrypoint.clone(),
                props: service.props.clone(),
            };
            (service.name.clone(), binding)
        });
        let base = Deployment {
            format: FORMAT.to_owned(),
            script: project.name.clone(),
            main_module: bundle.main.clone(),
            modules: bundle.modules.iter().map(entry).collect(),
            compatibility_date: project.compatibility_date.clone(),
            compatibility_flags: project.compatibility_flags.clone(),
            bindings: vars.chain(services).collect(),
            classes: BTreeMap::new(),
            limits: Limits {
                cpu_ms: project.cpu_limit_ms,
            },
            crons: project.crons.clone(),
            assets: None,
        };
        Self {
            base,
            modules: bundle.modules.clone(),
            asset_sources: Vec::new(),
            durable_objects: project.durable_objects.clone(),
            migrations: project.migrations.clone(),
        }
    }

    /// Adds static files, and their name in `env` where the project gives one.
    pub fn with_assets(mut self, project: &Project, collected: &Collected) -> Self {
        let named = project
            .assets
            .as_ref()
            .and_then(|assets| assets.binding.clone());
        // What stands for the Worker of a project that has none fetches them by this name.
        let named = named.or_else(|| project.is_assets_only().then(|| "ASSETS".to_owned()));
        if let Some(name) = named {
            self.base.bindings.insert(name, Binding::Assets {});
        }
        self.base.assets = Some(collected.assets.clone());
        self.asset_sources.clone_from(&collected.sources);
        self
    }

    /// The static files, and where they lie.
    pub(super) fn assets(&self) -> impl Iterator<Item = (&AssetFile, &Path)> {
        let files = self.base.assets.iter().flat_map(|assets| &assets.files);
        files.zip(self.asset_sources.iter().map(PathBuf::as_path))
    }

    /// The script's name.
    pub fn script(&self) -> &str {
        &self.base.script
    }

    /// The modules with their bytes.
    pub fn modules(&self) -> &[BundledModule] {
        &self.modules
    }

    /// The deployment that this becomes where `current` are the script's classes so far.
    ///
    /// # Errors
    /// Migrations that don't fit, and programs that no manifest can hold.
    pub fn settle(
        &self,
        current: &Registry,
        implicit: Implicit,
    ) -> Result<(Deployment, MigrationPlan), UploadError> {
        let plan = migrations::plan(
            self.script(),
            current,
            &self.migrations,
            &self.durable_objects,
            implicit,
        )?;
        let mut deployment = self.base.clone();
        for (class, namespace) in &plan.registry.classes {
            let entry = ClassEntry {
                namespace: namespace.key.clone(),
                sqlite: namespace.sqlite,
            };
            deployment.classes.insert(class.clone(), entry);
        }
        for bound in &self.durable_objects {
            let class_name = bound.class_name.clone();
            let namespace = plan
                .registry
                .classes
                .get(&class_name)
                .map(|namespace| namespace.key.clone());
            let namespace = namespace.expect("planning creates every bound class or fails");
            deployment.bindings.insert(
                bound.name.clone(),
                Binding::DurableObject {
                    class_name,
                    namespace,
                },
            );
        }
        let text = deployment.to_json();
        if text.len() > MANIFEST_MAX_BYTES {
            let message = format!(
                "its settings take {} bytes, more than {MANIFEST_MAX_BYTES}; move large `vars` into modules",
                text.len()
            );
            return Err(UploadError::Program(message));
        }
        // What a node would refuse to read must not become current.
        Deployment::from_json(&text).map_err(|error| UploadError::Program(error.to_string()))?;
        Ok((deployment, plan))
    }

    /// The modules to be stored, once each.
    pub(super) fn blobs(&self) -> BTreeMap<BlobHash, Bytes> {
        let all = self
            .modules
            .iter()
            .flat_map(|module| std::iter::once(&module.bytes).chain(&module.source_map));
        all.map(|bytes| (BlobHash::of(bytes), bytes.clone()))
            .collect()
    }
}

fn entry(module: &BundledModule) -> ModuleEntry {
    let content = BlobRef::of(&module.bytes);
    ModuleEntry {
        specifier: module.specifier.clone(),
        kind: module.kind,
        sha256: content.sha256,
        bytes: content.bytes,
        source_map: module.source_map.as_deref().map(BlobRef::of),
    }
}
