//! The composition: bucket, log, core thread and isolates make a node.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use celld_bucket::{Bucket, Counted};
use celld_core::{CellId, Event, ScriptName, SessionId, WallMs};
use celld_log::NodeLog;
use celld_runtime::api::{CellEvent, WorkerCode, WorkerEvent};
use celld_runtime::exchange::{EventError, HttpRequest, HttpResponse, Reply};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::assets::{self, BlobCache, StaticAssets};
use crate::cells::{self, Store};
use crate::clock::Clock;
use crate::config::NodeConfig;
use crate::console::Notice;
use crate::outbound::{Outbound, OutboundError};
use crate::refuse;
use crate::routes::Routes;
use crate::scratch;
use crate::shared::{Counters, Shared};
use crate::shell::{Command, Shell};

/// How often it is looked whether cells have left.
const EVICTION_LOOK: Duration = Duration::from_millis(5);

/// First segments of the bucket's keys, for counting.
const CLASSES: &[&str] = &["deploy", "cells", "alarms", "log"];

/// A node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The bucket cannot be opened.
    #[error(transparent)]
    Bucket(#[from] celld_bucket::OpenError),
    /// The node log cannot be opened or recovered.
    #[error(transparent)]
    Log(#[from] celld_log::OpenError),
    /// Outgoing requests cannot be set up.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    /// The bucket is not a directory.
    #[error("this bucket is not a local directory: use file:///absolute/directory")]
    NotLocal,
    /// The scratch directory cannot be made or emptied.
    #[error("cannot prepare the scratch directory {}: {error}", path.display())]
    Scratch {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// Another node uses the scratch directory.
    #[error(
        "another celld node uses the working files in {} (its lock is {}): stop it first, or give each node a directory of its own (--data-dir, --persist-to)",
        path.display(), lock.display()
    )]
    ScratchBusy {
        /// The directory.
        path: PathBuf,
        /// The file that the other node holds.
        lock: PathBuf,
    },
    /// No thread, or no randomness.
    #[error("cannot start the node: {0}")]
    System(String),
}

/// A running node. Call [`Node::drain`] before dropping it: dropping alone leaves cells to be
/// recovered from the log, as after a crash.
pub struct Node {
    handle: NodeHandle,
    core_thread: Mutex<Option<JoinHandle<()>>>,
}

/// Speaks to a node. Cheap to clone.
#[derive(Clone)]
pub struct NodeHandle {
    pub(crate) shared: Arc<Shared>,
    default_script: Option<Arc<str>>,
    failed: watch::Receiver<Option<String>>,
    ready: Arc<AtomicBool>,
}

/// What became of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Every cell left in time.
    pub complete: bool,
    /// Why the log could not be closed in order, if so. Nothing acknowledged is lost by it.
    pub log_error: Option<String>,
}

impl Node {
    /// Opens bucket and log, and starts the core. Blocks on I/O: recovering a log reads it.
    ///
    /// Cells of a dead session serve at once; their data moves from its log to their records in
    /// the background.
    pub fn start(config: NodeConfig, tokio: tokio::runtime::Handle) -> Result<Self, StartError> {
        let directory = config
            .bucket
            .directory()
            .ok_or(StartError::NotLocal)?
            .to_owned();
        let bucket = Arc::new(Counted::new(config.bucket.open()?, CLASSES));
        let session = SessionId::from_random(random_bits()?);
        let (failing, failed) = watch::channel(None);
        let log = open_log(&config, &directory, session, failing)?;
        let scratch_lock = scratch::take(&config.scratch)?;
        let store = Store {
            bucket,
            log,
            session,
            scratch: config.scratch.clone(),
            _scratch_lock: Arc::new(scratch_lock),
        };
        let (core, commands) = mpsc::channel();
        let default_script = config.default_script.clone().map(Arc::from);
        let shared = Arc::new(share(config, store, core, tokio)?);
        recover(&shared);
        let shell = Shell::new(shared.clone());
        let core_thread = std::thread::Builder::new()
            .name("celld-core".into())
            .spawn(move || shell.run(&commands))
            .map_err(|error| StartError::System(error.to_string()))?;
        let ready = Arc::new(AtomicBool::new(false));
        let handle = NodeHandle {
            shared,
            default_script,
            failed,
            ready,
        };
        Ok(Self {
            handle,
            core_thread: Mutex::new(Some(core_thread)),
        })
    }

    /// Speaks to this node.
    pub fn handle(&self) -> NodeHandle {
        self.handle.clone()
    }

    /// Ends the node in order: cells finish their events within `budget`, then they and the log are
    /// saved. Stop the listeners first; requests that come later are refused.
    pub async fn drain(&self, budget: Duration) -> Drained {
        let shared = &self.handle.shared;
        let (done, wait) = oneshot::channel();
        shared.command(Command::Drain {
            grace: budget,
            done,
        });
        // Hosts end events at the end of the budget; saving what they leave takes a moment more.
        let limit = budget + Duration::from_secs(10);
        let complete = matches!(tokio::time::timeout(limit, wait).await, Ok(Ok(())));
        let thread = self.core_thread.lock().take();
        let (log, scratch) = (shared.store.log.clone(), shared.store.scratch.clone());
        let closing = tokio::task::spawn_blocking(move || {
            if complete && let Some(thread) = thread {
                let _ = thread.join();
            }
            let closed = log.close();
            let _ = std::fs::remove_dir_all(scratch);
            closed
        });
        let log_error = match closing.await {
            Ok(Ok(())) => None,
            Ok(Err(failed)) => Some(failed.to_string()),
            Err(error) => Some(error.to_string()),
        };
        Drained {
            complete,
            log_error,
        }
    }
}

impl Drop for Node {
    /// Ends core and hosts at once. After a drain there is nothing left to end.
    fn drop(&mut self) {
        self.handle.shared.command(Command::End);
        if let Some(thread) = self.core_thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl NodeHandle {
    /// Answers a request that came from outside. `script` is `None` for the default Worker.
    pub fn fetch(&self, script: Option<&str>, request: HttpRequest, reply: Reply<HttpResponse>) {
        if self.shared.draining.load(Ordering::Relaxed) {
            return reply.send(Err(refuse::retryable("The node is shutting down.".into())));
        }
        if self.shared.store.log.overloaded() {
            return reply.send(Err(EventError::overloaded(
                "The disk does not keep up with writes.",
            )));
        }
        let name = match self.script(script) {
            Ok(name) => name,
            Err(why) => return reply.send(Err(why)),
        };
        let pool = self.shared.pools.pin().get(&name).cloned();
        if let Some(assets) = pool.and_then(|pool| pool.assets())
            && let Some(found) = assets.before_worker(&request)
        {
            return assets::send(&self.shared, found, reply);
        }
        let event = WorkerEvent::Fetch {
            entrypoint: None,
            props: None,
            request,
            reply,
        };
        self.shared.send_to_script(name.as_str(), event);
    }

    /// Delivers a stateless event, e.g. a cron trigger.
    pub fn worker_event(&self, script: Option<&str>, event: WorkerEvent) {
        match self.script(script) {
            Ok(name) => self.shared.send_to_script(name.as_str(), event),
            Err(why) => refuse::worker_event(event, why),
        }
    }

    /// Delivers an event to a cell.
    pub fn cell_event(&self, cell: &CellId, name: Option<&str>, event: CellEvent) {
        self.shared.send_to_cell(cell, name, event);
    }

    /// The Worker that is meant: the named one, the configured one, or the only one.
    fn script(&self, named: Option<&str>) -> Result<ScriptName, EventError> {
        if let Some(name) = named.or(self.default_script.as_deref()) {
            return Ok(ScriptName::new(name));
        }
        let pools = self.shared.pools.pin();
        let mut adopted = pools
            .iter()
            .filter(|(_, pool)| pool.is_adopted())
            .map(|(name, _)| name);
        match (adopted.next(), adopted.next()) {
            (Some(only), None) => Ok(only.clone()),
            (None, _) => Err(refuse::retryable("No Worker is deployed here yet.".into())),
            (Some(_), Some(_)) => Err(EventError::new(
                "Several Workers are deployed here: say which one gets public requests (default_script).",
            )),
        }
    }

    /// Adopts code in place of what serves under its name, without dropping a request. The node is
    /// ready afterwards.
    ///
    /// # Errors
    /// The code could not be loaded: the text says why, and what served before goes on serving.
    pub async fn deploy(&self, code: WorkerCode) -> Result<(), String> {
        self.deploy_limited(code, None).await
    }

    /// The same for code that has its own limit of CPU time for one event.
    ///
    /// # Errors
    /// As for [`NodeHandle::deploy`].
    pub async fn deploy_limited(
        &self,
        code: WorkerCode,
        cpu_max: Option<Duration>,
    ) -> Result<(), String> {
        self.deploy_with_assets(code, cpu_max, None).await
    }

    /// The same for code that has static files, whose blobs are in the node's bucket.
    ///
    /// # Errors
    /// As for [`NodeHandle::deploy`].
    pub async fn deploy_with_assets(
        &self,
        code: WorkerCode,
        cpu_max: Option<Duration>,
        assets: Option<StaticAssets>,
    ) -> Result<(), String> {
        let assets = assets.map(Arc::new);
        let (adopted, wait) = oneshot::channel();
        self.shared.command(Command::Deploy {
            code,
            cpu_max,
            assets,
            adopted,
        });
        let result = wait
            .await
            .unwrap_or_else(|_| Err("the node has ended".into()));
        if result.is_ok() {
            self.set_ready();
        }
        result
    }

    /// Says that everything that was to be served at the start is served (see `/readyz`).
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// True once the first deployment serves, and until the node drains or its log fails.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
            && !self.shared.draining.load(Ordering::Relaxed)
            && self.failed.borrow().is_none()
    }

    /// Lets every object go that has nothing to do, however short its idleness, and waits until
    /// they have left, at most `limit`. Returns how many are still there: busy, or come anew.
    pub async fn evict_idle(&self, limit: Duration) -> usize {
        let (done, wait) = oneshot::channel();
        self.shared.command(Command::EvictIdle { done });
        let end = tokio::time::Instant::now() + limit;
        let _ = tokio::time::timeout_at(end, wait).await;
        loop {
            let cells = self.shared.counts.lock().cells;
            if cells == 0 || tokio::time::Instant::now() >= end {
                return cells;
            }
            tokio::time::sleep(EVICTION_LOOK).await;
        }
    }

    /// The bucket that the node uses.
    pub fn bucket(&self) -> Arc<Counted<Arc<dyn Bucket>>> {
        self.shared.store.bucket.clone()
    }

    /// Completes with the reason when the node can no longer make writes durable. The process must
    /// end then: nothing that is not proven has left it, and a restart recovers everything else.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }
}

fn share(
    config: NodeConfig,
    store: Store,
    core: mpsc::Sender<Command>,
    tokio: tokio::runtime::Handle,
) -> Result<Shared, StartError> {
    Ok(Shared {
        clock: Clock::start(),
        store,
        log_file_bytes: config.log.file_bytes,
        routes: Routes::new(config.limits.cell_events_max, config.waiting_max),
        hosts: papaya::HashMap::new(),
        pools: papaya::HashMap::new(),
        sockets: papaya::HashMap::new(),
        outbound: Outbound::new(config.outbound, tokio.clone())?,
        console: config.console,
        factory: config.hosts,
        snapshot: config.snapshot,
        limits: config.limits,
        core_config: config.core,
        tokio,
        core,
        blobs: BlobCache::default(),
        draining: AtomicBool::new(false),
        quarantined: Mutex::default(),
        counts: Mutex::default(),
        counters: Counters::default(),
    })
}

fn open_log(
    config: &NodeConfig,
    bucket_dir: &Path,
    session: SessionId,
    failing: watch::Sender<Option<String>>,
) -> Result<Arc<NodeLog>, StartError> {
    let console = config.console.clone();
    let on_failed = Box::new(move |failed: celld_log::LogFailed| {
        let why = failed.to_string();
        console.notice(Notice::LogFailed { why: why.clone() });
        failing.send_replace(Some(why));
    });
    let log = NodeLog::open(
        &bucket_dir.join("log"),
        session,
        config.log.clone(),
        on_failed,
    )?;
    let recovery = log.recovery();
    if recovery.crashed > 0 {
        tracing::info!(
            sessions = recovery.crashed,
            records = recovery.records,
            "recovered the node log of a session that did not end in order"
        );
    }
    Ok(Arc::new(log))
}

/// Tells the core what dead sessions left, and looks for alarms in the bucket.
fn recover(shared: &Arc<Shared>) {
    for cell in shared.store.log.cells() {
        shared.tell(Event::Recovered { cell });
    }
    for (cell, alarm_ms) in shared.store.log.alarms() {
        shared.tell(Event::AlarmSet {
            cell,
            at: alarm_ms.map(WallMs::new),
        });
    }
    let shared = shared.clone();
    shared.clone().tokio.spawn(async move {
        let hint = |cell, not_before| shared.tell(Event::AlarmHint { cell, not_before });
        if let Err(error) = cells::list_markers(&shared.store, hint).await {
            tracing::error!(%error, "cannot list the alarms of cells: those of cold cells will not fire until the next start");
        }
    });
}

fn random_bits() -> Result<u128, StartError> {
    let mut bits = [0u8; 16];
    getrandom::fill(&mut bits)
        .map_err(|error| StartError::System(format!("no randomness: {error}")))?;
    Ok(u128::from_le_bytes(bits))
}
