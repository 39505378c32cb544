//! A node of one isolate host, for tests of the runtime alone.
#![allow(dead_code, reason = "each file of tests uses its part")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use celld_core::{CellId, CellLimit, Epoch, HostId, Lsn, MonoMs, NamespaceKey, Txid};
use celld_runtime::api::*;
use celld_runtime::exchange::{
    Answer, Body, EventError, HttpRequest, HttpResponse, Redirect, Reply, reply,
};
use celld_runtime::host::{HostHandle, WorkerSurface, start_host};
use celld_runtime::pulse::Pulse;
use celld_runtime::socket::{CellSocket, CellSockets, SocketEnd};
use celld_runtime::socket_channel::SocketReceiver;
use parking_lot::Mutex;

/// Everything outside of the one host.
pub struct SmallWorld {
    host: OnceLock<HostHandle>,
    resident: Mutex<HashMap<CellId, Arc<Pulse>>>,
    sockets: Mutex<HashMap<CellId, Arc<CellSockets>>>,
    /// Events that were sent to cells.
    pub events: AtomicU64,
    lsn: AtomicU64,
    /// Commits are proven at once; set to hold proofs back.
    pub held: Mutex<Option<Vec<OnDurable>>>,
    /// Console lines so far.
    pub lines: Mutex<Vec<ConsoleLine>>,
    /// Data that the next cell to come up finds.
    pub planted: Mutex<Option<(Txid, Bytes)>>,
    /// Commits so far.
    pub commits: Mutex<Vec<Commit>>,
    /// Cells that broke limits.
    pub broken: Mutex<Vec<(CellId, CellLimit)>>,
    scratch: tempfile::TempDir,
    me: OnceLock<std::sync::Weak<SmallWorld>>,
    tokio: tokio::runtime::Handle,
}

impl World for SmallWorld {
    fn send_to_cell(&self, cell: &CellId, name: Option<&str>, event: CellEvent) {
        let Some(host) = self.host.get() else { return };
        self.events.fetch_add(1, Ordering::SeqCst);
        let mut resident = self.resident.lock();
        if !resident.contains_key(cell) {
            let pulse = Arc::new(Pulse::new(std::time::Instant::now()));
            resident.insert(cell.clone(), pulse.clone());
            let (txid, snapshot) = self.planted.lock().take().unzip();
            let image = CellImage {
                cell: cell.clone(),
                class_name: cell
                    .namespace
                    .as_str()
                    .rsplit('-')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
                name: name.map(str::to_owned),
                epoch: Epoch::new(1),
                txid: txid.unwrap_or(Txid::new(0)),
                database: self.scratch.path().join(format!("{}.sqlite", cell.object)),
                snapshot,
                tail: Vec::new(),
                sockets: self.sockets.lock().entry(cell.clone()).or_default().clone(),
                pulse,
            };
            let _ = host.send(HostMessage::Activate(Box::new(image)));
        }
        resident[cell].send(MonoMs::new(0));
        let _ = host.send(HostMessage::Cell(cell.clone(), event));
    }
    fn send_to_worker(&self, _from: &Arc<WorkerCode>, _worker: Option<&str>, event: WorkerEvent) {
        if let Some(host) = self.host.get() {
            let _ = host.send(HostMessage::Worker(event));
        }
    }
    fn fetch(&self, request: HttpRequest, reply: Reply<HttpResponse>) {
        reply.send(Err(EventError::new(format!("no network: {}", request.url))));
    }
    fn append(&self, commit: Commit) -> Lsn {
        self.commits.lock().push(commit);
        Lsn::new(self.lsn.fetch_add(1, Ordering::SeqCst) + 1)
    }
    fn durable(&self) -> Lsn {
        if self.held.lock().is_some() {
            Lsn::new(0)
        } else {
            Lsn::new(self.lsn.load(Ordering::SeqCst))
        }
    }
    fn when_durable(&self, _lsn: Lsn, then: OnDurable) {
        match self.held.lock().as_mut() {
            Some(held) => held.push(then),
            None => then(Ok(())),
        }
    }
    fn adopt_socket(&self, cell: &CellId, socket: Arc<CellSocket>, incoming: SocketReceiver) {
        let Some(world) = self.me.get().and_then(std::sync::Weak::upgrade) else {
            return;
        };
        self.tokio.spawn(celld_runtime::socket_pump::pump(
            world,
            cell.clone(),
            socket,
            incoming,
        ));
    }
    fn console(&self, line: ConsoleLine) {
        self.lines.lock().push(line);
    }
    fn host_lost(&self, _host: HostId, _why: EventError) {}
    fn cell_lost(&self, _host: HostId, cell: &CellId) {
        self.resident.lock().remove(cell);
    }
    fn limit_broken(&self, cell: &CellId, limit: CellLimit) {
        self.broken.lock().push((cell.clone(), limit));
    }
    fn host_load(&self, _host: HostId, _waiting_events: usize) {}
}

/// A running host with a Worker.
pub struct Running {
    /// The world around it.
    pub world: Arc<SmallWorld>,
    /// The host.
    pub host: HostHandle,
    /// What the Worker offers.
    pub surface: WorkerSurface,
}

/// The code of a Worker with the classes `Counter` and `Other`.
pub fn code(source: &str) -> WorkerCode {
    let class = |name: &str| DurableClass {
        class_name: name.into(),
        namespace: NamespaceKey::new(&format!("test-{name}")).expect("a valid key"),
        sqlite: true,
    };
    let classes = vec![class("Counter"), class("Other")];
    WorkerCode {
        name: "test".into(),
        version: "1".into(),
        main_module: "index.js".into(),
        modules: vec![Module {
            specifier: "index.js".into(),
            kind: ModuleKind::EsModule,
            source: Bytes::copy_from_slice(source.as_bytes()),
            source_map: None,
        }],
        compatibility_date: "2026-11-01".into(),
        compatibility_flags: Vec::new(),
        bindings: vec![
            ("GREETING".into(), Binding::Text("hello".into())),
            ("LIST".into(), Binding::Json("[1,2]".into())),
            (
                "COUNTER".into(),
                Binding::DurableObject(classes[0].namespace.clone()),
            ),
            (
                "OTHER".into(),
                Binding::DurableObject(classes[1].namespace.clone()),
            ),
        ],
        classes,
        code_cache: Default::default(),
    }
}

/// Starts a Worker, or says why it does not load.
pub async fn try_start(code: WorkerCode, limits: Limits) -> Result<Running, EventError> {
    celld_runtime::initialize();
    let world = Arc::new(SmallWorld {
        host: OnceLock::new(),
        resident: Mutex::default(),
        sockets: Mutex::default(),
        events: AtomicU64::new(0),
        lsn: AtomicU64::new(0),
        held: Mutex::new(None),
        lines: Mutex::default(),
        planted: Mutex::default(),
        commits: Mutex::default(),
        broken: Mutex::default(),
        scratch: tempfile::tempdir().expect("a scratch directory"),
        me: OnceLock::new(),
        tokio: tokio::runtime::Handle::current(),
    });
    let _ = world.me.set(Arc::downgrade(&world));
    let (told, ready) = reply();
    let config = HostConfig {
        id: HostId::new(1),
        code: Arc::new(code),
        limits,
        snapshot: celld_snapshot::SNAPSHOT,
        world: world.clone(),
        tokio: tokio::runtime::Handle::current(),
    };
    let host = start_host(config, Box::new(move |outcome| told.send(outcome)));
    let surface = ready.await?;
    let _ = world.host.set(host.clone());
    Ok(Running {
        world,
        host,
        surface,
    })
}

/// Starts a Worker with default limits.
pub async fn start(source: &str) -> Running {
    match try_start(code(source), Limits::default()).await {
        Ok(running) => running,
        Err(error) => panic!(
            "the Worker does not load: {error}\n{}",
            error.stack.as_deref().unwrap_or_default()
        ),
    }
}

impl Running {
    /// What a cell is doing.
    pub fn pulse(&self, cell: &CellId) -> Arc<Pulse> {
        self.world.resident.lock()[cell].clone()
    }

    /// Where a cell's working file would be.
    pub fn database(&self, cell: &CellId) -> std::path::PathBuf {
        let name = format!("{}.sqlite", cell.object);
        self.world.scratch.path().join(name)
    }

    /// How many descriptors of this process lead to a cell's working file.
    pub fn descriptors(&self, cell: &CellId) -> usize {
        let database = self.database(cell);
        let all = std::fs::read_dir("/proc/self/fd").expect("Linux has /proc");
        all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .filter(|target| *target == database)
            .count()
    }

    /// Tells a cell to rest, and waits until it has: messages are handled in order.
    pub async fn rest(&self, cell: &CellId) {
        let message = HostMessage::Rest { cell: cell.clone() };
        assert!(self.host.send(message).is_ok(), "the host has ended");
        let (told, answer) = reply();
        let message = HostMessage::Checkpoint {
            cell: cell.clone(),
            reply: told,
        };
        assert!(self.host.send(message).is_ok(), "the host has ended");
        let _ = answer.await;
    }

    /// The cells that are resident.
    pub fn cells(&self) -> Vec<CellId> {
        self.world.resident.lock().keys().cloned().collect()
    }

    /// Lets a cell go, as a node does with one that is idle; its next event takes it in again.
    pub async fn evict(&self, cell: &CellId) -> CellRemains {
        let (reply, remains) = reply();
        let message = HostMessage::Evict {
            cell: cell.clone(),
            // As a node says it to events that do not end in time.
            reason: EventError::reset("The Durable Object was moved."),
            grace: Duration::from_secs(10),
            reply,
        };
        assert!(self.host.send(message).is_ok(), "the host has ended");
        let remains = remains.await.expect("what is left of the cell");
        self.world.resident.lock().remove(cell);
        remains
    }

    /// The sockets that a cell keeps.
    pub fn sockets_of(&self, cell: &CellId) -> Arc<CellSockets> {
        self.world.sockets.lock()[cell].clone()
    }

    /// Opens a WebSocket to whoever answers `path` with one.
    pub async fn connect(&self, path: &str) -> SocketEnd {
        let answer = self.send("GET", path, Body::Empty).await;
        let answer = answer.expect("an answer");
        answer.websocket.expect("a WebSocket")
    }

    /// Sends a request.
    pub fn send(&self, method: &str, path: &str, body: Body) -> Answer<HttpResponse> {
        let (reply, answer) = reply();
        let request = HttpRequest {
            method: method.parse().expect("a method"),
            url: format!("http://example.com{path}"),
            headers: http::HeaderMap::new(),
            body,
            cf: None,
            websocket: false,
            redirect: Redirect::Manual,
        };
        let event = WorkerEvent::Fetch {
            entrypoint: None,
            props: None,
            request,
            reply,
        };
        assert!(
            self.host.send(HostMessage::Worker(event)).is_ok(),
            "the host has ended"
        );
        answer
    }

    /// Sends a request and reads the whole answer.
    pub async fn get(&self, path: &str) -> Result<String, EventError> {
        let answer =
            tokio::time::timeout(Duration::from_secs(20), self.send("GET", path, Body::Empty));
        read(answer.await.expect("an answer in time")?).await
    }
}

/// Reads an answer's body as text.
pub async fn read(response: HttpResponse) -> Result<String, EventError> {
    let mut all = Vec::new();
    match response.body {
        Body::Empty => {}
        Body::Bytes(bytes) => all.extend_from_slice(&bytes),
        Body::Stream(mut stream) => {
            while let Some(chunk) = stream.chunks.recv().await {
                all.extend_from_slice(&chunk.map_err(|error| EventError::new(error.to_string()))?);
            }
        }
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}
