//! Names of objects.

use std::fmt;
use std::sync::Arc;

/// Longest key, in bytes. S3 takes 1,024; the rest is left for a prefix within a shared bucket.
const KEY_MAX_BYTES: usize = 900;

/// Longest segment, in bytes. File systems take 255; the rest is left for the local bucket's mark.
const SEGMENT_MAX_BYTES: usize = 250;

/// The name of an object: segments of `A-Z a-z 0-9 . _ -` joined by `/`.
///
/// At most 900 bytes in all and 250 a segment; no segment is empty, `.` or `..`. So a key is at
/// once a valid S3 key that needs no escaping and a safe relative path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// The text is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a bucket object: {why}; use segments of letters, digits, '.', '_' and '-' joined by '/'"
)]
pub struct BadKey {
    /// The text, cut to its first 100 characters.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Key {
    /// Checks and wraps a name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, BadKey> {
        let text = text.as_ref();
        let fault = if text.is_empty() {
            Some("it is empty")
        } else {
            fault_of_length(text).or_else(|| text.split('/').find_map(fault_of_segment))
        };
        match fault {
            None => Ok(Self(text.into())),
            Some(why) => Err(bad(text, why)),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first segment, which says what kind of object it is.
    pub fn class(&self) -> &str {
        class_of(&self.0)
    }
}

/// The first segment of a key or of a list prefix.
pub(crate) fn class_of(text: &str) -> &str {
    text.split('/').next().unwrap_or(text)
}

/// Checks the start of a key, which may end within a segment or be empty.
pub(crate) fn check_prefix(text: &str) -> Result<(), BadKey> {
    let (complete, last) = match text.rsplit_once('/') {
        Some((complete, last)) => (Some(complete), last),
        None => (None, text),
    };
    let fault = fault_of_length(text)
        .or_else(|| complete.and_then(|segments| segments.split('/').find_map(fault_of_segment)))
        .or_else(|| fault_of_characters(last));
    fault.map_or(Ok(()), |why| Err(bad(text, why)))
}

fn bad(text: &str, why: &'static str) -> BadKey {
    BadKey {
        text: text.chars().take(100).collect(),
        why,
    }
}

fn fault_of_length(text: &str) -> Option<&'static str> {
    (text.len() > KEY_MAX_BYTES).then_some("it is longer than 900 bytes")
}

fn fault_of_segment(segment: &str) -> Option<&'static str> {
    match segment {
        "" => Some("a segment is empty"),
        "." | ".." => Some("a segment is '.' or '..'"),
        _ if segment.len() > SEGMENT_MAX_BYTES => Some("a segment is longer than 250 bytes"),
        _ => fault_of_characters(segment),
    }
}

fn fault_of_characters(segment: &str) -> Option<&'static str> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (!segment.bytes().all(fits)).then_some("it has a character that is not allowed")
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Key {
    type Err = BadKey;
    fn from_str(text: &str) -> Result<Self, BadKey> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_safe_relative_paths() {
        for good in ["a", "cells/ns/00ff", "a.b/..c/d-e_f", "log/0/000000000001"] {
            assert_eq!(Key::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a b", "a~", "ä", "a\0b",
            "a\\b",
        ] {
            assert!(Key::new(bad).is_err(), "{bad:?}");
        }
        assert!(Key::new("a".repeat(250)).is_ok());
        assert!(Key::new("a".repeat(251)).is_err());
        assert!(Key::new("a/".repeat(449) + "bb").is_ok());
        assert!(Key::new("a/".repeat(449) + "bbb").is_err());
    }

    #[test]
    fn prefixes_may_end_anywhere_in_a_key() {
        for good in ["", "cells", "cells/", "cells/ns/0", ".", "a/.."] {
            assert!(check_prefix(good).is_ok(), "{good:?}");
        }
        for bad in ["/", "a//", "../", "a/../b", "a b"] {
            assert!(check_prefix(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_class_is_the_first_segment() {
        assert_eq!(Key::new("cells/ns/1").unwrap().class(), "cells");
        assert_eq!(Key::new("solo").unwrap().class(), "solo");
    }
}
