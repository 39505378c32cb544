//! The door of this crate: what a node tells an isolate host, and what a host asks of its node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use celld_core::{CellId, CellLimit, Epoch, HostId, Lsn, NamespaceKey, Txid};

use crate::exchange::{Body, EventError, HttpRequest, HttpResponse, Reply};
use crate::pulse::Pulse;
use crate::rpc::session::SessionEnd;
use crate::socket::{CellSocket, CellSockets, Ending, SocketEnd, SocketMessage};
use crate::socket_channel::SocketReceiver;

/// Code and configuration of one Worker, as an isolate needs it. Immutable and shared.
#[derive(Debug)]
pub struct WorkerCode {
    /// Worker name (`name` in the Wrangler configuration).
    pub name: String,
    /// Content address of the deployment, for logs and version metadata.
    pub version: String,
    /// Specifier of the main module among `modules`.
    pub main_module: String,
    /// Every module of the bundle.
    pub modules: Vec<Module>,
    /// `compatibility_date`, as `YYYY-MM-DD`.
    pub compatibility_date: String,
    /// `compatibility_flags`.
    pub compatibility_flags: Vec<String>,
    /// What appears in `env`.
    pub bindings: Vec<(String, Binding)>,
    /// The Worker's own Durable Object classes: class name to namespace.
    pub classes: Vec<DurableClass>,
    /// V8 code cache, filled by the first isolate that compiles the code.
    pub code_cache: crate::code_cache::CodeCache,
}

/// One module of a bundle.
#[derive(Clone, Debug)]
pub struct Module {
    /// Relative POSIX path, e.g. `index.js` or `assets/logo.wasm`.
    pub specifier: String,
    /// How it is to be understood.
    pub kind: ModuleKind,
    /// Its bytes; UTF-8 for the textual kinds.
    pub source: Bytes,
    /// Source map (version 3, JSON) of an ES module.
    pub source_map: Option<Bytes>,
}

/// Kinds of modules, as Wrangler's rules name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleKind {
    /// ECMAScript module.
    EsModule,
    /// CommonJS module; its `module.exports` is the default export.
    CommonJs,
    /// WebAssembly; the default export is a `WebAssembly.Module`.
    CompiledWasm,
    /// The default export is a string.
    Text,
    /// The default export is an `ArrayBuffer`.
    Data,
    /// The default export is the parsed value.
    Json,
}

/// A value in `env`.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A string (`vars`, `.dev.vars`).
    Text(String),
    /// Any JSON value (`vars`), as JSON text.
    Json(String),
    /// A Durable Object namespace.
    DurableObject(NamespaceKey),
    /// Another entrypoint: of this Worker (`worker: None`) or, later, of another.
    Service {
        /// Target Worker; `None` for this one.
        worker: Option<String>,
        /// Named export; `None` for the default one.
        entrypoint: Option<String>,
        /// `ctx.props` of the target, as JSON text.
        props: Option<String>,
    },
    /// The static files of the deployment. Requests go to the Worker [`ASSETS_WORKER`].
    Assets,
}

/// The name by which [`World::send_to_worker`] is asked for static files. No Worker can have it.
pub const ASSETS_WORKER: &str = "$assets";

/// A Durable Object class of a Worker.
#[derive(Clone, Debug)]
pub struct DurableClass {
    /// Name of the export.
    pub class_name: String,
    /// Where its cells live.
    pub namespace: NamespaceKey,
    /// SQLite-backed (`new_sqlite_classes`); else only the KV API is offered.
    pub sqlite: bool,
}

/// Limits that a host enforces.
#[derive(Clone, Debug)]
pub struct Limits {
    /// V8 heap of one isolate, in bytes (default 128 MiB).
    pub heap_max_bytes: usize,
    /// CPU time of one event (default 30 s).
    pub cpu_max: Duration,
    /// Events of one cell that may be in progress or waiting (default 1,000).
    pub cell_events_max: usize,
    /// Largest request body, in bytes (default 100 MiB).
    pub body_max_bytes: u64,
    /// How long `waitUntil` work may go on after the answer of a stateless event (default 30 s).
    pub wait_until_max: Duration,
    /// How long an alarm handler may take before its object is reset (default 15 min).
    pub alarm_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            heap_max_bytes: 128 << 20,
            cpu_max: Duration::from_secs(30),
            cell_events_max: 1_000,
            body_max_bytes: 100 << 20,
            wait_until_max: Duration::from_secs(30),
            alarm_max: Duration::from_secs(15 * 60),
        }
    }
}

/// Everything a host needs at its start.
#[derive(Clone)]
pub struct HostConfig {
    /// Its number in this process.
    pub id: HostId,
    /// The code it runs.
    pub code: Arc<WorkerCode>,
    /// Its limits.
    pub limits: Limits,
    /// The start-up snapshot.
    pub snapshot: &'static [u8],
    /// Everything outside.
    pub world: Arc<dyn World>,
    /// The tokio runtime that carries network I/O.
    pub tokio: tokio::runtime::Handle,
}

/// A cell as it is handed to a host.
#[derive(Debug)]
pub struct CellImage {
    /// Which cell.
    pub cell: CellId,
    /// The class to construct.
    pub class_name: String,
    /// `ctx.id.name`, when it is known.
    pub name: Option<String>,
    /// Ownership generation; stamped on every log record.
    pub epoch: Epoch,
    /// The last commit that `snapshot` and `tail` hold.
    pub txid: Txid,
    /// Database file for this residence. It does not exist yet; the host creates it on first storage access.
    pub database: PathBuf,
    /// Compressed snapshot as `celld_storage` made it; `None` for an empty database.
    pub snapshot: Option<Bytes>,
    /// Segments committed after the snapshot, oldest first.
    pub tail: Vec<Bytes>,
    /// Sockets that survived hibernation.
    pub sockets: Arc<CellSockets>,
    /// Where the host notes what the cell is doing.
    pub pulse: Arc<Pulse>,
}

/// What a cell handles.
#[derive(Debug)]
pub enum CellEvent {
    /// `fetch()` on a stub.
    Fetch {
        /// The request.
        request: HttpRequest,
        /// Where the answer goes.
        reply: Reply<HttpResponse>,
    },
    /// A method call or property read on a stub.
    Rpc(RpcCall),
    /// The alarm is due.
    Alarm {
        /// When it was to fire, in ms since the epoch.
        scheduled_ms: i64,
        /// Failed attempts before this one.
        retry_count: u32,
        /// Success, or why the handler failed. The handler's writes are proven when it arrives.
        reply: Reply<AlarmOutcome>,
    },
    /// A message on a hibernatable socket.
    SocketMessage {
        /// Which socket.
        socket: Arc<CellSocket>,
        /// Text or binary; `Close` for a close frame; `None` when the connection was lost.
        message: Option<SocketMessage>,
        /// Present with the socket's last event.
        ending: Option<Ending>,
    },
}

/// What came of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmOutcome {
    /// The alarm that the cell has set by now, in ms since the epoch.
    pub next_ms: Option<i64>,
}

/// A call on an entrypoint or a Durable Object.
#[derive(Debug)]
pub struct RpcCall {
    /// The first frame: a call on export 0, which is the entrypoint or the object.
    pub first: Bytes,
    /// The called side's end of the session that the call opens. Everything else travels on it.
    pub session: SessionEnd,
}

impl RpcCall {
    /// Ends the session before anything was called.
    pub fn fail(self, error: EventError) {
        self.session.close(Some(error));
    }
}

/// What a stateless host handles.
#[derive(Debug)]
pub enum WorkerEvent {
    /// `fetch` handler of an entrypoint (`None`: the default export).
    Fetch {
        /// Named export.
        entrypoint: Option<String>,
        /// `ctx.props`, as JSON text.
        props: Option<String>,
        /// The request.
        request: HttpRequest,
        /// Where the answer goes.
        reply: Reply<HttpResponse>,
    },
    /// Method call on an entrypoint.
    Rpc {
        /// Named export.
        entrypoint: Option<String>,
        /// `ctx.props`, as JSON text.
        props: Option<String>,
        /// The call.
        call: RpcCall,
    },
    /// `scheduled` handler.
    Scheduled {
        /// The cron expression, literally.
        cron: String,
        /// Nominal time, in ms since the epoch.
        scheduled_ms: i64,
        /// Success, or why the handler failed.
        reply: Reply<()>,
    },
}

/// What a node tells a host. Messages are handled in order.
#[derive(Debug)]
pub enum HostMessage {
    /// A stateless event.
    Worker(WorkerEvent),
    /// Takes a cell in. Events for it may follow at once; they wait for the constructor.
    Activate(Box<CellImage>),
    /// An event of a resident cell. For a cell that is not here the reply is dropped.
    Cell(CellId, CellEvent),
    /// Lets a cell go: waits for its events (up to `grace`), then discards the JS object.
    Evict {
        /// Which cell.
        cell: CellId,
        /// What error its unfinished events get after `grace`.
        reason: EventError,
        /// How long unfinished events may go on.
        grace: Duration,
        /// What is left of it.
        reply: Reply<CellRemains>,
    },
    /// The cell has had no event for a while: closes its database, and drops its object unless
    /// something holds it. The cell stays; its next event finds both again.
    Rest {
        /// Which cell.
        cell: CellId,
    },
    /// Takes a snapshot of a resident cell without disturbing it.
    Checkpoint {
        /// Which cell.
        cell: CellId,
        /// Its state.
        reply: Reply<CellRemains>,
    },
    /// Ends the host when its events are done, at the latest after `grace`.
    Shutdown {
        /// How long unfinished events may go on.
        grace: Duration,
    },
}

/// A cell's state as it leaves a host.
#[derive(Clone, Debug)]
pub struct CellRemains {
    /// Last commit.
    pub txid: Txid,
    /// Position of that commit in the node log; 0 when this residence wrote nothing.
    pub lsn: Lsn,
    /// Compressed snapshot at `txid`; `None` when this residence wrote nothing since the last one.
    pub snapshot: Option<Bytes>,
    /// Alarm that is set, in ms since the epoch. Meaningful only when `snapshot` is present.
    pub alarm_ms: Option<i64>,
}

/// One line of `console.*`, or an uncaught exception.
#[derive(Clone, Debug)]
pub struct ConsoleLine {
    /// `debug`, `log`, `info`, `warn`, `error`; `exception` for an uncaught one.
    pub level: &'static str,
    /// The text, formatted as Node formats it, without colours.
    pub text: String,
    /// Worker name.
    pub worker: String,
    /// The cell, for lines from a Durable Object: class name and id (or name, when known).
    pub cell: Option<(String, String)>,
    /// Method and URL of the request, or what else the event was.
    pub event: Option<String>,
}

/// One commit of one cell, to be made durable.
#[derive(Debug)]
pub struct Commit {
    /// Which cell.
    pub cell: CellId,
    /// Its ownership generation.
    pub epoch: Epoch,
    /// Number of this commit.
    pub txid: Txid,
    /// `ctx.id.name`, when it is known.
    pub name: Option<String>,
    /// The alarm that is set after this commit, in ms since the epoch.
    pub alarm_ms: Option<i64>,
    /// Changed pages, as `celld_storage` captured them.
    pub segment: Bytes,
}

/// Runs once its LSN is durable, or once it is known that it never will be.
pub type OnDurable = Box<dyn FnOnce(Result<(), EventError>) + Send>;

/// Everything outside an isolate. No method blocks.
pub trait World: Send + Sync + 'static {
    /// Delivers an event to a cell, wherever it is, waking it if need be. `name` is the name that
    /// the id was made from, when the caller knows it. Events from one caller stay in order.
    fn send_to_cell(&self, cell: &CellId, name: Option<&str>, event: CellEvent);

    /// Delivers an event to a Worker of this node (`None`: the same Worker and version as `from`).
    fn send_to_worker(&self, from: &Arc<WorkerCode>, worker: Option<&str>, event: WorkerEvent);

    /// Sends a request out into the world.
    fn fetch(&self, request: HttpRequest, reply: Reply<HttpResponse>);

    /// Appends a commit to the node log.
    fn append(&self, commit: Commit) -> Lsn;

    /// Everything up to here is proven. A plain atomic load.
    fn durable(&self) -> Lsn;

    /// Calls back when `lsn` is proven; at once if it is already.
    fn when_durable(&self, lsn: Lsn, then: OnDurable);

    /// Pumps a hibernatable socket's incoming messages to its cell from here on
    /// (see [`crate::socket_pump`]).
    fn adopt_socket(&self, cell: &CellId, socket: Arc<CellSocket>, incoming: SocketReceiver);

    /// Takes a console line.
    fn console(&self, line: ConsoleLine);

    /// The host's isolate is lost (heap limit, terminated for good, panic): its cells and events are gone.
    fn host_lost(&self, host: HostId, why: EventError);

    /// A cell's constructor failed or the object was reset: it is no longer resident.
    fn cell_lost(&self, host: HostId, cell: &CellId);

    /// A cell broke a limit of its host, and was reset for it; or its host is about to be lost for it.
    fn limit_broken(&self, cell: &CellId, limit: CellLimit);

    /// How busy the host is: called when it goes idle and when events pile up.
    fn host_load(&self, host: HostId, waiting_events: usize);
}

/// Convenience for tests and callers that hold a socket end: an answer with a WebSocket.
pub fn switching_protocols(socket: SocketEnd) -> HttpResponse {
    HttpResponse {
        status: http::StatusCode::SWITCHING_PROTOCOLS,
        status_text: None,
        headers: http::HeaderMap::new(),
        body: Body::Empty,
        websocket: Some(socket),
        body_is_encoded: false,
        url: None,
    }
}

impl WorkerCode {
    /// True when a compatibility flag is off: its default date lies after the Worker's date and
    /// it is not enabled by name, or it is disabled by name.
    pub fn lacks_flag(&self, date: &str, enable: &str, disable: &str) -> bool {
        let named = |name: &str| self.compatibility_flags.iter().any(|flag| flag == name);
        named(disable) || (self.compatibility_date.as_str() < date && !named(enable))
    }
}
