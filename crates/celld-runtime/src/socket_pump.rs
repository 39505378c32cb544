//! Carries messages from a hibernatable socket to its cell, answering auto-responses on the way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use celld_core::CellId;

use crate::api::{CellEvent, World};
use crate::socket::{CUT, CellSocket, Ending, GOT_CLOSE, SocketMessage};
use crate::socket_channel::SocketReceiver;

/// Runs until the connection ends. Auto-responses touch neither the core nor V8, and they do
/// not wait at the output gate.
pub async fn pump(
    world: Arc<dyn World>,
    cell: CellId,
    socket: Arc<CellSocket>,
    mut incoming: SocketReceiver,
) {
    loop {
        let message = SocketMessage::arrived(incoming.recv().await);
        if let Some(SocketMessage::Text(text)) = &message
            && let Some(answer) = auto_response(&socket, text)
        {
            socket.auto_response_ms.store(now_ms(), Ordering::Relaxed);
            let _ = socket.outgoing.send(SocketMessage::Text(answer)).await;
            continue;
        }
        if socket.closing.load(Ordering::Relaxed) & CUT != 0 {
            // The object was reset: its successor knows nothing of this socket.
            return;
        }
        let ended = message.as_ref().is_none_or(SocketMessage::is_end);
        if ended {
            socket.closing.fetch_or(GOT_CLOSE, Ordering::Relaxed);
        }
        // A socket that is going stays listed until its handler has heard of it.
        let ending = ended.then(|| Ending::of(&socket));
        world.send_to_cell(
            &cell,
            None,
            CellEvent::SocketMessage {
                socket: socket.clone(),
                message,
                ending,
            },
        );
        if ended {
            return;
        }
    }
}

fn auto_response(socket: &CellSocket, text: &str) -> Option<String> {
    let sockets = socket.home.upgrade()?;
    let pair = sockets.auto_response.lock();
    let (request, response) = pair.as_ref()?;
    (request == text).then(|| response.clone())
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
