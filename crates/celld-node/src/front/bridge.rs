//! Joins a WebSocket on the wire to a [`SocketEnd`].
//!
//! Two loops run in one task: one moves messages from the wire to the script, the other from
//! the script to the wire, each no faster than its receiver. Close frames pass through as
//! messages; whoever is behind the [`SocketEnd`] answers them. When the network goes away
//! without a close frame the bridge just lets go of its end.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use celld_runtime::socket::{ABNORMAL, CloseFrame, SocketEnd, SocketMessage};
use celld_runtime::socket_channel::{SocketReceiver, SocketSender};
pub(crate) use fastwebsockets::Role;
use fastwebsockets::{Frame, OpCode, Payload, WebSocketError, WebSocketRead, WebSocketWrite};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::{mpsc, watch};

use super::Phase;
use super::masked::{BadFrame, MaskChecked};

/// Bytes of outgoing frames that are gathered before they are written.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;
/// Frames written in a row before a flush, so that a busy sender does not delay delivery.
const FRAMES_PER_FLUSH: usize = 64;
/// Pongs that may wait for the writer. Further pings are left unread meanwhile.
const CONTROL_FRAMES: usize = 4;
/// A binary message up to this size is copied, so that it does not pin the read buffer.
const COPY_MAX_BYTES: usize = 4 * 1024;
/// Longest reason of a close frame, in bytes (RFC 6455, section 5.5: 125 with the code).
const REASON_MAX_BYTES: usize = 123;
/// Bytes that one slot of a message channel stands for. A message reserves as many free slots
/// as its size asks for, so that a channel of 1,024 messages holds at most about 64 MiB.
const BYTES_PER_SLOT: usize = 256;

/// Settings of one bridge.
#[derive(Clone)]
pub(crate) struct BridgeConfig {
    /// Largest message that is taken from the wire, in bytes.
    pub(crate) message_max_bytes: usize,
    /// How long the peer's close frame is awaited after ours.
    pub(crate) close_wait: Duration,
    /// Tells when the listener goes away; `None` for sockets that belong to no listener.
    pub(crate) phase: Option<watch::Receiver<Phase>>,
}

/// The value of `Sec-WebSocket-Accept` for a key.
pub(crate) fn accept_key(key: &[u8]) -> HeaderValue {
    use base64::Engine;
    use sha1::Digest;
    let mut hash = sha1::Sha1::new();
    hash.update(key);
    // RFC 6455, section 4.2.2.
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let text = base64::engine::general_purpose::STANDARD.encode(hash.finalize());
    HeaderValue::from_maybe_shared(Bytes::from(text))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Carries messages until both sides have closed, the network is lost, or the listener ends.
pub(crate) async fn run<S>(io: S, role: Role, end: SocketEnd, config: BridgeConfig)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, mut write) = tokio::io::split(io);
    let mut read = MaskChecked::new(read, role == Role::Server);
    let linger = config.close_wait;
    let violated = {
        let buffered = BufWriter::with_capacity(WRITE_BUFFER_BYTES, &mut write);
        let (mut reader, mut writer) =
            fastwebsockets::after_handshake_split(&mut read, buffered, role);
        reader.set_auto_close(false);
        // The library refuses a frame of exactly the limit.
        reader.set_max_message_size(config.message_max_bytes.saturating_add(1));
        // Vectored writes would go around the buffer and cost a system call per frame.
        writer.set_writev_threshold(WRITE_BUFFER_BYTES);
        join(reader, writer, end, config).await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), write.shutdown()).await;
    if violated {
        // A connection that is closed while its peer still sends is reset, and the peer never sees
        // the close frame that tells it why.
        let _ = tokio::time::timeout(linger, discard(read.into_inner())).await;
    }
}

/// Reads and forgets.
async fn discard<R: AsyncRead + Unpin>(mut read: R) {
    let mut scratch = vec![0; WRITE_BUFFER_BYTES];
    while matches!(read.read(&mut scratch).await, Ok(count) if count > 0) {}
}

/// What one side has seen of the closing handshake.
#[derive(Default)]
struct Closing {
    by_peer: AtomicBool,
    by_us: AtomicBool,
}

/// Frames that the reader owes the peer.
enum Control {
    Pong(Bytes),
    /// A violation of the protocol, with the code that names it.
    Abort(u16),
}

/// How the reading loop ended.
#[derive(Debug, PartialEq, Eq)]
enum ReadEnd {
    /// The peer is gone, or both sides have closed.
    Over,
    /// The peer broke the protocol; it is told so by the writer.
    Violation,
}

/// How the writing loop ended.
#[derive(PartialEq, Eq)]
enum WriteEnd {
    /// A close frame has been sent.
    Closed,
    /// The network is gone, or the script is gone without a close frame.
    Over,
}

/// Runs both loops. True when the peer broke the protocol.
async fn join<R, W>(
    reader: WebSocketRead<R>,
    writer: WebSocketWrite<W>,
    end: SocketEnd,
    config: BridgeConfig,
) -> bool
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let closing = Closing::default();
    let (control, controls) = mpsc::channel(CONTROL_FRAMES);
    let mut reading = pin!(read_loop(
        reader,
        end.outgoing,
        control,
        &closing,
        config.message_max_bytes
    ));
    let mut writing = pin!(write_loop(
        writer,
        end.incoming,
        controls,
        &closing,
        config.phase
    ));
    tokio::select! {
        read = &mut reading => {
            if read == ReadEnd::Violation {
                let _ = tokio::time::timeout(config.close_wait, writing).await;
            }
            read == ReadEnd::Violation
        }
        wrote = &mut writing => {
            if wrote == WriteEnd::Closed && !closing.by_peer.load(Ordering::Relaxed) {
                let read = tokio::time::timeout(config.close_wait, reading).await;
                return read == Ok(ReadEnd::Violation);
            }
            false
        }
    }
}

/// Moves messages from the wire to the script.
async fn read_loop<R: AsyncRead + Unpin>(
    mut reader: WebSocketRead<R>,
    outgoing: SocketSender,
    control: mpsc::Sender<Control>,
    closing: &Closing,
    message_max_bytes: usize,
) -> ReadEnd {
    let mut message = Message::new(message_max_bytes);
    // The library answers nothing but pings here.
    let mut answer = |frame: Frame<'_>| {
        let pong = Control::Pong(Bytes::copy_from_slice(&frame.payload));
        let control = control.clone();
        async move {
            // A writer that has ended owes no pongs any more.
            let _ = control.send(pong).await;
            Ok::<(), WebSocketError>(())
        }
    };
    loop {
        let took = match reader.read_frame(&mut answer).await {
            Ok(frame) => message.take(frame),
            Err(error) => match violation(&error) {
                Some(code) => Err(code),
                None => return ReadEnd::Over,
            },
        };
        match took {
            Ok(None) => {}
            Ok(Some(SocketMessage::Close(frame))) => {
                closing.by_peer.store(true, Ordering::Relaxed);
                let _ = outgoing.send(SocketMessage::Close(frame)).await;
                if closing.by_us.load(Ordering::Relaxed) {
                    return ReadEnd::Over;
                }
                // The script answers in its own time; until then only the end of the
                // connection is of interest.
                drop(outgoing);
                let mut ignore = |_: Frame<'_>| std::future::ready(Ok::<(), WebSocketError>(()));
                while reader.read_frame(&mut ignore).await.is_ok() {}
                return ReadEnd::Over;
            }
            Ok(Some(message)) => deliver(&outgoing, message).await,
            Err(code) => {
                let _ = control.send(Control::Abort(code)).await;
                let _ = outgoing.send(SocketMessage::Failure(failure(code))).await;
                return ReadEnd::Violation;
            }
        }
    }
}

/// Hands a message to the script, waiting for as much room as its size asks for. A script that
/// no longer listens loses the message, as it would in a browser.
async fn deliver(outgoing: &SocketSender, message: SocketMessage) {
    let bytes = match &message {
        SocketMessage::Text(text) => text.len(),
        SocketMessage::Binary(data) => data.len(),
        SocketMessage::Close(_) | SocketMessage::Failure(_) => 0,
    };
    let _ = outgoing
        .send_with_room(bytes / BYTES_PER_SLOT, message)
        .await;
}

/// The close code that answers a violation; `None` for a lost connection.
fn violation(error: &WebSocketError) -> Option<u16> {
    match error {
        WebSocketError::IoError(error) => {
            let wrong = error.get_ref().is_some_and(|inner| inner.is::<BadFrame>());
            wrong.then_some(1002)
        }
        WebSocketError::UnexpectedEOF
        | WebSocketError::ConnectionClosed
        | WebSocketError::SendError(_)
        | WebSocketError::HTTPError(_) => None,
        WebSocketError::InvalidUTF8 => Some(1007),
        WebSocketError::FrameTooLarge => Some(1009),
        _ => Some(1002),
    }
}

/// What a script is told of a violation, in the words of the reference runtime.
fn failure(code: u16) -> String {
    let what = match code {
        1007 => "Text is not UTF-8",
        1009 => "Message is too large",
        _ => "Bad frame",
    };
    format!(
        "WebSocket protocol error; protocolError.statusCode = {code}; protocolError.description = {what}"
    )
}

/// The part of a close reason that fits into a frame.
fn fitting(reason: &str) -> &str {
    let end = (0..=REASON_MAX_BYTES.min(reason.len()))
        .rev()
        .find(|at| reason.is_char_boundary(*at));
    &reason[..end.unwrap_or(0)]
}

/// Puts fragments together. The limit holds for the whole message.
struct Message {
    max_bytes: usize,
    /// Kind and bytes of a message whose last fragment has not come.
    partial: Option<(OpCode, Vec<u8>)>,
}

impl Message {
    fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            partial: None,
        }
    }

    /// Takes a frame, and gives the message that it completes or the close code that it deserves.
    fn take(&mut self, frame: Frame<'_>) -> Result<Option<SocketMessage>, u16> {
        match frame.opcode {
            OpCode::Close => close_message(&frame.payload).map(Some),
            OpCode::Ping | OpCode::Pong => Ok(None),
            OpCode::Text | OpCode::Binary => {
                if self.partial.is_some() {
                    return Err(1002);
                }
                if !frame.fin {
                    self.partial = Some((frame.opcode, frame.payload.to_vec()));
                    return Ok(None);
                }
                match frame.opcode {
                    OpCode::Text => text_message(frame.payload.to_vec()).map(Some),
                    _ => Ok(Some(SocketMessage::Binary(owned(frame.payload)))),
                }
            }
            OpCode::Continuation => {
                let (_, bytes) = self.partial.as_mut().ok_or(1002u16)?;
                if bytes.len() + frame.payload.len() > self.max_bytes {
                    return Err(1009);
                }
                bytes.extend_from_slice(&frame.payload);
                if !frame.fin {
                    return Ok(None);
                }
                match self.partial.take() {
                    Some((OpCode::Text, bytes)) => text_message(bytes).map(Some),
                    Some((_, bytes)) => Ok(Some(SocketMessage::Binary(bytes.into()))),
                    None => Ok(None),
                }
            }
        }
    }
}

fn text_message(bytes: Vec<u8>) -> Result<SocketMessage, u16> {
    String::from_utf8(bytes)
        .map(SocketMessage::Text)
        .map_err(|_| 1007)
}

fn owned(payload: Payload<'_>) -> Bytes {
    match payload {
        Payload::Bytes(bytes) if bytes.len() > COPY_MAX_BYTES => BytesMut::freeze(bytes),
        Payload::Owned(bytes) => bytes.into(),
        payload => Bytes::copy_from_slice(&payload),
    }
}

/// Reads a close frame; the codes that must not travel are refused (RFC 6455, section 7.4).
fn close_message(payload: &[u8]) -> Result<SocketMessage, u16> {
    let (code, reason) = match payload {
        [] => return Ok(SocketMessage::Close(None)),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        [_] => return Err(1002),
    };
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(1002);
    }
    let reason = std::str::from_utf8(reason).map_err(|_| 1007u16)?.to_owned();
    Ok(SocketMessage::Close(Some(CloseFrame { code, reason })))
}

/// Moves messages from the script to the wire.
async fn write_loop<W: AsyncWrite + Unpin>(
    mut writer: WebSocketWrite<W>,
    mut incoming: SocketReceiver,
    mut controls: mpsc::Receiver<Control>,
    closing: &Closing,
    mut phase: Option<watch::Receiver<Phase>>,
) -> WriteEnd {
    let mut unflushed = 0;
    loop {
        if unflushed >= FRAMES_PER_FLUSH
            || (unflushed > 0 && incoming.is_empty() && controls.is_empty())
        {
            if writer.flush().await.is_err() {
                return WriteEnd::Over;
            }
            unflushed = 0;
        }
        let frame = tokio::select! {
            biased;
            () = leaving(&mut phase) => Frame::close(1001, b"The server is shutting down."),
            // Once the reader has ended it owes the peer nothing, and this branch rests.
            Some(control) = controls.recv() => match control {
                Control::Pong(payload) => Frame::pong(Payload::Owned(payload.to_vec())),
                Control::Abort(code) => Frame::close(code, b""),
            },
            message = incoming.recv() => match message {
                Some(message) if !is_abnormal(&message) => frame_of(message),
                // The object behind the socket is gone: so is the connection, behind what was said.
                _ => {
                    let _ = writer.flush().await;
                    return WriteEnd::Over;
                }
            },
        };
        let is_close = frame.opcode == OpCode::Close;
        if is_close {
            closing.by_us.store(true, Ordering::Relaxed);
        }
        if writer.write_frame(frame).await.is_err() {
            return WriteEnd::Over;
        }
        unflushed += 1;
        if is_close {
            return if writer.flush().await.is_ok() {
                WriteEnd::Closed
            } else {
                WriteEnd::Over
            };
        }
    }
}

/// True for the request to drop the connection without a close frame.
fn is_abnormal(message: &SocketMessage) -> bool {
    matches!(message, SocketMessage::Close(Some(close)) if close.code == ABNORMAL)
}

/// Completes when the listener stops serving.
async fn leaving(phase: &mut Option<watch::Receiver<Phase>>) {
    match phase {
        // A listener that is dropped is gone too.
        Some(phase) => drop(phase.wait_for(|phase| *phase != Phase::Serving).await),
        None => std::future::pending().await,
    }
}

fn frame_of(message: SocketMessage) -> Frame<'static> {
    match message {
        SocketMessage::Text(text) => Frame::text(Payload::Owned(text.into_bytes())),
        SocketMessage::Binary(data) => Frame::binary(match data.try_into_mut() {
            Ok(unique) => Payload::Bytes(unique),
            Err(shared) => Payload::Owned(shared.to_vec()),
        }),
        SocketMessage::Close(None) => Frame::close_raw(Payload::Owned(Vec::new())),
        SocketMessage::Close(Some(close)) => {
            Frame::close(close.code, fitting(&close.reason).as_bytes())
        }
        SocketMessage::Failure(_) => Frame::close(1002, b""),
    }
}

#[cfg(test)]
mod tests;
