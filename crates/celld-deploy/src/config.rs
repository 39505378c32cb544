//! Reading a Wrangler project: `wrangler.json`, `wrangler.jsonc` or `wrangler.toml`.
//!
//! [`Project::load`] finds the file, applies an environment with Wrangler's inheritance rules, and
//! either returns everything that a deployment needs or all that is wrong, each with its place.
//! What celld does with each key of Wrangler's schema is in one table, [`keys::KEYS`].

mod assets;
mod bindings;
pub mod compat;
mod diagnostic;
mod durable;
pub mod keys;
mod load;
mod report;
mod scope;
mod settings;
mod source;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::bundle::{BundleOptions, ModuleRule};

pub use assets::AssetsConfig;
pub use diagnostic::{Code, ConfigErrors, Diagnostic, Severity, Warning};
pub use source::Place;

/// A Wrangler project, with one of its environments applied.
#[derive(Clone, Debug)]
pub struct Project {
    /// The directory that holds the configuration file. Paths in the file are relative to it.
    pub root: PathBuf,
    /// The configuration file.
    pub config_file: PathBuf,
    /// The environment that was asked for.
    pub environment: Option<String>,
    /// The Worker's name; that of an environment ends with `-<environment>` unless it gives its own.
    pub name: String,
    /// How the sources become modules.
    pub build: BuildSettings,
    /// `compatibility_date`, as `YYYY-MM-DD`; the newest known one when the file gives none.
    pub compatibility_date: String,
    /// `compatibility_flags`, in the order of the file.
    pub compatibility_flags: Vec<String>,
    /// `vars`, in the order of the file.
    pub vars: Vec<(String, VarValue)>,
    /// `secrets.required`; `None` when the project has no `secrets`.
    pub required_secrets: Option<Vec<String>>,
    /// `durable_objects.bindings`; all of classes of this Worker.
    pub durable_objects: Vec<DurableBinding>,
    /// `services`; all of entrypoints of this Worker.
    pub services: Vec<ServiceBinding>,
    /// `migrations`, in the order of the file.
    pub migrations: Vec<Migration>,
    /// `assets`.
    pub assets: Option<AssetsConfig>,
    /// `triggers.crons`.
    pub crons: Vec<String>,
    /// `limits.cpu_ms`: CPU time of one event, in ms.
    pub cpu_limit_ms: Option<u64>,
    /// What stands in the way of a deployment, but not of local development.
    deploy_errors: Vec<Diagnostic>,
}

/// What a variable holds. `Debug` does not show it: it may be a secret.
#[derive(Clone, PartialEq)]
pub enum VarValue {
    /// A string: `env.NAME` is that string.
    Text(String),
    /// Anything else: `env.NAME` is the value that this JSON stands for.
    Json(serde_json::Value),
}

impl fmt::Debug for VarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text(…)",
            Self::Json(_) => "Json(…)",
        })
    }
}

/// How the sources become modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildSettings {
    /// The main module's file: `root` and what the configuration says. Empty when the project
    /// has `assets` and no `main`.
    pub main: PathBuf,
    /// Where `main` is written.
    pub main_origin: Origin,
    /// `build.command`, which celld does not run; it may be what creates `main`.
    pub command: Option<String>,
    /// The main module is taken as it is, without bundling.
    pub no_bundle: bool,
    /// Files below `base_dir` that match a rule are added; unset means "if `no_bundle`".
    pub find_additional_modules: Option<bool>,
    /// Where additional modules are looked for; unset means the directory of `main`.
    pub base_dir: Option<PathBuf>,
    /// `rules`, in the order of the file; the default rules come after them.
    pub rules: Vec<ModuleRule>,
    /// `define`: identifiers and the expressions that replace them.
    pub define: BTreeMap<String, String>,
    /// `alias`: specifiers and what replaces them.
    pub alias: BTreeMap<String, String>,
    /// `tsconfig`.
    pub tsconfig: Option<PathBuf>,
    /// `jsx_factory`.
    pub jsx_factory: Option<String>,
    /// `jsx_fragment`.
    pub jsx_fragment: Option<String>,
    /// `minify`.
    pub minify: bool,
}

/// A Durable Object binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableBinding {
    /// Its name in `env`.
    pub name: String,
    /// The class, an export of this Worker.
    pub class_name: String,
    /// Where it is written.
    pub origin: Origin,
}

/// A service binding.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceBinding {
    /// Its name in `env`.
    pub name: String,
    /// The named export; `None` for the default one.
    pub entrypoint: Option<String>,
    /// `ctx.props` of the target.
    pub props: Option<serde_json::Value>,
}

/// One step in the life of a Worker's Durable Object classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// Its name.
    pub tag: String,
    /// Classes that it creates with the key-value API only.
    pub new_classes: Vec<String>,
    /// Classes that it creates with SQLite.
    pub new_sqlite_classes: Vec<String>,
    /// Classes that get a new name and keep their data.
    pub renamed_classes: Vec<Rename>,
    /// Classes that it deletes, with all their data.
    pub deleted_classes: Vec<String>,
    /// Where it is written.
    pub origin: Origin,
}

/// A class that gets a new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The old name.
    pub from: String,
    /// The new name.
    pub to: String,
}

/// Where a part of the configuration is written, for findings that come up later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// The key's path.
    pub key: String,
    /// The place in the file.
    pub place: Option<Place>,
}

impl Origin {
    /// A finding about this place.
    pub(crate) fn finding(
        &self,
        severity: Severity,
        code: Code,
        message: String,
        help: String,
    ) -> Diagnostic {
        Diagnostic {
            severity,
            code,
            key: self.key.clone(),
            message,
            help,
            file: self.file.clone(),
            place: self.place.clone(),
        }
    }
}

impl Project {
    /// True when there is no Worker, only static files.
    pub fn is_assets_only(&self) -> bool {
        self.build.main.as_os_str().is_empty()
    }

    /// Checks what matters for a deployment but not for local development.
    ///
    /// # Errors
    /// Everything that stands in the way.
    pub fn check_deploy(&self) -> Result<(), ConfigErrors> {
        if self.deploy_errors.is_empty() {
            return Ok(());
        }
        Err(ConfigErrors {
            errors: self.deploy_errors.clone(),
            warnings: Vec::new(),
        })
    }

    /// What the bundler needs to know. `node_env` is left to the caller.
    pub fn bundle_options(&self) -> BundleOptions {
        let build = &self.build;
        let node = |flag: &String| flag == "nodejs_compat" || flag == "nodejs_compat_v2";
        let node_off = self
            .compatibility_flags
            .iter()
            .any(|flag| flag == "no_nodejs_compat");
        let node_by_date = compat::find("nodejs_compat")
            .is_some_and(|flag| self.compatibility_date.as_str() >= flag.date);
        BundleOptions {
            project_dir: self.root.clone(),
            entry: build.main.clone(),
            define: build.define.clone(),
            alias: build.alias.clone(),
            rules: build.rules.clone(),
            no_bundle: build.no_bundle,
            find_additional_modules: build.find_additional_modules.unwrap_or(build.no_bundle),
            base_dir: build.base_dir.clone(),
            tsconfig: build.tsconfig.clone(),
            jsx_factory: build.jsx_factory.clone(),
            jsx_fragment: build.jsx_fragment.clone(),
            minify: build.minify,
            nodejs_compat: !node_off && (node_by_date || self.compatibility_flags.iter().any(node)),
            node_env: None,
        }
    }
}

#[cfg(test)]
mod tests;
