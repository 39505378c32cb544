//! `celld dev`: serves a project, and adopts each change of it.

mod banner;
mod front;
mod reload;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use celld_bucket::BucketUrl;
use celld_deploy::bundle::{self, Watcher};
use celld_node::front::{ErrorDetail, Front, FrontConfig};
use celld_node::{Node, NodeConfig};
use serde_json::json;
use tokio::net::TcpListener;

use crate::cli::DevArgs;
use crate::console::Console;
use crate::errors::{self, Failure};
use crate::listen;
use crate::output::Output;
use crate::printer::Printer;
use crate::project::{self, Loaded};
use crate::report;
use crate::table::{DIM, paint};
use front::DevFront;
use reload::Reloader;

/// Time for requests in progress when the process is asked to stop.
const DRAIN: Duration = Duration::from_secs(3);

/// Runs the command.
pub async fn dev(arguments: DevArgs, output: &Output) -> Result<(), Failure> {
    let load = || project::load(&arguments.project, arguments.env.as_deref(), true);
    let mut loaded = load()?;
    let listener = listen::bind(SocketAddr::new(arguments.host, arguments.port), "--port").await?;
    let data = data_dir(&arguments, &loaded)?;
    // From here on no change is missed, one during the first build included.
    let watcher = match arguments.no_watch {
        true => None,
        false => Some(watch(&loaded, &data)?),
    };
    if watcher.is_some() {
        // What was read before the watch began may have changed in between.
        loaded = load()?;
    }
    let printer = Printer::start().map_err(|error| {
        Failure::new(
            errors::NODE_START,
            format!("cannot start a thread: {error}"),
        )
    })?;
    let console = Console::new(printer, output.json(), false);
    let node = start_node(&data, console.clone()).await?;
    let requests = Arc::new(DevFront::new(node.handle()));
    let reloader = Reloader::new(
        &arguments,
        *output,
        console.clone(),
        node.handle(),
        requests.clone(),
    );
    let session = Session {
        node: &node,
        requests,
        reloader,
        watcher,
        console: console.clone(),
    };
    let outcome = session.run(listener, loaded, &data).await;
    let drained = node.drain(DRAIN).await;
    if !drained.complete || drained.log_error.is_some() {
        tracing::debug!(
            ?drained,
            "not everything was saved; the next start recovers it"
        );
    }
    console.finish();
    outcome
}

/// What works together while a project is served.
struct Session<'a> {
    node: &'a Node,
    requests: Arc<DevFront>,
    reloader: Reloader,
    watcher: Option<Watcher>,
    console: Console,
}

impl Session<'_> {
    /// Builds, serves, and ends the listener.
    async fn run(
        mut self,
        listener: TcpListener,
        loaded: Loaded,
        data: &Path,
    ) -> Result<(), Failure> {
        let inputs = self.reloader.first(loaded).await;
        self.watch_for(&inputs);
        if self.watcher.is_none() && !self.reloader.serves() {
            return Err(Failure::new(
                errors::BUILD,
                "the project cannot be served, and with --no-watch it is not tried again",
            ));
        }
        let config = FrontConfig {
            errors: ErrorDetail::Full,
            ..FrontConfig::default()
        };
        let front = Front::start(listener, config, self.requests.clone())
            .map_err(|error| Failure::new(errors::LISTEN, error.to_string()))?;
        self.reloader
            .banner(front.local_addr(), data, self.watcher.is_some());
        let outcome = self.serve().await;
        if let Ok(why) = &outcome {
            let text = format!("{}\n", paint(DIM, format!("{why}: shutting down")));
            self.console
                .say(text, json!({ "event": "stopping", "why": why }));
        }
        front.shutdown(DRAIN).await;
        outcome.map(drop)
    }

    /// Serves until the process is asked to stop, which gives the reason, or durability is lost.
    async fn serve(&mut self) -> Result<&'static str, Failure> {
        let handle = self.node.handle();
        let stop = listen::asked_to_stop();
        let failed = handle.failed();
        tokio::pin!(stop, failed);
        loop {
            let changed = async {
                match &mut self.watcher {
                    Some(watcher) => watcher.changed().await,
                    None => std::future::pending().await,
                }
            };
            let changes = tokio::select! {
                why = &mut stop => return Ok(why),
                why = &mut failed => return Err(Failure::new(errors::LOG_FAILED, why)),
                changes = changed => changes,
            };
            let Some(changes) = changes else {
                tracing::warn!("changes are no longer watched; restart `celld dev` to see them");
                self.watcher = None;
                continue;
            };
            let inputs = tokio::select! {
                why = &mut stop => return Ok(why),
                why = &mut failed => return Err(Failure::new(errors::LOG_FAILED, why)),
                inputs = self.reloader.again(&changes.files, Instant::now()) => inputs,
            };
            self.watch_for(&inputs);
        }
    }

    fn watch_for(&mut self, inputs: &[PathBuf]) {
        if let Some(watcher) = &mut self.watcher
            && let Err(error) = watcher.set_inputs(inputs)
        {
            tracing::warn!("{error}");
        }
    }
}

/// The data directory, made and kept out of version control.
fn data_dir(arguments: &DevArgs, loaded: &Loaded) -> Result<PathBuf, Failure> {
    let dir = arguments
        .persist_to
        .clone()
        .unwrap_or_else(|| loaded.project.root.join(".celld"));
    let failed = |error: std::io::Error| {
        Failure::new(
            errors::DATA_DIR,
            format!("cannot use {} for data: {error}", dir.display()),
        )
    };
    std::fs::create_dir_all(&dir).map_err(failed)?;
    let ignore = dir.join(".gitignore");
    if arguments.persist_to.is_none() && !ignore.exists() {
        std::fs::write(&ignore, "*\n").map_err(failed)?;
    }
    dir.canonicalize().map_err(failed)
}

async fn start_node(data: &Path, console: Console) -> Result<Node, Failure> {
    let bucket = BucketUrl::Directory(data.join("bucket"));
    let mut config = NodeConfig::new(bucket, data.join("work"), celld_snapshot::SNAPSHOT);
    config.console = Arc::new(console);
    // One isolate, as in Wrangler's local mode: module-level state is then the same for every
    // request, which is what people expect of a program on their own machine.
    config.core.stateless_hosts_max = 1;
    // Sockets and streams that are still open must not hold up a reload.
    config.core.adopt_grace_ms = 1_000;
    let tokio = tokio::runtime::Handle::current();
    match tokio::task::spawn_blocking(move || Node::start(config, tokio)).await {
        Ok(Ok(node)) => Ok(node),
        Ok(Err(error)) => Err(report::start_failure(&error)),
        Err(error) => Err(Failure::new(errors::NODE_START, error.to_string())),
    }
}

/// Watches a project that is not built yet: its settings, and what appears or disappears.
fn watch(loaded: &Loaded, data: &Path) -> Result<Watcher, Failure> {
    let project = &loaded.project;
    let settings = project::settings_files(
        &project.root,
        &project.config_file,
        project.environment.as_deref(),
    );
    let mut watcher = bundle::watch(&project.root, &settings)
        .map_err(|error| Failure::new(errors::WATCH, error.to_string()))?;
    watcher.ignore(data);
    Ok(watcher)
}
