//! The messages of an RPC session, as bytes.
//!
//! A frame is a version, a kind, and the fields of that kind: numbers as LEB128, texts and byte
//! strings behind their length. Whoever reads one trusts nothing in it: counts are checked against
//! the bytes that are there before anything is allocated for them.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::exchange::{EventError, Limit};

/// First byte of every frame.
pub const VERSION: u8 = 1;
/// Longest property path of a call.
pub const PATH_MAX: usize = 1_024;
/// Most capabilities that one value may hold.
pub const CAPS_MAX: usize = 65_536;
const KIND_CALL: u8 = 1;
const KIND_RETURN: u8 = 2;
const KIND_THROW: u8 = 3;
const KIND_RELEASE: u8 = 4;
const KIND_FINISH: u8 = 5;

/// What a call is made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Something the receiver exported; 0 is what the session was opened to.
    Export(u32),
    /// The result of an earlier call of the sender, which may not be there yet.
    Answer(u32),
}

/// A value in V8's format, with the capabilities that it refers to by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The value.
    pub value: Bytes,
    /// Its capabilities.
    pub caps: Vec<Cap>,
}

/// A reference to something that does not travel itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cap {
    /// Lives at the sender, under this number of its export table.
    Export(u32),
    /// Lives at the receiver: its own export comes home.
    Import(u32),
    /// A Durable Object.
    Cell {
        /// Key of its namespace.
        namespace: String,
        /// Its id.
        object: [u8; 32],
        /// The name that the id was made from, if known.
        name: Option<String>,
    },
    /// An entrypoint.
    Worker {
        /// Name of the Worker.
        worker: String,
        /// Named export.
        entrypoint: Option<String>,
        /// `ctx.props`, as JSON text.
        props: Option<String>,
    },
}

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Calls a method, or reads a property.
    Call {
        /// Number of the question, chosen by the sender.
        question: u32,
        /// Where the path begins.
        target: Target,
        /// Property names; the last is the method.
        path: Vec<String>,
        /// Arguments (an array); `None` reads the property.
        arguments: Option<Payload>,
    },
    /// The result of a call.
    Return {
        /// The question it answers.
        question: u32,
        /// The sender has ended the session: nothing of it is left.
        last: bool,
        /// The value.
        payload: Payload,
    },
    /// A call failed.
    Throw {
        /// The question it answers.
        question: u32,
        /// As in `Return`.
        last: bool,
        /// Why.
        error: EventError,
    },
    /// References to an export of the receiver are no longer held.
    Release {
        /// Its number.
        export: u32,
        /// How many references.
        count: u32,
    },
    /// The sender makes no more calls on the result of a question of its own.
    Finish {
        /// The question.
        question: u32,
    },
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is shorter than its fields say.
    #[error("an RPC frame breaks off")]
    Short,
    /// It goes on behind its last field.
    #[error("an RPC frame has bytes behind its end")]
    Long,
    /// Another version.
    #[error("RPC frames of version {0} are not understood; this side speaks version {VERSION}")]
    Version(u8),
    /// A kind, a flag or a tag that does not exist.
    #[error("an RPC frame holds the unknown tag {0}")]
    Tag(u8),
    /// A number does not fit.
    #[error("an RPC frame holds a number that is out of range")]
    Number,
    /// A text is not UTF-8.
    #[error("an RPC frame holds text that is not UTF-8")]
    Text,
    /// A list is longer than its limit.
    #[error("an RPC frame holds a list of {0} entries, more than its limit")]
    List(usize),
}

impl Frame {
    /// Writes the frame.
    pub fn encode(&self) -> Bytes {
        let mut out = Writer(BytesMut::with_capacity(64 + self.value_bytes()));
        out.byte(VERSION);
        match self {
            Frame::Call {
                question,
                target,
                path,
                arguments,
            } => {
                out.byte(KIND_CALL);
                out.number(*question);
                let (tag, id) = match target {
                    Target::Export(id) => (0, id),
                    Target::Answer(id) => (1, id),
                };
                out.byte(tag);
                out.number(*id);
                out.length(path.len());
                path.iter().for_each(|name| out.text(name));
                out.byte(u8::from(arguments.is_some()));
                if let Some(payload) = arguments {
                    out.payload(payload);
                }
            }
            Frame::Return {
                question,
                last,
                payload,
            } => {
                out.byte(KIND_RETURN);
                out.number(*question);
                out.byte(u8::from(*last));
                out.payload(payload);
            }
            Frame::Throw {
                question,
                last,
                error,
            } => {
                out.byte(KIND_THROW);
                out.number(*question);
                out.byte(u8::from(*last));
                out.error(error);
            }
            Frame::Release { export, count } => {
                out.byte(KIND_RELEASE);
                out.number(*export);
                out.number(*count);
            }
            Frame::Finish { question } => {
                out.byte(KIND_FINISH);
                out.number(*question);
            }
        }
        out.0.freeze()
    }

    /// Reads a frame. Values are slices of `bytes`.
    pub fn decode(bytes: Bytes) -> Result<Self, FrameError> {
        let mut from = Reader(bytes);
        let version = from.byte()?;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let kind = from.byte()?;
        let frame = match kind {
            KIND_CALL => from.call()?,
            KIND_RETURN => Frame::Return {
                question: from.number()?,
                last: from.flag()?,
                payload: from.payload()?,
            },
            KIND_THROW => Frame::Throw {
                question: from.number()?,
                last: from.flag()?,
                error: from.error()?,
            },
            KIND_RELEASE => Frame::Release {
                export: from.number()?,
                count: from.number()?,
            },
            KIND_FINISH => Frame::Finish {
                question: from.number()?,
            },
            tag => return Err(FrameError::Tag(tag)),
        };
        if from.0.has_remaining() {
            return Err(FrameError::Long);
        }
        Ok(frame)
    }

    fn value_bytes(&self) -> usize {
        match self {
            Frame::Call {
                arguments: Some(payload),
                ..
            }
            | Frame::Return { payload, .. } => payload.value.len() + 16 * payload.caps.len(),
            Frame::Call { .. }
            | Frame::Throw { .. }
            | Frame::Release { .. }
            | Frame::Finish { .. } => 0,
        }
    }
}

struct Writer(BytesMut);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.put_u8(byte);
    }

    fn number(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// A length. Nothing of four gigabytes reaches this point: values end at 32 MiB.
    fn length(&mut self, length: usize) {
        self.number(u32::try_from(length).unwrap_or(u32::MAX));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.put_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.byte(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn payload(&mut self, payload: &Payload) {
        self.bytes(&payload.value);
        self.length(payload.caps.len());
        for cap in &payload.caps {
            self.cap(cap);
        }
    }

    fn cap(&mut self, cap: &Cap) {
        match cap {
            Cap::Export(id) => {
                self.byte(0);
                self.number(*id);
            }
            Cap::Import(id) => {
                self.byte(1);
                self.number(*id);
            }
            Cap::Cell {
                namespace,
                object,
                name,
            } => {
                self.byte(2);
                self.text(namespace);
                self.0.put_slice(object);
                self.optional(name.as_deref());
            }
            Cap::Worker {
                worker,
                entrypoint,
                props,
            } => {
                self.byte(3);
                self.text(worker);
                self.optional(entrypoint.as_deref());
                self.optional(props.as_deref());
            }
        }
    }

    /// The stack stays at home.
    fn error(&mut self, error: &EventError) {
        self.text(&error.name);
        self.text(&error.message);
        self.byte(u8::from(error.value.is_some()));
        if let Some(value) = &error.value {
            self.bytes(value);
        }
        let flags = [
            error.retryable,
            error.overloaded,
            error.durable_object_reset,
            error.breaks_stub,
        ];
        let bits = flags
            .iter()
            .enumerate()
            .map(|(at, set)| u8::from(*set) << at);
        self.byte(bits.sum());
        self.byte(match error.limit {
            None => 0,
            Some(Limit::Cpu) => 1,
            Some(Limit::Memory) => 2,
            Some(Limit::Concurrency) => 3,
            Some(Limit::Body) => 4,
        });
    }
}

struct Reader(Bytes);

impl Reader {
    fn byte(&mut self) -> Result<u8, FrameError> {
        self.0.try_get_u8().map_err(|_| FrameError::Short)
    }

    fn flag(&mut self) -> Result<bool, FrameError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(FrameError::Tag(tag)),
        }
    }

    fn number(&mut self) -> Result<u32, FrameError> {
        let mut value = 0u32;
        for shift in (0..).step_by(7).take(5) {
            let byte = self.byte()?;
            let part = u32::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(FrameError::Number);
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(FrameError::Number)
    }

    fn bytes(&mut self) -> Result<Bytes, FrameError> {
        let length = self.number()? as usize;
        if length > self.0.len() {
            return Err(FrameError::Short);
        }
        Ok(self.0.split_to(length))
    }

    fn text(&mut self) -> Result<String, FrameError> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| FrameError::Text)
    }

    fn optional(&mut self) -> Result<Option<String>, FrameError> {
        Ok(if self.flag()? {
            Some(self.text()?)
        } else {
            None
        })
    }

    /// How many entries follow. Each takes at least one byte, so more than there are bytes is a lie.
    fn list(&mut self, max: usize) -> Result<usize, FrameError> {
        let length = self.number()? as usize;
        if length > max {
            return Err(FrameError::List(length));
        }
        if length > self.0.len() {
            return Err(FrameError::Short);
        }
        Ok(length)
    }

    fn call(&mut self) -> Result<Frame, FrameError> {
        let question = self.number()?;
        let target = match (self.byte()?, self.number()?) {
            (0, id) => Target::Export(id),
            (1, id) => Target::Answer(id),
            (tag, _) => return Err(FrameError::Tag(tag)),
        };
        let names = self.list(PATH_MAX)?;
        let path = (0..names).map(|_| self.text()).collect::<Result<_, _>>()?;
        let arguments = if self.flag()? {
            Some(self.payload()?)
        } else {
            None
        };
        Ok(Frame::Call {
            question,
            target,
            path,
            arguments,
        })
    }

    fn payload(&mut self) -> Result<Payload, FrameError> {
        let value = self.bytes()?;
        let caps = self.list(CAPS_MAX)?;
        let caps = (0..caps).map(|_| self.cap()).collect::<Result<_, _>>()?;
        Ok(Payload { value, caps })
    }

    fn cap(&mut self) -> Result<Cap, FrameError> {
        Ok(match self.byte()? {
            0 => Cap::Export(self.number()?),
            1 => Cap::Import(self.number()?),
            2 => {
                let namespace = self.text()?;
                let mut object = [0; 32];
                if self.0.len() < object.len() {
                    return Err(FrameError::Short);
                }
                self.0.copy_to_slice(&mut object);
                let name = self.optional()?;
                Cap::Cell {
                    namespace,
                    object,
                    name,
                }
            }
            3 => Cap::Worker {
                worker: self.text()?,
                entrypoint: self.optional()?,
                props: self.optional()?,
            },
            tag => return Err(FrameError::Tag(tag)),
        })
    }

    fn error(&mut self) -> Result<EventError, FrameError> {
        let (name, message) = (self.text()?, self.text()?);
        let value = if self.flag()? {
            Some(self.bytes()?)
        } else {
            None
        };
        let flags = self.byte()?;
        if flags >= 16 {
            return Err(FrameError::Tag(flags));
        }
        let limit = match self.byte()? {
            0 => None,
            1 => Some(Limit::Cpu),
            2 => Some(Limit::Memory),
            3 => Some(Limit::Concurrency),
            4 => Some(Limit::Body),
            tag => return Err(FrameError::Tag(tag)),
        };
        Ok(EventError {
            name,
            message,
            stack: None,
            value,
            retryable: flags & 1 != 0,
            overloaded: flags & 2 != 0,
            durable_object_reset: flags & 4 != 0,
            breaks_stub: flags & 8 != 0,
            limit,
            // It matters to alarms alone, which are no calls.
            by_script: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cap() -> impl Strategy<Value = Cap> {
        let name = || proptest::option::of(".{0,12}");
        prop_oneof![
            any::<u32>().prop_map(Cap::Export),
            any::<u32>().prop_map(Cap::Import),
            (".{0,12}", any::<[u8; 32]>(), name()).prop_map(|(namespace, object, name)| {
                Cap::Cell {
                    namespace,
                    object,
                    name,
                }
            }),
            (".{0,12}", name(), name()).prop_map(|(worker, entrypoint, props)| Cap::Worker {
                worker,
                entrypoint,
                props,
            }),
        ]
    }

    fn value() -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from)
    }

    fn payload() -> impl Strategy<Value = Payload> {
        (value(), proptest::collection::vec(cap(), 0..5))
            .prop_map(|(value, caps)| Payload { value, caps })
    }

    fn error() -> impl Strategy<Value = EventError> {
        let limit = prop_oneof![
            Just(None),
            Just(Some(Limit::Cpu)),
            Just(Some(Limit::Memory)),
            Just(Some(Limit::Concurrency)),
            Just(Some(Limit::Body)),
        ];
        let value = proptest::option::of(value());
        (".{0,9}", ".{0,30}", value, any::<[bool; 4]>(), limit).prop_map(
            |(name, message, value, flags, limit)| EventError {
                name,
                message,
                stack: None,
                value,
                retryable: flags[0],
                overloaded: flags[1],
                durable_object_reset: flags[2],
                breaks_stub: flags[3],
                limit,
                by_script: false,
            },
        )
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let target = prop_oneof![
            any::<u32>().prop_map(Target::Export),
            any::<u32>().prop_map(Target::Answer)
        ];
        let path = proptest::collection::vec(".{0,9}", 0..6);
        let arguments = proptest::option::of(payload());
        prop_oneof![
            (any::<u32>(), target, path, arguments).prop_map(
                |(question, target, path, arguments)| Frame::Call {
                    question,
                    target,
                    path,
                    arguments,
                }
            ),
            (any::<u32>(), any::<bool>(), payload()).prop_map(|(question, last, payload)| {
                Frame::Return {
                    question,
                    last,
                    payload,
                }
            }),
            (any::<u32>(), any::<bool>(), error()).prop_map(|(question, last, error)| {
                Frame::Throw {
                    question,
                    last,
                    error,
                }
            }),
            (any::<u32>(), any::<u32>())
                .prop_map(|(export, count)| Frame::Release { export, count }),
            any::<u32>().prop_map(|question| Frame::Finish { question }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frame in frame()) {
            prop_assert_eq!(Frame::decode(frame.encode()), Ok(frame));
        }

        #[test]
        fn a_frame_that_breaks_off_is_refused(frame in frame(), cut in any::<prop::sample::Index>()) {
            let whole = frame.encode();
            let part = whole.slice(..cut.index(whole.len()));
            prop_assert!(Frame::decode(part).is_err());
        }

        #[test]
        fn bytes_behind_the_end_are_refused(frame in frame(), more in 1usize..9) {
            let mut long = frame.encode().to_vec();
            long.extend(std::iter::repeat_n(0, more));
            prop_assert!(Frame::decode(long.into()).is_err());
        }

        /// Whatever is accepted says the same when it is written again.
        #[test]
        fn any_bytes_are_refused_or_mean_one_thing(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Ok(frame) = Frame::decode(bytes.into()) {
                prop_assert_eq!(Frame::decode(frame.encode()), Ok(frame));
            }
        }

        #[test]
        fn changed_frames_never_panic(
            frame in frame(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let mut bytes = frame.encode().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = Frame::decode(bytes.into());
        }
    }

    #[test]
    fn other_versions_are_refused_by_number() {
        let bytes = Bytes::from_static(&[2, KIND_FINISH, 0]);
        assert_eq!(Frame::decode(bytes), Err(FrameError::Version(2)));
    }

    #[test]
    fn a_count_that_lies_allocates_nothing() {
        // A call with a path of 1,000 names, and a value of four gigabytes, of which nothing follows.
        let path = Bytes::from_static(&[VERSION, KIND_CALL, 0, 0, 0, 0xe8, 0x07]);
        assert_eq!(Frame::decode(path), Err(FrameError::Short));
        let value = Bytes::from_static(&[VERSION, KIND_RETURN, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(Frame::decode(value), Err(FrameError::Short));
        let names = Bytes::from_static(&[VERSION, KIND_CALL, 0, 0, 0, 0xff, 0xff, 0x7f]);
        assert_eq!(Frame::decode(names), Err(FrameError::List(0x1f_ffff)));
    }
}
