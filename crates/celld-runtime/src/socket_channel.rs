//! The channel between the two ends of a WebSocket.
//!
//! A channel reserves room for 32 messages from the start. The messages lie behind pointers, so
//! that this room is a quarter of a kilobyte: most sockets of a hibernating object never need more.

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::socket::SocketMessage;

/// The other end is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other end of the WebSocket is gone")]
pub struct Gone;

/// Why a message cannot be sent at once.
#[derive(Debug, PartialEq, Eq)]
pub enum NotSent {
    /// There is no room; the message comes back.
    Full(SocketMessage),
    /// The other end is gone.
    Gone,
}

/// Sends to the other end.
#[derive(Clone, Debug)]
pub struct SocketSender(mpsc::Sender<Box<SocketMessage>>);

/// Receives from the other end.
#[derive(Debug)]
pub struct SocketReceiver(mpsc::Receiver<Box<SocketMessage>>);

/// A channel with room for `messages`.
pub fn socket_channel(messages: usize) -> (SocketSender, SocketReceiver) {
    let (sender, receiver) = mpsc::channel(messages);
    (SocketSender(sender), SocketReceiver(receiver))
}

impl SocketSender {
    /// Sends a message, waiting for room.
    pub async fn send(&self, message: SocketMessage) -> Result<(), Gone> {
        self.0.send(Box::new(message)).await.map_err(|_| Gone)
    }

    /// Sends a message if there is room.
    pub fn try_send(&self, message: SocketMessage) -> Result<(), NotSent> {
        self.0
            .try_send(Box::new(message))
            .map_err(|error| match error {
                TrySendError::Full(message) => NotSent::Full(*message),
                TrySendError::Closed(_) => NotSent::Gone,
            })
    }

    /// Sends a message once there is room for `messages`; at most for as many as fit.
    pub async fn send_with_room(
        &self,
        messages: usize,
        message: SocketMessage,
    ) -> Result<(), Gone> {
        let messages = messages.clamp(1, self.0.max_capacity());
        let mut room = self.0.reserve_many(messages).await.map_err(|_| Gone)?;
        if let Some(place) = room.next() {
            place.send(Box::new(message));
        }
        Ok(())
    }

    /// Completes when the other end is gone.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

impl SocketReceiver {
    /// The next message; `None` when the other end is gone.
    pub async fn recv(&mut self) -> Option<SocketMessage> {
        self.0.recv().await.map(|message| *message)
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
