//! `celld run`: serves what is deployed in a bucket.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use celld_bucket::BucketUrl;
use celld_deploy::upload::Fetched;
use celld_node::front::{self, Front, FrontConfig, InternalFront};
use celld_node::outbound::{AllowAll, OutboundConfig, OutboundPolicy, PublicOnly};
use celld_node::{Drained, Node, NodeConfig};
use celld_runtime::api::Limits;
use serde_json::json;
use tokio::net::TcpListener;

use crate::adopt::{self, Adopter};
use crate::cli::RunArgs;
use crate::collect::{self, Serving};
use crate::console::Console;
use crate::deploy::bucket_url;
use crate::errors::{self, Failure};
use crate::excerpt::{Sources, without_own_frames};
use crate::output::Output;
use crate::printer::Printer;
use crate::table::{DIM, GOOD, HEAD, Table, paint};
use crate::{listen, report};

/// Time for objects to finish their events after the listeners have ended.
const OBJECTS_DRAIN: Duration = Duration::from_secs(5);

/// Runs the command.
pub async fn run(arguments: RunArgs, output: &Output) -> Result<(), Failure> {
    let url = bucket_url(&arguments.bucket)?;
    let token = internal_token(&arguments)?;
    let listener = listen::bind(arguments.listen, "--listen").await?;
    let internal = match arguments.internal_listen {
        Some(address) => Some(listen::bind(address, "--internal-listen").await?),
        None => None,
    };
    let deployments = deployed(&url, &arguments).await?;
    let printer = Printer::start().map_err(|error| {
        Failure::new(
            errors::NODE_START,
            format!("cannot start a thread: {error}"),
        )
    })?;
    let console = Console::new(printer, output.json(), true);
    let node = start_node(&arguments, url, console.clone()).await?;
    let internal = internal
        .map(|listener| InternalFront::start(listener, token, Arc::new(node.handle())))
        .transpose()
        .map_err(|error| Failure::new(errors::LISTEN, error.to_string()))?;
    let outcome = match adopt_all(&node, &deployments, &console).await {
        Ok(()) => {
            serve(
                &arguments,
                &node,
                listener,
                internal.as_ref(),
                &deployments,
                &console,
            )
            .await
        }
        Err(failure) => Err(failure),
    };
    let drained = node.drain(OBJECTS_DRAIN).await;
    if let Some(internal) = internal {
        internal.shutdown(Duration::from_secs(1)).await;
    }
    console.finish();
    outcome?;
    in_order(drained)
}

/// Serves until the process is asked to stop or durability is lost; ends the public listener.
async fn serve(
    arguments: &RunArgs,
    node: &Node,
    listener: TcpListener,
    internal: Option<&InternalFront>,
    deployments: &[Fetched],
    console: &Console,
) -> Result<(), Failure> {
    let handle = node.handle();
    handle.set_ready();
    let front = Front::start(listener, front_config(arguments), Arc::new(handle.clone()))
        .map_err(|error| Failure::new(errors::LISTEN, error.to_string()))?;
    banner(
        arguments,
        front.local_addr(),
        internal.map(InternalFront::local_addr),
        deployments,
        console,
    );
    let adopted = deployments
        .iter()
        .map(|fetched| (fetched.deployment.script.clone(), fetched.id));
    let serving = Arc::new(Serving::default());
    let bucket = handle.bucket();
    let adopter = Adopter::new(
        bucket.clone(),
        handle.clone(),
        console.clone(),
        adopted,
        serving.clone(),
    );
    let adopter = tokio::spawn(adopter.run());
    let collector = tokio::spawn(collect::run(bucket, serving));
    let outcome = tokio::select! {
        why = listen::asked_to_stop() => Ok(why),
        why = handle.failed() => Err(Failure::new(errors::LOG_FAILED, why)),
    };
    adopter.abort();
    collector.abort();
    // Without durability no write can end well: what fails now may say so, and that is all.
    let budget = match &outcome {
        Ok(why) => {
            let text = format!("{}\n", paint(DIM, format!("{why}: shutting down")));
            console.say(text, json!({ "event": "stopping", "why": why }));
            Duration::from_secs(arguments.limits.drain_s)
        }
        Err(_) => Duration::from_secs(1),
    };
    let cut = front.shutdown(budget).await;
    if cut > 0 {
        tracing::warn!(
            connections = cut,
            "connections were cut at the end of the time for shutting down"
        );
    }
    outcome.map(drop)
}

/// What is to be served.
async fn deployed(url: &BucketUrl, arguments: &RunArgs) -> Result<Vec<Fetched>, Failure> {
    let nothing = || {
        let message = format!(
            "nothing is deployed in {}: run `celld deploy PROJECT --bucket {}` first",
            arguments.bucket, arguments.bucket
        );
        Failure::new(errors::NOTHING_DEPLOYED, message)
    };
    // Opening would make the directory, which helps nobody who misspelt it.
    if url.directory().is_some_and(|directory| !directory.exists()) {
        return Err(nothing());
    }
    let opening = url.clone();
    let bucket = tokio::task::spawn_blocking(move || opening.open())
        .await
        .map_err(|error| Failure::new(errors::BUCKET_URL, error.to_string()))?
        .map_err(|error| Failure::new(errors::BUCKET_URL, error.to_string()))?;
    let deployments = adopt::fetch_all(&*bucket)
        .await
        .map_err(|error| report::fetch_failure(&error))?;
    let names: Vec<&str> = deployments
        .iter()
        .map(|fetched| fetched.deployment.script.as_str())
        .collect();
    match (&arguments.worker, names.as_slice()) {
        (_, []) => Err(nothing()),
        (Some(wanted), names) if !names.contains(&wanted.as_str()) => {
            let message = format!(
                "no Worker {wanted:?} is deployed here; there are: {}",
                names.join(", ")
            );
            Err(Failure::new(errors::WHICH_WORKER, message))
        }
        (None, [_, _, ..]) => {
            let message = format!(
                "several Workers are deployed here ({}); name one with --worker",
                names.join(", ")
            );
            Err(Failure::new(errors::WHICH_WORKER, message))
        }
        _ => Ok(deployments),
    }
}

async fn start_node(
    arguments: &RunArgs,
    url: BucketUrl,
    console: Console,
) -> Result<Node, Failure> {
    let scratch = scratch_dir(arguments, &url)?;
    let mut config = NodeConfig::new(url, scratch, celld_snapshot::SNAPSHOT);
    config.limits = limits(arguments);
    config.core.resident_max = usize::try_from(arguments.limits.resident_max).unwrap_or(usize::MAX);
    let policy: Arc<dyn OutboundPolicy> = if arguments.allow_private_network {
        Arc::new(AllowAll)
    } else {
        Arc::new(PublicOnly)
    };
    config.outbound = OutboundConfig {
        policy,
        extra_ca_file: arguments.extra_ca_file.clone(),
        ..OutboundConfig::default()
    };
    config.default_script.clone_from(&arguments.worker);
    config.console = Arc::new(console);
    let tokio = tokio::runtime::Handle::current();
    match tokio::task::spawn_blocking(move || Node::start(config, tokio)).await {
        Ok(Ok(node)) => Ok(node),
        Ok(Err(error)) => Err(report::start_failure(&error)),
        Err(error) => Err(Failure::new(errors::NODE_START, error.to_string())),
    }
}

/// What holds for a Worker that sets nothing itself.
fn limits(arguments: &RunArgs) -> Limits {
    let flags = &arguments.limits;
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Limits {
        heap_max_bytes: size(flags.heap_max_mib << 20),
        cpu_max: Duration::from_millis(flags.cpu_max_ms),
        cell_events_max: size(flags.cell_events_max),
        body_max_bytes: flags.body_max_mib << 20,
        ..Limits::default()
    }
}

fn front_config(arguments: &RunArgs) -> FrontConfig {
    FrontConfig {
        body_max_bytes: arguments.limits.body_max_mib << 20,
        connections_max: usize::try_from(arguments.limits.connections_max).unwrap_or(usize::MAX),
        trust_proxy: arguments.trust_proxy,
        ..FrontConfig::default()
    }
}

/// Beside the bucket by default: one node uses a bucket at a time, so nobody else is there.
fn scratch_dir(arguments: &RunArgs, url: &BucketUrl) -> Result<PathBuf, Failure> {
    if let Some(dir) = &arguments.data_dir {
        // The node empties the directory at its start; a subdirectory spares what else lies there.
        return Ok(dir.join("celld-work"));
    }
    let beside = |directory: &Path| {
        let mut name = directory.file_name()?.to_owned();
        name.push(".work");
        Some(directory.with_file_name(name))
    };
    url.directory().and_then(beside).ok_or_else(|| {
        let message = format!(
            "there is no place for working files beside {}; name one with --data-dir",
            arguments.bucket
        );
        Failure::new(errors::DATA_DIR, message)
    })
}

fn internal_token(arguments: &RunArgs) -> Result<Option<String>, Failure> {
    match (&arguments.internal_token_file, arguments.internal_listen) {
        (Some(file), _) => front::read_token(file)
            .map(Some)
            .map_err(|error| Failure::new(errors::TOKEN, error.to_string())),
        (None, Some(address)) if !address.ip().is_loopback() => Err(Failure::new(
            errors::TOKEN,
            format!(
                "--internal-listen {address} can be reached from other machines; protect it with --internal-token-file"
            ),
        )),
        (None, _) => Ok(None),
    }
}

async fn adopt_all(node: &Node, deployments: &[Fetched], console: &Console) -> Result<(), Failure> {
    for fetched in deployments {
        let sources = Sources::of(&fetched.modules);
        let handle = node.handle();
        let adopted =
            adopt::adopt(&handle, fetched.id, &fetched.deployment, &fetched.modules).await;
        if let Err(why) = adopted {
            let message = format!(
                "the deployment {} of {} does not start: {why}",
                fetched.id, fetched.deployment.script
            );
            return Err(Failure {
                rendered: sources.excerpt(&why),
                ..Failure::new(errors::START_UP, without_own_frames(&message))
            });
        }
        console.know(&fetched.deployment.script, sources);
    }
    Ok(())
}

fn in_order(drained: Drained) -> Result<(), Failure> {
    match drained {
        Drained {
            complete: true,
            log_error: None,
        } => Ok(()),
        Drained {
            log_error: Some(why),
            ..
        } => Err(Failure::new(errors::DRAIN, why)),
        Drained { .. } => Err(Failure::new(
            errors::DRAIN,
            "some objects could not be saved in time",
        )),
    }
}

fn banner(
    arguments: &RunArgs,
    public: SocketAddr,
    internal: Option<SocketAddr>,
    deployments: &[Fetched],
    console: &Console,
) {
    let mut table = Table::default();
    table.row("Address", [paint(GOOD, listen::url(public))]);
    table.row("Internal", internal.map(listen::url));
    let worker = |fetched: &Fetched| {
        format!(
            "{} {}",
            paint(HEAD, &fetched.deployment.script),
            paint(DIM, fetched.id)
        )
    };
    table.row(
        if deployments.len() == 1 {
            "Worker"
        } else {
            "Workers"
        },
        deployments.iter().map(worker),
    );
    table.row("Bucket", [arguments.bucket.clone()]);
    let workers: Vec<_> = deployments
        .iter()
        .map(|fetched| json!({ "name": fetched.deployment.script, "version": fetched.id }))
        .collect();
    let value = json!({
        "event": "listening",
        "url": listen::url(public),
        "address": public,
        "internal_address": internal,
        "workers": workers,
        "bucket": arguments.bucket,
    });
    console.say(format!("\n{}\n", table.render()), value);
}
