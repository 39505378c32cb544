//! One project again and again: read, build, put into the bucket, adopt.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use celld_bucket::Bucket;
use celld_deploy::assets::Collected;
use celld_deploy::migrations::Implicit;
use celld_deploy::upload::{self, Draft, UploadOptions, UploadReport};
use celld_node::NodeHandle;
use serde_json::json;

use super::banner::{self, Banner};
use super::front::DevFront;
use crate::cli::DevArgs;
use crate::console::Console;
use crate::errors::{self, Failure};
use crate::excerpt::{Sources, without_own_frames};
use crate::logging::clock;
use crate::output::{Output, render_failure, render_warning};
use crate::project::{self, Loaded};
use crate::table::{DIM, GOOD, paint};
use crate::{adopt, report};

/// Builds and adopts a project.
pub struct Reloader {
    path: PathBuf,
    env: Option<String>,
    output: Output,
    console: Console,
    node: NodeHandle,
    bucket: Arc<dyn Bucket>,
    requests: Arc<DevFront>,
    root: PathBuf,
    /// Files that matter, by the latest build that got as far as knowing them.
    inputs: Vec<PathBuf>,
    /// What serves.
    serving: Option<Serving>,
}

struct Serving {
    loaded: Loaded,
    report: UploadReport,
}

impl Reloader {
    /// For a node that serves nothing yet.
    pub fn new(
        arguments: &DevArgs,
        output: Output,
        console: Console,
        node: NodeHandle,
        requests: Arc<DevFront>,
    ) -> Self {
        Self {
            path: arguments.project.clone(),
            env: arguments.env.clone(),
            output,
            console,
            bucket: node.bucket(),
            node,
            requests,
            root: PathBuf::new(),
            inputs: Vec::new(),
            serving: None,
        }
    }

    /// Builds for the first time. Returns the files to watch; what went wrong has been printed.
    pub async fn first(&mut self, loaded: Loaded) -> Vec<PathBuf> {
        self.root = loaded.project.root.clone();
        self.warn(&loaded);
        if let Err(failure) = self.adopt(loaded).await {
            self.failed(failure, false);
        }
        self.files()
    }

    /// Builds again after a change. Returns the files to watch from here on.
    pub async fn again(&mut self, changed: &[PathBuf], began: Instant) -> Vec<PathBuf> {
        tracing::debug!(?changed, "building again");
        let outcome = match project::load(&self.path, self.env.as_deref(), true) {
            Ok(loaded) => self.adopt(loaded).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(true) => self.reloaded(began),
            Ok(false) => {}
            Err(failure) => self.failed(failure, true),
        }
        self.files()
    }

    /// True once something serves.
    pub fn serves(&self) -> bool {
        self.serving.is_some()
    }

    /// Prints the table of the start.
    pub fn banner(&self, address: SocketAddr, data: &Path, watching: bool) {
        let banner = Banner {
            address,
            data,
            watching: watching.then_some(self.inputs.len()),
            serving: self
                .serving
                .as_ref()
                .map(|serving| (&serving.loaded, &serving.report)),
        };
        self.console
            .say(banner::text(&banner), banner::json(&banner));
    }

    /// Builds and adopts. False when the result is what serves already.
    async fn adopt(&mut self, loaded: Loaded) -> Result<bool, Failure> {
        let bundle = match project::build(&loaded.project, true).await {
            Ok(bundle) => bundle,
            Err(errors) => {
                // What the failed build has read, and what the last good one had.
                self.inputs.extend(errors.inputs.iter().cloned());
                return Err(report::build_failure(&errors));
            }
        };
        self.inputs.clone_from(&bundle.inputs);
        report::bundle_warnings(&self.output, &bundle.warnings);
        let assets = self.assets(&loaded).await?;
        let draft = project::draft(&loaded.project, &bundle, assets.as_ref());
        let report = self.upload(&draft).await?;
        if self
            .serving
            .as_ref()
            .is_some_and(|serving| serving.report.id == report.id)
        {
            return Ok(false);
        }
        let sources = Sources::of(&bundle.modules);
        let adopted =
            adopt::adopt(&self.node, report.id, &report.deployment, &bundle.modules).await;
        if let Err(why) = adopted {
            let rendered = sources.excerpt(&why);
            let why = without_own_frames(&why);
            return Err(Failure {
                rendered,
                ..Failure::new(errors::START_UP, why)
            });
        }
        self.console.know(&loaded.project.name, sources);
        self.requests.is_served();
        self.serving = Some(Serving { loaded, report });
        Ok(true)
    }

    /// The project's static files, which are watched from here on.
    async fn assets(&mut self, loaded: &Loaded) -> Result<Option<Collected>, Failure> {
        if let Some(config) = &loaded.project.assets {
            // Whatever is wrong with the files, a change of this one may put right.
            self.inputs.push(config.directory.join(".assetsignore"));
        }
        let assets = project::assets(&loaded.project).await?;
        if let Some(assets) = &assets {
            self.inputs.extend(assets.sources.iter().cloned());
            self.inputs.extend(assets.controls.iter().cloned());
            report::config_warnings(&self.output, &assets.warnings);
        }
        Ok(assets)
    }

    async fn upload(&self, draft: &Draft) -> Result<UploadReport, Failure> {
        let options = UploadOptions {
            implicit: Implicit::Allow,
        };
        let report = upload::upload(&*self.bucket, draft, options)
            .await
            .map_err(report::upload_failure)?;
        report::config_warnings(&self.output, report.warnings());
        Ok(report)
    }

    fn warn(&self, loaded: &Loaded) {
        report::config_warnings(&self.output, &loaded.warnings);
        for name in &loaded.local.missing {
            let message = format!("the secret {name} is required, but .dev.vars does not give it");
            let help = format!("add a line {name}=value to .dev.vars");
            self.output.warning(
                &render_warning(&message, &help),
                &json!({ "message": message, "help": help }),
            );
        }
        for name in &loaded.local.left_out {
            let message =
                format!("{name} of .dev.vars is left out: `secrets.required` does not list it");
            self.output.warning(
                &render_warning(&message, ""),
                &json!({ "message": message }),
            );
        }
        for file in &loaded.local.not_read {
            let name = file.strip_prefix(&loaded.project.root).unwrap_or(file);
            let message = format!(
                "{} is not read: celld takes local values from .dev.vars only",
                name.display()
            );
            let help = "move what the Worker needs to .dev.vars";
            self.output.warning(
                &render_warning(&message, help),
                &json!({ "message": message, "help": help }),
            );
        }
    }

    fn reloaded(&self, began: Instant) {
        let Some(serving) = &self.serving else { return };
        let ms = began.elapsed().as_millis();
        self.warn(&serving.loaded);
        let text = format!(
            "{} {} {}\n",
            paint(DIM, clock()),
            paint(GOOD, "reloaded"),
            paint(
                DIM,
                format!("{:.8} in {ms} ms", serving.report.id.to_string())
            ),
        );
        let value = json!({ "event": "reloaded", "version": serving.report.id, "ms": ms });
        self.console.say(text, value);
    }

    fn failed(&self, failure: Failure, again: bool) {
        let mut text = render_failure(&failure);
        if self.serving.is_some() && again {
            text.push_str(&paint(DIM, "The code that built last goes on serving.\n"));
        } else {
            text.push_str(&paint(
                DIM,
                "Nothing serves yet; it is tried again when a file changes.\n",
            ));
        }
        self.requests
            .explain(anstream::adapter::strip_str(&text).to_string());
        let value = json!({ "event": "build_failed", "error": failure.to_json() });
        self.console.say(text, value);
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = self.inputs.clone();
        let config = if self.path.is_file() {
            self.path.clone()
        } else {
            self.root.join("wrangler.jsonc")
        };
        files.extend(project::settings_files(
            &self.root,
            &config,
            self.env.as_deref(),
        ));
        // Paths may be relative to where the command was started; the watcher's are not.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        files.into_iter().map(absolute).collect()
    }
}
