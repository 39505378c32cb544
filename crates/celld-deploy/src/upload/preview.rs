//! What an upload would do, for `--dry-run`.

use std::collections::BTreeSet;
use std::fmt;

use celld_bucket::Bucket;
use serde::Serialize;

use super::{Draft, UploadError, blob_key, read_pointer, registry_of};
use crate::config::Warning;
use crate::manifest::{Binding, BlobRef, DeploymentId};
use crate::migrations::Implicit;

/// What an upload would do.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// The script.
    pub script: String,
    /// The deployment's id.
    pub id: DeploymentId,
    /// The deployment that is current.
    pub current: Option<DeploymentId>,
    /// The modules, the main one first.
    pub modules: Vec<PreviewModule>,
    /// Number of static files.
    pub assets: usize,
    /// Size of all modules, in bytes, source maps not counted.
    pub total_bytes: u64,
    /// What appears in `env`, by name. Values of variables are not shown.
    pub bindings: Vec<PreviewBinding>,
    /// The Durable Object classes afterwards.
    pub classes: Vec<PreviewClass>,
    /// Migrations that would be applied.
    pub migrations: Vec<String>,
    /// Classes that would get a new name: old and new.
    pub renamed: Vec<(String, String)>,
    /// Namespaces whose data would be dropped.
    pub dropped: Vec<String>,
    /// Cron expressions.
    pub crons: Vec<String>,
    /// What the author should know.
    #[serde(skip)]
    pub warnings: Vec<Warning>,
}

/// A module that would be deployed.
#[derive(Clone, Debug, Serialize)]
pub struct PreviewModule {
    /// Its specifier.
    pub specifier: String,
    /// Its kind, by Wrangler's name.
    pub kind: String,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Whether its bytes would be uploaded; `None` when no bucket was asked.
    pub upload: Option<bool>,
}

/// A binding that would be deployed.
#[derive(Clone, Debug, Serialize)]
pub struct PreviewBinding {
    /// Its name in `env`.
    pub name: String,
    /// What it is, in words.
    pub what: String,
}

/// A class that would be deployed.
#[derive(Clone, Debug, Serialize)]
pub struct PreviewClass {
    /// Name of the export.
    pub class: String,
    /// Key of its namespace.
    pub namespace: String,
    /// SQLite-backed.
    pub sqlite: bool,
    /// Created by this deployment.
    pub created: bool,
}

/// Computes what [`super::upload`] would do, and changes nothing. Without a bucket the script is
/// taken to be a new one.
///
/// # Errors
/// Those that stop an upload before it writes anything.
pub async fn plan(
    bucket: Option<&dyn Bucket>,
    draft: &Draft,
    implicit: Implicit,
) -> Result<Preview, UploadError> {
    let pointer = match bucket {
        Some(bucket) => read_pointer(bucket, draft.script()).await?,
        None => None,
    };
    let (deployment, migration) = draft.settle(&registry_of(&pointer), implicit)?;
    let mut modules = Vec::with_capacity(deployment.modules.len());
    for module in &deployment.modules {
        modules.push(PreviewModule {
            specifier: module.specifier.clone(),
            kind: module.kind.rule_type().to_owned(),
            bytes: module.bytes,
            upload: missing(bucket, module.content()).await?,
        });
    }
    let created: BTreeSet<&String> = migration.created.iter().map(|(class, _)| class).collect();
    let classes = deployment
        .classes
        .iter()
        .map(|(class, entry)| PreviewClass {
            class: class.clone(),
            namespace: entry.namespace.to_string(),
            sqlite: entry.sqlite,
            created: created.contains(class),
        });
    let bindings = deployment
        .bindings
        .iter()
        .map(|(name, binding)| PreviewBinding {
            name: name.clone(),
            what: what(binding),
        });
    Ok(Preview {
        id: deployment.id(),
        current: pointer.map(|(pointer, _)| pointer.deployment),
        total_bytes: deployment.modules.iter().map(|module| module.bytes).sum(),
        assets: deployment
            .assets
            .as_ref()
            .map_or(0, |assets| assets.files.len()),
        modules,
        bindings: bindings.collect(),
        classes: classes.collect(),
        migrations: migration.tags,
        renamed: migration.renamed,
        dropped: migration
            .dropped
            .iter()
            .map(|dropped| dropped.key.to_string())
            .collect(),
        crons: deployment.crons.clone(),
        warnings: migration.warnings,
        script: deployment.script,
    })
}

async fn missing(bucket: Option<&dyn Bucket>, blob: BlobRef) -> Result<Option<bool>, UploadError> {
    let Some(bucket) = bucket else {
        return Ok(None);
    };
    // The first byte tells whether the object is there.
    Ok(Some(
        bucket
            .get_range(&blob_key(blob.sha256)?, 0..1)
            .await?
            .is_none(),
    ))
}

fn what(binding: &Binding) -> String {
    match binding {
        Binding::Text { .. } => "text".to_owned(),
        Binding::Json { .. } => "JSON".to_owned(),
        Binding::Assets {} => "static assets".to_owned(),
        Binding::DurableObject {
            class_name,
            namespace,
        } => format!("Durable Object {class_name} ({namespace})"),
        Binding::Service {
            entrypoint: None, ..
        } => "this Worker's default entrypoint".to_owned(),
        Binding::Service {
            entrypoint: Some(name),
            ..
        } => format!("this Worker's entrypoint {name}"),
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  deployment {}", self.script, self.id)?;
        match self.current {
            Some(current) if current == self.id => writeln!(f, "it is the current one already")?,
            Some(current) => writeln!(f, "it replaces {current}")?,
            None => writeln!(f, "it is the first one")?,
        }
        writeln!(f, "\nmodules ({} bytes)", self.total_bytes)?;
        for module in &self.modules {
            let there = if module.upload == Some(false) {
                "  (in the bucket already)"
            } else {
                ""
            };
            writeln!(
                f,
                "  {:<13}{:>10} bytes  {}{there}",
                module.kind, module.bytes, module.specifier
            )?;
        }
        if self.assets > 0 {
            writeln!(f, "\nstatic assets\n  {} files", self.assets)?;
        }
        list(
            f,
            "bindings",
            self.bindings
                .iter()
                .map(|binding| format!("{:<24}  {}", binding.name, binding.what)),
        )?;
        list(
            f,
            "Durable Object classes",
            self.classes.iter().map(|class| {
                let storage = if class.sqlite { "SQLite" } else { "key-value" };
                let created = if class.created { "  (new)" } else { "" };
                format!(
                    "{:<24}  {storage}, namespace {}{created}",
                    class.class, class.namespace
                )
            }),
        )?;
        list(f, "migrations to apply", self.migrations.iter().cloned())?;
        list(
            f,
            "classes renamed",
            self.renamed
                .iter()
                .map(|(from, to)| format!("{from} to {to}")),
        )?;
        list(
            f,
            "namespaces whose data is dropped",
            self.dropped.iter().cloned(),
        )?;
        list(f, "cron triggers (not run yet)", self.crons.iter().cloned())
    }
}

fn list(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    lines: impl Iterator<Item = String>,
) -> fmt::Result {
    for (index, line) in lines.enumerate() {
        if index == 0 {
            writeln!(f, "\n{title}")?;
        }
        writeln!(f, "  {line}")?;
    }
    Ok(())
}
