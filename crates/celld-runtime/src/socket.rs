//! WebSockets as pairs of channel ends, and the sockets that a cell keeps while it hibernates.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::socket_channel::{NotSent, SocketReceiver, SocketSender, socket_channel};

/// Messages that wait in one direction before the sender is told to wait.
pub const SOCKET_CHANNEL_MESSAGES: usize = 1024;

/// Close code that is never on the wire. A [`SocketMessage::Close`] with it asks whoever holds
/// the connection to drop it without a close frame.
pub const ABNORMAL: u16 = 1006;
/// Bit of [`CellSocket::closing`]: the script has sent a close frame.
pub const SENT_CLOSE: u8 = 1;
/// Bit of [`CellSocket::closing`]: the client has sent a close frame, or is gone.
pub const GOT_CLOSE: u8 = 2;
/// Bit of [`CellSocket::closing`]: the object behind the socket was reset.
pub const CUT: u8 = 4;
/// Bit of [`CellSocket::closing`]: the handler is being told of the end.
pub const HEARD: u8 = 8;

/// What travels on a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketMessage {
    /// A text frame.
    Text(String),
    /// A binary frame.
    Binary(Bytes),
    /// A close frame. `None` is a close frame without a code (1005 at the receiver).
    Close(Option<CloseFrame>),
    /// The peer broke the protocol and is being told so; nothing follows. Says what was wrong.
    Failure(String),
}

/// Code and reason of a close frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseFrame {
    /// Status code as sent on the wire.
    pub code: u16,
    /// At most 123 bytes of UTF-8.
    pub reason: String,
}

/// One end of a WebSocket. The peer's disappearance without a close frame ends `incoming`
/// without a [`SocketMessage::Close`]; the receiver reports 1006.
#[derive(Debug)]
pub struct SocketEnd {
    /// To the other end.
    pub outgoing: SocketSender,
    /// From the other end.
    pub incoming: SocketReceiver,
}

/// Most bytes that wait for a client beyond its channel.
const SPILL_MAX_BYTES: usize = 64 << 20;

/// Messages of a script that its client has not taken yet and that its channel has no room for.
///
/// Scripts do not wait when they send. A client that falls behind by more than 64 MiB loses its
/// connection; nothing is ever left out of the middle of a conversation.
#[derive(Debug, Default)]
pub struct Spill(Mutex<Spilled>);

#[derive(Debug, Default)]
struct Spilled {
    waiting: std::collections::VecDeque<SocketMessage>,
    bytes: usize,
    /// A task carries `waiting` over.
    draining: bool,
    /// The connection was given up.
    cut: bool,
}

impl Spill {
    /// Sends a message behind all those before it.
    pub fn send(
        self: &Arc<Self>,
        outgoing: &SocketSender,
        message: SocketMessage,
        tokio: &tokio::runtime::Handle,
    ) {
        let mut state = self.0.lock();
        if state.cut {
            return;
        }
        let message = if state.draining {
            message
        } else {
            match outgoing.try_send(message) {
                Err(NotSent::Full(message)) => message,
                Ok(()) | Err(NotSent::Gone) => return,
            }
        };
        state.bytes += message.size_bytes();
        state.waiting.push_back(message);
        if state.bytes > SPILL_MAX_BYTES {
            state.give_up();
        }
        if !std::mem::replace(&mut state.draining, true) {
            tokio.spawn(self.clone().drain(outgoing.clone()));
        }
    }

    /// Ends the connection behind what the channel holds already.
    pub fn cut(self: &Arc<Self>, outgoing: &SocketSender, tokio: &tokio::runtime::Handle) {
        let mut state = self.0.lock();
        if state.cut {
            return;
        }
        state.give_up();
        if !std::mem::replace(&mut state.draining, true) {
            tokio.spawn(self.clone().drain(outgoing.clone()));
        }
    }

    async fn drain(self: Arc<Self>, outgoing: SocketSender) {
        loop {
            let next = {
                let mut state = self.0.lock();
                let next = state.waiting.pop_front();
                match &next {
                    Some(message) => state.bytes -= message.size_bytes().min(state.bytes),
                    None => state.draining = false,
                }
                next
            };
            let Some(message) = next else { return };
            if outgoing.send(message).await.is_err() {
                self.0.lock().cut = true;
                return;
            }
        }
    }
}

impl Spilled {
    fn give_up(&mut self) {
        self.cut = true;
        self.bytes = 0;
        self.waiting.clear();
        self.waiting
            .push_back(SocketMessage::Close(Some(CloseFrame {
                code: ABNORMAL,
                reason: String::new(),
            })));
    }
}

impl SocketMessage {
    /// Bytes of payload.
    fn size_bytes(&self) -> usize {
        match self {
            SocketMessage::Text(text) => text.len(),
            SocketMessage::Binary(data) => data.len(),
            SocketMessage::Close(_) | SocketMessage::Failure(_) => 0,
        }
    }

    /// What a message means to its receiver: the request to drop a connection is, at the other
    /// end, a lost connection.
    pub fn arrived(message: Option<Self>) -> Option<Self> {
        message.filter(|message| {
            !matches!(message, SocketMessage::Close(Some(close)) if close.code == ABNORMAL)
        })
    }

    /// True for what ends a conversation.
    pub fn is_end(&self) -> bool {
        matches!(self, SocketMessage::Close(_) | SocketMessage::Failure(_))
    }
}

impl CellSocket {
    /// Ends the connection abruptly: the client sees 1006, the cell hears no more of it.
    pub fn cut(&self, tokio: &tokio::runtime::Handle) {
        self.closing.fetch_or(CUT, Ordering::Relaxed);
        self.unlist();
        self.spill.cut(&self.outgoing, tokio);
    }

    /// Takes the socket off its cell's list.
    pub fn unlist(&self) {
        if let Some(home) = self.home.upgrade() {
            home.remove(self.id);
        }
    }

    /// What JavaScript is told of the closing handshake.
    pub fn handshake(&self) -> u32 {
        u32::from(self.closing.load(Ordering::Relaxed) & (SENT_CLOSE | GOT_CLOSE))
    }
}

/// Travels with the end of a socket. An end that no handler hears of, because the event is lost
/// on its way, takes the socket off the list too.
#[derive(Debug)]
pub struct Ending(Option<Arc<CellSocket>>);

impl Ending {
    /// For the last event of `socket`.
    pub fn of(socket: &Arc<CellSocket>) -> Self {
        Self(Some(socket.clone()))
    }

    /// The handler is told: what follows is its business.
    pub fn heard(mut self) {
        if let Some(socket) = self.0.take() {
            socket.closing.fetch_or(HEARD, Ordering::Relaxed);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(socket) = self.0.take() {
            socket.unlist();
        }
    }
}

/// Makes the two ends of a fresh WebSocket.
pub fn socket_pair() -> (SocketEnd, SocketEnd) {
    let (to_b, from_a) = socket_channel(SOCKET_CHANNEL_MESSAGES);
    let (to_a, from_b) = socket_channel(SOCKET_CHANNEL_MESSAGES);
    (
        SocketEnd {
            outgoing: to_b,
            incoming: from_b,
        },
        SocketEnd {
            outgoing: to_a,
            incoming: from_a,
        },
    )
}

/// A socket that its cell accepted with `ctx.acceptWebSocket`. The node keeps it, so that it
/// outlives the cell's residence in an isolate.
#[derive(Debug)]
pub struct CellSocket {
    /// Unique within the process.
    pub id: u64,
    /// At most 10 tags of at most 256 characters.
    pub tags: Vec<String>,
    /// What `serializeAttachment` stored: V8-serialized, at most 16,384 bytes.
    pub attachment: Mutex<Option<Bytes>>,
    /// To the client.
    pub outgoing: SocketSender,
    /// What does not fit into `outgoing` at once.
    pub spill: Arc<Spill>,
    /// When an auto-response was last sent, in ms since the epoch; 0 for never.
    pub auto_response_ms: AtomicU64,
    /// How far the closing handshake is: [`SENT_CLOSE`], [`GOT_CLOSE`], [`CUT`], [`HEARD`].
    pub closing: AtomicU8,
    /// The list that it is on.
    pub home: Weak<CellSockets>,
}

/// All hibernatable sockets of one cell, shared by its isolate and the tasks that pump them, and
/// what else outlives the cell's residence with them.
#[derive(Debug, Default)]
pub struct CellSockets {
    /// By id, and so in the order of acceptance.
    pub sockets: Mutex<BTreeMap<u64, Arc<CellSocket>>>,
    /// Request and response of `setWebSocketAutoResponse`.
    pub auto_response: Mutex<Option<(String, String)>>,
    /// How long a handler of a socket's event may take, in ms; 0 for as long as it wants.
    pub event_timeout_ms: AtomicU32,
    /// The name that the cell's id was made from, once it is known: a cell that never wrote has no
    /// record that could remember it.
    pub name: OnceLock<String>,
}

impl CellSockets {
    /// True when no socket is connected.
    pub fn is_empty(&self) -> bool {
        self.sockets.lock().is_empty()
    }

    /// Ends every connection abruptly, as when the object behind them is gone: clients see 1006.
    pub fn close_all(&self, tokio: &tokio::runtime::Handle) {
        let all = std::mem::take(&mut *self.sockets.lock());
        for socket in all.values() {
            socket.cut(tokio);
        }
    }

    /// Forgets a socket whose connection has ended.
    pub fn remove(&self, id: u64) {
        self.sockets.lock().remove(&id);
    }
}

/// The next process-wide socket id.
pub fn next_socket_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_beyond_the_channel_arrive_in_order() {
        let (near, mut far) = socket_pair();
        let spill = Arc::<Spill>::default();
        let tokio = tokio::runtime::Handle::current();
        let count = SOCKET_CHANNEL_MESSAGES * 3;
        for number in 0..count {
            spill.send(
                &near.outgoing,
                SocketMessage::Text(number.to_string()),
                &tokio,
            );
        }
        for number in 0..count {
            let expected = Some(SocketMessage::Text(number.to_string()));
            assert_eq!(far.incoming.recv().await, expected);
        }
    }

    #[tokio::test]
    async fn a_client_too_far_behind_loses_its_connection_not_a_message() {
        let (near, mut far) = socket_pair();
        let spill = Arc::<Spill>::default();
        let tokio = tokio::runtime::Handle::current();
        let message = SocketMessage::Binary(vec![0; 1 << 20].into());
        for _ in 0..SOCKET_CHANNEL_MESSAGES + 80 {
            spill.send(&near.outgoing, message.clone(), &tokio);
        }
        for _ in 0..SOCKET_CHANNEL_MESSAGES {
            assert_eq!(far.incoming.recv().await, Some(message.clone()));
        }
        let end = far.incoming.recv().await;
        assert!(
            matches!(&end, Some(SocketMessage::Close(Some(close))) if close.code == ABNORMAL),
            "{end:?}"
        );
    }
}
