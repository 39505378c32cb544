//! A project on its way to a deployment: configuration, local secrets, bundle.

use std::path::{Path, PathBuf};

use celld_deploy::assets::{self, Collected};
use celld_deploy::bundle::{self, Bundle, BundleErrors};
use celld_deploy::config::{Project, Warning};
use celld_deploy::dotenv::{self, Applied};
use celld_deploy::manifest::{BundledModule, ModuleKind};
use celld_deploy::upload::Draft;

use crate::errors::{self, Failure};
use crate::report;

/// A project as it was read.
pub struct Loaded {
    /// The configuration, with local secrets where they were asked for.
    pub project: Project,
    /// What the author should know.
    pub warnings: Vec<Warning>,
    /// What `.dev.vars` gave.
    pub local: Applied,
}

/// Reads a project; with `local` also its `.dev.vars`.
pub fn load(path: &Path, env: Option<&str>, local: bool) -> Result<Loaded, Failure> {
    // The configuration gives paths relative to itself, the bundler takes them relative to the
    // project: with an absolute path both mean the same.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (mut project, warnings) =
        Project::load(&path, env).map_err(|errors| report::config_failure(&errors))?;
    let local = if local {
        dotenv::apply(&mut project)
            .map_err(|error| Failure::new(errors::DEV_VARS, error.to_string()))?
    } else {
        Applied::default()
    };
    Ok(Loaded {
        project,
        warnings,
        local,
    })
}

/// What stands for the Worker of a project that has only static files.
const ASSETS_ONLY: &str =
    "export default { fetch: (request, env) => env.ASSETS.fetch(request) };\n";

/// Builds a project. `development` is what `process.env.NODE_ENV` says.
pub async fn build(project: &Project, development: bool) -> Result<Bundle, BundleErrors> {
    if project.is_assets_only() {
        let module = BundledModule {
            specifier: "index.js".into(),
            kind: ModuleKind::EsModule,
            bytes: ASSETS_ONLY.into(),
            source_map: None,
        };
        return Ok(Bundle {
            main: module.specifier.clone(),
            modules: vec![module],
            inputs: Vec::new(),
            warnings: Vec::new(),
        });
    }
    let mut options = project.bundle_options();
    if development {
        options.node_env = Some("development".into());
    }
    match tokio::task::spawn_blocking(move || bundle::bundle(&options)).await {
        Ok(built) => built,
        Err(error) => Err(BundleErrors::from(bundle::Diagnostic::error(format!(
            "the bundler failed: {error}"
        )))),
    }
}

/// Lists and hashes a project's static files; `None` when it has no `assets`.
pub async fn assets(project: &Project) -> Result<Option<Collected>, Failure> {
    let Some(config) = project.assets.clone() else {
        return Ok(None);
    };
    match tokio::task::spawn_blocking(move || assets::collect(&config)).await {
        Ok(Ok(collected)) => Ok(Some(collected)),
        Ok(Err(errors)) => Err(report::config_failure(&errors)),
        Err(error) => Err(Failure::new(errors::BUILD, error.to_string())),
    }
}

/// Puts a project, what was built from it, and its static files together.
pub fn draft(project: &Project, bundle: &Bundle, assets: Option<&Collected>) -> Draft {
    let draft = Draft::new(project, bundle);
    match assets {
        Some(assets) => draft.with_assets(project, assets),
        None => draft,
    }
}

/// Files besides the sources that a change of matters, whether they exist or not.
pub fn settings_files(root: &Path, config_file: &Path, env: Option<&str>) -> Vec<PathBuf> {
    let names = [
        "wrangler.json",
        "wrangler.jsonc",
        "wrangler.toml",
        ".dev.vars",
    ];
    let mut files: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    files.push(config_file.to_owned());
    files.extend(env.map(|env| root.join(format!(".dev.vars.{env}"))));
    files
}
