//! Fixed numbers of bytes as lower-case hex, in text and in JSON.

/// The text is not the hex that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not {0}")]
pub struct BadHex(pub &'static str);

/// Reads exactly `N` bytes. Upper case is refused, so that every value has one spelling.
pub(crate) fn parse<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    let lower = !text.bytes().any(|b| b.is_ascii_uppercase());
    (lower && hex::decode_to_slice(text, &mut out).is_ok()).then_some(out)
}

/// Text and JSON forms of a newtype over bytes.
macro_rules! hex_text {
    ($name:ident, $len:literal, $what:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = hex_text::BadHex;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                hex_text::parse::<$len>(text)
                    .map(Self)
                    .ok_or(hex_text::BadHex($what))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use hex_text;
