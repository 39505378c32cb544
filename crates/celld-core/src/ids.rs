//! Newtyped identifiers. Private fields and checked constructors, so that two of them cannot be mixed up.

use std::fmt;
use std::sync::Arc;

/// A Durable Object namespace: the stable key under which a class's cells live.
///
/// It is assigned when a migration creates the class and survives renames of the class.
/// Allowed: 1 to 128 of `A-Z a-z 0-9 _ - .`, not starting with a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceKey(Arc<str>);

/// The text is not a namespace key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a namespace key: use 1 to 128 letters, digits, '_', '-' or '.', not starting with '.'"
)]
pub struct BadNamespaceKey(pub String);

impl NamespaceKey {
    /// Checks and wraps a key.
    pub fn new(text: &str) -> Result<Self, BadNamespaceKey> {
        let fits = (1..=128).contains(&text.len())
            && !text.starts_with('.')
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        if fits {
            Ok(Self(text.into()))
        } else {
            Err(BadNamespaceKey(text.to_owned()))
        }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NamespaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The 32 bytes of a Durable Object id, written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 32]);

/// The text is not 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid Durable Object ID: must be 64 hex digits")]
pub struct BadObjectId;

impl ObjectId {
    /// Wraps raw bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses 64 hex digits of either case.
    pub fn from_hex(text: &str) -> Result<Self, BadObjectId> {
        let raw = text.as_bytes();
        if raw.len() != 64 {
            return Err(BadObjectId);
        }
        let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8).ok_or(BadObjectId);
        let mut out = [0u8; 32];
        for (byte, pair) in out.iter_mut().zip(raw.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(out))
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A cell: one named object with one database and one writer at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId {
    /// The class's stable key.
    pub namespace: NamespaceKey,
    /// The object within it.
    pub object: ObjectId,
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.object)
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a raw number.
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }
            /// The raw number.
            pub const fn get(self) -> u64 {
                self.0
            }
            /// The one after this.
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

counter!(
    /// Position in a session's node log. The first record has LSN 1; 0 means "nothing yet".
    Lsn
);
counter!(
    /// Number of a commit in one cell's history. The first commit is 1; 0 is the empty database.
    Txid
);
counter!(
    /// Generation of a cell's ownership; it rises by one with every claim.
    Epoch
);
counter!(
    /// An isolate host within this process.
    HostId
);
counter!(
    /// Number of a deployment as this process met it: a later one of the same script is greater.
    Generation
);

/// Name of a Worker, as its Wrangler configuration gives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptName(Arc<str>);

impl ScriptName {
    /// Wraps a name; what a name may look like is `celld-deploy`'s to check.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ScriptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses 32 hex digits.
pub(crate) fn bits_from_hex(text: &str) -> Option<u128> {
    (text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()))
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

/// One life of a node process: 128 random bits, fresh at every start, written as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    /// Wraps random bits that the caller drew (this crate has no randomness).
    pub const fn from_random(bits: u128) -> Self {
        Self(bits)
    }

    /// Parses 32 hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        bits_from_hex(text).map(Self)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
