//! What an isolate host knows: its cells, its events, its open channels.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use celld_core::{CellId, Lsn, NamespaceKey, ObjectId};
use celld_storage::CellDb;
use futures::future::{AbortHandle, LocalBoxFuture};
use futures::stream::FuturesUnordered;

use crate::api::{AlarmOutcome, CellImage, CellRemains, Commit, HostConfig};
use crate::exchange::{Answer, BodySender, BodyStream, EventError, HttpResponse, Reply};
use crate::gates::{Outbox, Output};
use crate::rpc::frame::{Cap, Frame, Payload};
use crate::rpc::session::{Ready, SessionEnd};
use crate::socket::{CellSocket, SocketEnd};

/// Who waits for an event's outcome.
pub enum Waiter {
    /// A request.
    Fetch(Reply<HttpResponse>),
    /// A remote call.
    Rpc(Arc<SessionEnd>),
    /// The alarm scheduler; with the number of failed attempts before this one.
    Alarm(Reply<AlarmOutcome>, u32),
    /// The scheduler of cron triggers.
    Scheduled(Reply<()>),
    /// Nobody: socket messages.
    Nobody,
}

impl Waiter {
    /// Tells the waiting side that the event failed.
    pub fn fail(self, error: EventError) {
        match self {
            Waiter::Fetch(reply) => reply.send(Err(error)),
            Waiter::Rpc(session) => session.close(Some(error)),
            Waiter::Alarm(reply, _) => reply.send(Err(error)),
            Waiter::Scheduled(reply) => reply.send(Err(error)),
            Waiter::Nobody => {}
        }
    }
}

/// An event in progress.
pub struct Event {
    /// Who waits; `None` once answered.
    pub waiter: Option<Waiter>,
    /// The cell that handles it.
    pub cell: Option<CellId>,
    /// That cell's instance.
    pub slot: u32,
    /// CPU time that it has used, for events of stateless Workers.
    pub spent: Duration,
    /// RPC sessions that end with it; those of cells end with the instance.
    pub sessions: HashSet<u32>,
}

/// This isolate's end of an RPC session.
pub struct RpcSession {
    /// The end.
    pub end: Arc<SessionEnd>,
    /// The instance it belongs to; 0 in a stateless Worker.
    pub slot: u32,
    /// The stateless event it belongs to; 0 when it belongs to an instance.
    pub event: u32,
    /// Calls made on it that have no answer yet.
    pub questions: u32,
    /// References to exports that the other side holds.
    pub exported: u32,
}

impl RpcSession {
    /// True while the other side may still have something to say that wakes this one.
    pub fn is_live(&self) -> bool {
        self.questions > 0 || self.exported > 0
    }

    /// Counts what a frame that is sent asks for and gives away.
    pub fn note_sent(&mut self, frame: &Frame) {
        let payload = match frame {
            Frame::Call { arguments, .. } => {
                self.questions += 1;
                arguments.as_ref()
            }
            Frame::Return { payload, .. } => Some(payload),
            Frame::Throw { .. } | Frame::Release { .. } | Frame::Finish { .. } => None,
        };
        if let Some(Payload { caps, .. }) = payload {
            let given = caps.iter().filter(|cap| matches!(cap, Cap::Export(_)));
            self.exported += given.count() as u32;
        }
    }

    /// Counts what a frame that arrived answers and gives back.
    pub fn note_taken(&mut self, frame: &Frame) {
        match frame {
            Frame::Return { .. } | Frame::Throw { .. } => {
                self.questions = self.questions.saturating_sub(1);
            }
            Frame::Release { count, .. } => self.exported = self.exported.saturating_sub(*count),
            Frame::Call { .. } | Frame::Finish { .. } => {}
        }
    }
}

/// A WebSocket end that scripts hold.
pub enum SocketState {
    /// An end of a pair, or of an outgoing connection.
    Plain {
        /// The channels; `incoming` is away while a read is under way.
        outgoing: crate::socket_channel::SocketSender,
        /// What does not fit into `outgoing` at once.
        spill: Arc<crate::socket::Spill>,
        /// See above.
        incoming: Option<crate::socket_channel::SocketReceiver>,
    },
    /// A socket that its cell accepted for hibernation.
    Hibernatable(Arc<CellSocket>),
}

impl From<SocketEnd> for SocketState {
    fn from(end: SocketEnd) -> Self {
        SocketState::Plain {
            outgoing: end.outgoing,
            spill: Arc::default(),
            incoming: Some(end.incoming),
        }
    }
}

/// A request to let a cell go, once its events are done.
pub struct Eviction {
    /// Who waits for the remains.
    pub reply: Reply<CellRemains>,
    /// What its unfinished events get at `deadline`.
    pub reason: EventError,
    /// When patience ends.
    pub deadline: Instant,
}

/// A resident cell.
pub struct Cell {
    /// How it came here. Snapshot and tail are taken out when the database is opened.
    pub image: CellImage,
    /// Its database, once something touched it.
    pub db: Option<CellDb>,
    /// Its current instance; 0 when there is none.
    pub slot: u32,
    /// Outputs that wait for proofs.
    pub outbox: Arc<Outbox>,
    /// Outputs made since the last commit, while there is something to commit.
    pub staged: Vec<Output>,
    /// Position of its last commit.
    pub last_lsn: Lsn,
    /// It committed something that no snapshot holds yet.
    pub wrote: bool,
    /// Events in progress.
    pub events: usize,
    /// CPU time that it has used since its last event began.
    pub spent: Duration,
    /// A transaction that may span turns is open: what is written belongs to it, and outputs
    /// wait only for what was committed before.
    pub spanning: bool,
    /// Time that the alarm had when its handler, which runs, was started.
    pub alarm_running: Option<i64>,
    /// That handler set or deleted the alarm.
    pub alarm_changed: bool,
    /// Its constructor failed: events that were sent before this count fail likewise.
    pub not_constructed: Option<(u32, EventError)>,
    /// Set once the node wants it back.
    pub eviction: Option<Eviction>,
}

/// A namespace that bindings refer to by number.
pub struct Namespace {
    /// Its key.
    pub key: NamespaceKey,
    /// The key of its ids' authentication codes.
    pub mac_key: [u8; 32],
}

/// What a call that left the isolate came back with.
pub enum CallAnswer {
    /// To a request.
    Response(Box<HttpResponse>),
    /// To what has no result.
    Done,
}

/// The outcome of a call, with the number by which JavaScript knows it.
pub type CallDone = (u32, Result<CallAnswer, EventError>);

/// State of one isolate host. Lives in `OpState`; all of it belongs to the host's thread.
pub struct HostState {
    /// How the host was started.
    pub config: HostConfig,
    /// Whose time it is that passes in JavaScript.
    pub meter: crate::meter::Meter,
    /// Through which the watchdog sees this host.
    pub watched: Option<Arc<crate::watch::Watched>>,
    /// Source of numbers for everything below.
    next_id: u32,
    /// `next_id` has passed its largest value once.
    ids_came_round: bool,
    /// Bodies that JavaScript may read.
    pub bodies: HashMap<u32, BodyStream>,
    /// Reading ends of bodies that JavaScript writes, until they are sent off.
    pub unsent: HashMap<u32, BodyStream>,
    /// Bodies that JavaScript writes.
    pub sinks: HashMap<u32, BodySender>,
    /// WebSockets.
    pub sockets: HashMap<u32, SocketState>,
    /// Numbers of hibernatable sockets, by their process-wide id.
    pub socket_numbers: HashMap<u64, u32>,
    /// RPC sessions.
    pub sessions: HashMap<u32, RpcSession>,
    /// Which of them have news.
    pub ready: Arc<Ready>,
    /// Sessions that ended without JavaScript's doing, until it is told.
    pub orphans: Vec<u32>,
    /// Events in progress.
    pub events: HashMap<u32, Event>,
    /// Resident cells.
    pub cells: HashMap<CellId, Cell>,
    /// Instances.
    pub slots: HashMap<u32, CellId>,
    /// Cells that may have something to commit or to let go at the end of this turn.
    pub touched: Vec<CellId>,
    /// Instances whose input gate opened while events wait at it.
    pub wakes: VecDeque<u32>,
    /// Instances that ended during this turn, with the error of their events.
    pub resets: Vec<(u32, EventError)>,
    /// Namespaces by number.
    pub namespaces: Vec<Namespace>,
    /// Calls under way.
    pub calls: FuturesUnordered<LocalBoxFuture<'static, Option<CallDone>>>,
    /// Set when `calls` got a new one, which has to be polled once.
    pub calls_added: bool,
    /// Cells that the node wants back.
    pub evicting: Vec<CellId>,
    /// Calls that can still be cancelled.
    pub cancels: HashMap<u32, AbortHandle>,
}

impl HostState {
    /// An empty host.
    pub fn new(config: HostConfig, namespaces: Vec<Namespace>) -> Self {
        Self {
            config,
            meter: Default::default(),
            watched: None,
            next_id: 0,
            ids_came_round: false,
            bodies: HashMap::new(),
            unsent: HashMap::new(),
            sinks: HashMap::new(),
            sockets: HashMap::new(),
            socket_numbers: HashMap::new(),
            sessions: HashMap::new(),
            ready: Arc::default(),
            orphans: Vec::new(),
            events: HashMap::new(),
            cells: HashMap::new(),
            slots: HashMap::new(),
            touched: Vec::new(),
            wakes: VecDeque::new(),
            resets: Vec::new(),
            namespaces,
            calls: FuturesUnordered::new(),
            calls_added: false,
            evicting: Vec::new(),
            cancels: HashMap::new(),
        }
    }

    /// A number that nothing in this host has had before. Never 0.
    pub fn fresh_id(&mut self) -> u32 {
        // Numbers come round after four thousand million: 0 means "none", and one that is still
        // in use must not be given twice.
        loop {
            let (next, wrapped) = self.next_id.overflowing_add(1);
            self.next_id = next;
            self.ids_came_round |= wrapped;
            if next != 0 && !(self.ids_came_round && self.is_in_use(next)) {
                return next;
            }
        }
    }

    fn is_in_use(&self, id: u32) -> bool {
        self.events.contains_key(&id)
            || self.slots.contains_key(&id)
            || self.sockets.contains_key(&id)
            || self.bodies.contains_key(&id)
            || self.sinks.contains_key(&id)
            || self.cancels.contains_key(&id)
            || self.sessions.contains_key(&id)
    }

    /// The cell of an instance, when the instance is the current one.
    pub fn cell_of(&mut self, slot: u32) -> Option<&mut Cell> {
        let id = self.slots.get(&slot)?;
        self.cells.get_mut(id)
    }

    /// Notes that the turn's end has to look at a cell.
    pub fn touch(&mut self, slot: u32) {
        if let Some(id) = self.slots.get(&slot)
            && self.touched.last() != Some(id)
        {
            self.touched.push(id.clone());
        }
    }

    /// Lets `output` leave the instance `slot` (0: a stateless Worker, which nothing holds back).
    /// An instance that has ended sends nothing more.
    pub fn emit(&mut self, slot: u32, output: Output) {
        if slot == 0 {
            output(Ok(()));
            return;
        }
        let world = self.config.world.clone();
        let Some(cell) = self.cell_of(slot) else {
            output(Err(EventError::reset(
                "The Durable Object instance that sent this has ended.",
            )));
            return;
        };
        let dirty = !cell.spanning
            && cell
                .db
                .as_ref()
                .is_some_and(|db| db.is_dirty() || db.depth() > 0);
        if dirty || !cell.staged.is_empty() {
            cell.staged.push(output);
            self.touch(slot);
        } else {
            cell.outbox.send(cell.last_lsn, output, &*world);
        }
    }

    /// Takes part in an RPC session from here on, on behalf of an event or of an instance.
    pub fn join_session(&mut self, end: Arc<SessionEnd>, slot: u32, event: u32) -> u32 {
        let id = self.fresh_id();
        end.attach(&self.ready, id);
        let event = if slot == 0 { event } else { 0 };
        if let Some(event) = self.events.get_mut(&event) {
            event.sessions.insert(id);
        }
        let session = RpcSession {
            end,
            slot,
            event,
            questions: 0,
            exported: 0,
        };
        self.sessions.insert(id, session);
        id
    }

    /// Forgets a session; the caller decides what the other side is told.
    pub fn leave_session(&mut self, id: u32) -> Option<RpcSession> {
        let session = self.sessions.remove(&id)?;
        if let Some(event) = self.events.get_mut(&session.event) {
            event.sessions.remove(&id);
        }
        Some(session)
    }

    /// Sends a frame, once the output gate lets it out.
    pub fn say(&mut self, id: u32, frame: &Frame) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.note_sent(frame);
        let (end, slot) = (session.end.clone(), session.slot);
        let is_last = matches!(
            frame,
            Frame::Return { last: true, .. } | Frame::Throw { last: true, .. }
        );
        if is_last {
            self.leave_session(id);
        }
        let bytes = frame.encode();
        self.emit(
            slot,
            Box::new(move |gate| match gate {
                Ok(()) => {
                    end.send(bytes);
                    if is_last {
                        end.close(None);
                    }
                }
                Err(error) => end.close(Some(error)),
            }),
        );
    }

    /// Ends a session, behind what was said on it.
    pub fn hang_up(&mut self, id: u32) {
        if let Some(RpcSession { end, slot, .. }) = self.leave_session(id) {
            self.emit(slot, Box::new(move |gate| end.close(gate.err())));
        }
    }

    /// Commits before a transaction that may span turns, unless one is open already.
    pub fn begin_spanning(&mut self, slot: u32) -> Result<(), EventError> {
        let world = self.config.world.clone();
        if let Some(cell) = self.cell_of(slot)
            && cell.db.as_ref().is_none_or(|db| db.depth() == 0)
        {
            commit(cell, &*world)?;
            cell.spanning = true;
        }
        Ok(())
    }

    /// Notes the end of the outermost transaction.
    pub fn end_spanning(&mut self, slot: u32) {
        if let Some(cell) = self.cell_of(slot)
            && cell.db.as_ref().is_none_or(|db| db.depth() == 0)
        {
            cell.spanning = false;
        }
    }

    /// Starts to wait for a call's answer.
    pub fn wait_for<T: 'static>(
        &mut self,
        answer: Answer<T>,
        wrap: impl FnOnce(T) -> CallAnswer + 'static,
    ) -> u32 {
        let id = self.fresh_id();
        let (abort, registration) = AbortHandle::new_pair();
        self.cancels.insert(id, abort);
        let waiting = futures::future::Abortable::new(answer, registration);
        self.calls_added = true;
        self.calls.push(Box::pin(async move {
            waiting.await.ok().map(|answer| (id, answer.map(wrap)))
        }));
        id
    }

    /// Registers a body and describes it: number of the channel, declared length (-1: unknown).
    pub fn register_body(&mut self, stream: BodyStream) -> (u32, f64) {
        let id = self.fresh_id();
        let length = stream.length.map_or(-1.0, |length| length as f64);
        self.bodies.insert(id, stream);
        (id, length)
    }

    /// The number of a hibernatable socket.
    pub fn socket_number(&mut self, socket: &Arc<CellSocket>) -> u32 {
        if let Some(number) = self.socket_numbers.get(&socket.id) {
            return *number;
        }
        let number = self.fresh_id();
        self.socket_numbers.insert(socket.id, number);
        self.sockets
            .insert(number, SocketState::Hibernatable(socket.clone()));
        number
    }

    /// Commits what touched cells wrote in this turn, and sends their outputs on their way.
    pub fn commit_touched(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            let world = self.config.world.clone();
            let Some(cell) = self.cells.get_mut(&id) else {
                continue;
            };
            if cell.db.as_ref().is_some_and(|db| db.depth() > 0) {
                continue;
            }
            if let Err(error) = commit(cell, &*world) {
                let slot = cell.slot;
                self.resets.push((slot, error));
            }
        }
    }
}

/// Ends a cell's implicit transaction: its pages go to the node log, and what it has said since
/// then waits for their proof.
fn commit(cell: &mut Cell, world: &dyn crate::api::World) -> Result<(), EventError> {
    if let Some(db) = cell.db.as_mut().filter(|db| db.is_dirty()) {
        let committed = db.commit().map_err(|error| {
            EventError::reset(match error {
                celld_storage::StorageError::Violated(_) => error.to_string(),
                other => format!("Durable Object reset because a commit failed: {other}"),
            })
        })?;
        if let Some(committed) = committed {
            cell.last_lsn = world.append(Commit {
                cell: cell.image.cell.clone(),
                epoch: cell.image.epoch,
                txid: committed.txid,
                name: cell.image.name.clone(),
                alarm_ms: committed.alarm_ms,
                segment: committed.segment,
            });
            cell.image.txid = committed.txid;
            cell.wrote = true;
        }
    }
    for output in std::mem::take(&mut cell.staged) {
        cell.outbox.send(cell.last_lsn, output, world);
    }
    Ok(())
}

impl Namespace {
    /// A namespace with the key from which its ids are derived.
    pub fn new(key: NamespaceKey) -> Self {
        use sha2::{Digest, Sha256};
        let mac_key = Sha256::digest(key.as_str().as_bytes()).into();
        Self { key, mac_key }
    }

    fn mac(&self, data: &[u8]) -> [u8; 16] {
        use hmac::{Hmac, Mac};
        let mut mac = <Hmac<sha2::Sha256> as Mac>::new_from_slice(&self.mac_key)
            .expect("HMAC takes keys of any length");
        mac.update(data);
        let full = mac.finalize().into_bytes();
        let mut half = [0; 16];
        half.copy_from_slice(&full[..16]);
        half
    }

    fn complete(&self, base: [u8; 16]) -> ObjectId {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&base);
        bytes[16..].copy_from_slice(&self.mac(&base));
        ObjectId::from_bytes(bytes)
    }

    /// The id that belongs to a name.
    pub fn id_from_name(&self, name: &str) -> ObjectId {
        self.complete(self.mac(name.as_bytes()))
    }

    /// An id that nobody has had before. Its first bit is set: ids of names have it clear or set
    /// by chance, the authentication code tells the namespaces apart.
    pub fn unique_id(&self) -> Result<ObjectId, getrandom::Error> {
        let mut base = [0; 16];
        getrandom::fill(&mut base)?;
        Ok(self.complete(base))
    }

    /// True when this namespace made the id.
    pub fn owns(&self, id: &ObjectId) -> bool {
        let mut base = [0; 16];
        base.copy_from_slice(&id.as_bytes()[..16]);
        self.complete(base) == *id
    }
}
