//! A node with made-up hosts: each runs on a thread, keeps real databases, and checks that no cell
//! is ever in two places.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use celld_bucket::BucketUrl;
use celld_core::{CellId, Lsn, NamespaceKey, ObjectId};
use celld_node::{HostFactory, Node, NodeConfig, NodeHandle};
use celld_runtime::api::{
    AlarmOutcome, CellEvent, CellImage, CellRemains, Commit, DurableClass, HostConfig, HostMessage,
    WorkerCode, WorkerEvent,
};
use celld_runtime::exchange::{Body, EventError, HttpRequest, HttpResponse, Reply, reply};
use celld_runtime::host::{HostHandle, OnReady, WorkerSurface};
use celld_storage::{CellDb, Image, OpenOptions};
use parking_lot::Mutex;

/// What tests look at and turn.
#[derive(Default)]
pub struct Stage {
    /// Cells that are resident, over all hosts.
    pub resident: Mutex<HashSet<CellId>>,
    /// A cell was handed to a second host.
    pub doubled: AtomicBool,
    pub activations: AtomicUsize,
    pub hosts_started: AtomicUsize,
    /// Alarms as they fired: cell, scheduled time, retries before.
    pub alarms: Mutex<Vec<(CellId, i64, u32)>>,
    /// How many further alarms are to fail.
    pub alarms_fail: AtomicUsize,
    /// Cells keep no file open between events, as those of real hosts that rest.
    pub parks: AtomicBool,
    /// Hosts that start from here on fail.
    pub starts_fail: AtomicBool,
    /// The code of each host that was started, while somebody keeps it.
    pub codes: Mutex<Vec<Weak<WorkerCode>>>,
}

#[derive(Clone)]
pub struct FakeHosts(pub Arc<Stage>);

impl HostFactory for FakeHosts {
    fn start(&self, config: HostConfig, ready: OnReady) -> HostHandle {
        let (handle, mut mailbox) = HostHandle::new(config.id);
        let stage = self.0.clone();
        stage.hosts_started.fetch_add(1, Ordering::Relaxed);
        stage.codes.lock().push(Arc::downgrade(&config.code));
        std::thread::spawn(move || {
            if config.code.version == "broken" {
                return ready(Err(EventError::new("SyntaxError: it is broken")));
            }
            if stage.starts_fail.load(Ordering::Relaxed) {
                return ready(Err(EventError::new("it is out of memory")));
            }
            ready(Ok(WorkerSurface::default()));
            let mut host = FakeHost {
                config,
                stage,
                cells: HashMap::new(),
            };
            while let Some(message) = mailbox.blocking_recv() {
                if !host.take(message) {
                    return;
                }
                if mailbox.is_empty() {
                    host.config.world.host_load(host.config.id, 0);
                }
            }
        });
        handle
    }
}

struct FakeCell {
    image: CellImage,
    db: CellDb,
    last_lsn: Lsn,
    wrote: bool,
}

struct FakeHost {
    config: HostConfig,
    stage: Arc<Stage>,
    cells: HashMap<CellId, FakeCell>,
}

impl FakeHost {
    /// False at the host's end.
    fn take(&mut self, message: HostMessage) -> bool {
        match message {
            HostMessage::Worker(event) => return self.worker(event),
            HostMessage::Activate(image) => self.activate(*image),
            HostMessage::Cell(cell, event) => {
                let goes_on = self.cell(&cell, event);
                if goes_on && self.stage.parks.load(Ordering::Relaxed) {
                    return self.take(HostMessage::Rest { cell });
                }
                return goes_on;
            }
            HostMessage::Evict { cell, reply, .. } => {
                if let Some(mut held) = self.cells.remove(&cell) {
                    self.stage.resident.lock().remove(&cell);
                    reply.send(Ok(remains(&mut held)));
                }
            }
            HostMessage::Rest { cell } => {
                if let Some(held) = self.cells.get_mut(&cell) {
                    held.db.park().expect("everything is committed");
                }
            }
            HostMessage::Checkpoint { cell, reply } => {
                if let Some(held) = self.cells.get_mut(&cell) {
                    reply.send(Ok(remains(held)));
                }
            }
            HostMessage::Shutdown { .. } => return false,
        }
        true
    }

    /// `/die` ends the host.
    fn worker(&self, event: WorkerEvent) -> bool {
        if let WorkerEvent::Fetch { reply, request, .. } = event {
            if request.url.ends_with("/die") {
                let why = EventError::reset("it was told to die");
                self.config.world.host_lost(self.config.id, why);
                return false;
            }
            if request.url.ends_with("/slow") {
                std::thread::sleep(Duration::from_millis(30));
            }
            reply.send(Ok(answer(&self.config.code.version)));
        }
        true
    }

    fn activate(&mut self, image: CellImage) {
        let stage = &self.stage;
        stage.activations.fetch_add(1, Ordering::Relaxed);
        if !stage.resident.lock().insert(image.cell.clone()) {
            stage.doubled.store(true, Ordering::Relaxed);
        }
        let from = Image {
            snapshot: image.snapshot.as_deref(),
            tail: &image.tail,
            txid: image.txid,
        };
        let db = CellDb::create(&image.database, OpenOptions::default(), from)
            .expect("the image is sound");
        let cell = FakeCell {
            image,
            db,
            last_lsn: Lsn::default(),
            wrote: false,
        };
        self.cells.insert(cell.image.cell.clone(), cell);
    }

    fn cell(&mut self, id: &CellId, event: CellEvent) -> bool {
        let Some(cell) = self.cells.get_mut(id) else {
            return true;
        };
        cell.image.pulse.take();
        match event {
            CellEvent::Fetch { request, reply } => return self.fetch(id, &request, reply),
            CellEvent::Alarm {
                scheduled_ms,
                retry_count,
                reply,
            } => {
                self.stage
                    .alarms
                    .lock()
                    .push((id.clone(), scheduled_ms, retry_count));
                let left = &self.stage.alarms_fail;
                if left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
                {
                    reply.send(Err(EventError {
                        by_script: true,
                        ..EventError::new("the handler failed")
                    }));
                } else {
                    cell.db.set_alarm(None).expect("a sound database");
                    commit(&self.config, cell);
                    reply.send(Ok(AlarmOutcome { next_ms: None }));
                }
            }
            CellEvent::Rpc(_) | CellEvent::SocketMessage { .. } => {}
        }
        true
    }

    /// `/burn` breaks the limit of CPU time, `/add` counts up, `/get` reads, `/alarm?<ms>` sets the alarm, `/die` ends the host.
    fn fetch(&mut self, id: &CellId, request: &HttpRequest, reply: Reply<HttpResponse>) -> bool {
        let cell = self.cells.get_mut(id).expect("looked up before");
        let (path, query) = request.url.split_once('?').unwrap_or((&request.url, ""));
        if path.ends_with("/die") {
            for id in self.cells.keys() {
                self.stage.resident.lock().remove(id);
            }
            self.config
                .world
                .host_lost(self.config.id, EventError::reset("it was told to die"));
            return false;
        }
        if path.ends_with("/burn") {
            self.config
                .world
                .limit_broken(id, celld_core::CellLimit::Cpu);
            reply.send(Err(EventError::reset("it used too much CPU time")));
            return true;
        }
        let stored = cell.db.kv_get("n").expect("a sound database");
        let mut n: u64 = stored.map_or(0, |raw| {
            String::from_utf8_lossy(&raw).parse().expect("a number")
        });
        if path.ends_with("/add") {
            n += 1;
            cell.db
                .kv_put("n", n.to_string().as_bytes())
                .expect("a sound database");
        }
        if path.ends_with("/alarm") {
            cell.db
                .set_alarm(query.parse().ok())
                .expect("a sound database");
        }
        let lsn = commit(&self.config, cell);
        let text = format!("{n} {}", cell.image.name.as_deref().unwrap_or("-"));
        self.config.world.when_durable(
            lsn,
            Box::new(move |proof| reply.send(proof.map(|()| answer(&text)))),
        );
        true
    }
}

fn commit(config: &HostConfig, cell: &mut FakeCell) -> Lsn {
    if let Some(done) = cell.db.commit().expect("a sound database") {
        cell.wrote = true;
        cell.last_lsn = config.world.append(Commit {
            cell: cell.image.cell.clone(),
            epoch: cell.image.epoch,
            txid: done.txid,
            name: cell.image.name.clone(),
            alarm_ms: done.alarm_ms,
            segment: done.segment,
        });
    }
    cell.last_lsn
}

fn remains(cell: &mut FakeCell) -> CellRemains {
    let mut out = CellRemains {
        txid: cell.image.txid,
        lsn: cell.last_lsn,
        snapshot: None,
        alarm_ms: None,
    };
    if std::mem::take(&mut cell.wrote) {
        let (txid, snapshot) = cell.db.snapshot().expect("a sound database");
        out.txid = txid;
        out.snapshot = Some(snapshot);
        out.alarm_ms = cell.db.get_alarm().expect("a sound database");
    }
    out
}

fn answer(text: &str) -> HttpResponse {
    HttpResponse {
        status: http::StatusCode::OK,
        status_text: None,
        headers: http::HeaderMap::new(),
        body: Body::Bytes(Bytes::from(text.to_owned())),
        websocket: None,
        body_is_encoded: false,
        url: None,
    }
}

/// A node under test.
pub struct Bench {
    pub stage: Arc<Stage>,
    pub node: Node,
    pub handle: NodeHandle,
}

impl Bench {
    pub fn start(dir: &Path, tune: impl Fn(&mut NodeConfig)) -> Self {
        let stage = Arc::new(Stage::default());
        let url = format!("file://{}/bucket", dir.display());
        // The threads of a node that was dropped may hold its lock for a moment longer.
        let node = (0..200)
            .find_map(|_| {
                let bucket = BucketUrl::parse(&url).expect("an absolute path");
                let mut config = NodeConfig::new(bucket, dir.join("work"), &[]);
                config.hosts = Arc::new(FakeHosts(stage.clone()));
                config.log.file_bytes = 64 << 10;
                tune(&mut config);
                let started = Node::start(config, tokio::runtime::Handle::current());
                if started.is_err() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                started.ok()
            })
            .expect("the node starts");
        let handle = node.handle();
        Self {
            stage,
            node,
            handle,
        }
    }

    pub async fn deploy(&self, version: &str, namespaces: &[&str]) -> Result<(), String> {
        self.handle.deploy(code(version, namespaces)).await
    }

    /// A request to the Worker.
    pub async fn get(&self, url: &str) -> Result<String, EventError> {
        let (reply, wait) = reply();
        self.handle.fetch(None, request(url), reply);
        wait.await.map(text)
    }

    /// A request to a cell.
    pub async fn cell(&self, cell: &CellId, path: &str) -> Result<String, EventError> {
        self.send(cell, path).await.map(text)
    }

    /// The same, sent when it is called.
    pub fn send(&self, cell: &CellId, path: &str) -> celld_runtime::exchange::Answer<HttpResponse> {
        let (reply, wait) = reply();
        let event = CellEvent::Fetch {
            request: request(path),
            reply,
        };
        self.handle.cell_event(cell, Some("name"), event);
        wait
    }

    pub async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..1_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never happened: {what}");
    }

    /// The same for what is asked of the node.
    pub async fn until_async(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        for _ in 0..1_000 {
            if holds(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never happened: {what}");
    }

    pub async fn metrics(&self) -> serde_json::Value {
        self.internal("/debug/metrics").await
    }

    /// What the internal listener answers.
    pub async fn internal(&self, path: &str) -> serde_json::Value {
        let request = http::Request::get(path)
            .body(Bytes::new())
            .expect("a request");
        let response = self.handle.internal(request).await;
        serde_json::from_slice(response.body()).expect("JSON")
    }

    pub fn check(&self) {
        assert!(
            !self.stage.doubled.load(Ordering::Relaxed),
            "a cell was in two places"
        );
    }
}

pub fn code(version: &str, namespaces: &[&str]) -> WorkerCode {
    let class = |name: &&str| DurableClass {
        class_name: (*name).into(),
        namespace: NamespaceKey::new(name).expect("a namespace key"),
        sqlite: true,
    };
    WorkerCode {
        name: "worker".into(),
        version: version.into(),
        main_module: "index.js".into(),
        modules: Vec::new(),
        compatibility_date: "2026-01-01".into(),
        compatibility_flags: Vec::new(),
        bindings: Vec::new(),
        classes: namespaces.iter().map(class).collect(),
        code_cache: Default::default(),
    }
}

pub fn cell(namespace: &str, n: u16) -> CellId {
    let mut raw = [0; 32];
    raw[..2].copy_from_slice(&n.to_be_bytes());
    CellId {
        namespace: NamespaceKey::new(namespace).expect("a namespace key"),
        object: ObjectId::from_bytes(raw),
    }
}

fn request(url: &str) -> HttpRequest {
    HttpRequest {
        method: http::Method::GET,
        url: format!("http://test{url}"),
        headers: http::HeaderMap::new(),
        body: Body::Empty,
        cf: None,
        websocket: false,
        redirect: Default::default(),
    }
}

/// An answer's body.
pub fn text(response: HttpResponse) -> String {
    match response.body {
        Body::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("not a plain body: {other:?}"),
    }
}
