//! Carries messages from a hibernatable socket to its cell, answering auto-responses on the way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use celld_core::CellId;
use tokio::sync::mpsc;

use crate::api::{CellEvent, World};
use crate::socket::{CLOSED, CellSocket, CellSockets, SocketMessage};

/// Runs until the connection ends. Auto-responses touch neither the core nor V8, and they do
/// not wait at the output gate.
pub async fn pump(
    world: Arc<dyn World>,
    cell: CellId,
    socket: Arc<CellSocket>,
    sockets: Arc<CellSockets>,
    mut incoming: mpsc::Receiver<SocketMessage>,
) {
    loop {
        let message = incoming.recv().await;
        if let Some(SocketMessage::Text(text)) = &message
            && let Some(answer) = auto_response(&sockets, text)
        {
            socket.auto_response_ms.store(now_ms(), Ordering::Relaxed);
            let _ = socket.outgoing.send(SocketMessage::Text(answer)).await;
            continue;
        }
        if socket.ready_state.load(Ordering::Relaxed) == CLOSED {
            // The object was reset: its successor knows nothing of this socket.
            return;
        }
        let ended = !matches!(
            message,
            Some(SocketMessage::Text(_) | SocketMessage::Binary(_))
        );
        if ended {
            // A socket that is going is no longer listed, but its close event still names it.
            sockets.remove(socket.id);
            socket
                .ready_state
                .store(if message.is_some() { 2 } else { 3 }, Ordering::Relaxed);
        }
        world.send_to_cell(
            &cell,
            None,
            CellEvent::SocketMessage {
                socket: socket.clone(),
                message,
            },
        );
        if ended {
            return;
        }
    }
}

fn auto_response(sockets: &CellSockets, text: &str) -> Option<String> {
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
