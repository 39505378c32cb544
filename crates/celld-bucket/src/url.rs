//! From a bucket's URL to a bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Bucket, LocalBucket, OpenError};

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BucketUrl {
    /// `file:///dir`: a directory of this machine, by its absolute path.
    Directory(PathBuf),
}

/// The URL leads to no bucket.
#[derive(Debug, thiserror::Error)]
pub enum BucketUrlError {
    /// The scheme belongs to a kind of bucket that this version cannot open.
    #[error(
        "bucket {url:?}: the scheme {scheme:?} is not supported; use file:///absolute/directory (s3:// buckets come with the fleet)"
    )]
    Scheme {
        /// The URL.
        url: String,
        /// Its scheme.
        scheme: String,
    },
    /// It is no URL of a directory.
    #[error("bucket {url:?}: {why}; write it as file:///absolute/directory")]
    Malformed {
        /// The URL.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl BucketUrl {
    /// Understands a URL. `%20` and its like are decoded.
    pub fn parse(url: &str) -> Result<Self, BucketUrlError> {
        let malformed = |why| BucketUrlError::Malformed {
            url: url.to_owned(),
            why,
        };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| malformed("it has no scheme"))?;
        if !scheme.eq_ignore_ascii_case("file") {
            return Err(BucketUrlError::Scheme {
                url: url.to_owned(),
                scheme: scheme.to_owned(),
            });
        }
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if !path.starts_with('/') {
            return Err(malformed("its path is not absolute"));
        }
        if path.contains(['?', '#']) {
            return Err(malformed(
                "it has a '?' or '#' (write %3F or %23 for those characters in a path)",
            ));
        }
        let decoded = percent_encoding::percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| malformed("its path is not UTF-8"))?;
        if decoded.contains('\0') {
            return Err(malformed("its path has a NUL character"));
        }
        Ok(Self::Directory(PathBuf::from(decoded.as_ref())))
    }

    /// The directory, for a local bucket.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
        }
    }

    /// Opens the bucket. A local directory is created where it does not exist. Blocks on I/O.
    pub fn open(&self) -> Result<Arc<dyn Bucket>, OpenError> {
        match self {
            Self::Directory(path) => Ok(Arc::new(LocalBucket::open(path)?)),
        }
    }
}

/// Opens the bucket at `url`: [`BucketUrl::parse`] and [`BucketUrl::open`] in one.
pub fn open_url(url: &str) -> Result<Arc<dyn Bucket>, BucketUrlError> {
    Ok(BucketUrl::parse(url)?.open()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_url_names_a_directory() {
        let parse = |url: &str| BucketUrl::parse(url).unwrap();
        assert_eq!(
            parse("file:///var/lib/celld"),
            BucketUrl::Directory("/var/lib/celld".into())
        );
        assert_eq!(
            parse("file://localhost/a%20b"),
            BucketUrl::Directory("/a b".into())
        );
        assert_eq!(parse("FILE:///x").directory(), Some(Path::new("/x")));
    }

    #[test]
    fn other_urls_say_what_to_write() {
        for url in [
            "s3://bucket/prefix",
            "/dir",
            "file://relative",
            "file://host/dir",
            "file:///a?b",
            "file:///%ff",
            "file:///a%00",
        ] {
            let message = BucketUrl::parse(url).unwrap_err().to_string();
            assert!(message.contains("file:///absolute/directory"), "{message}");
        }
        assert!(
            BucketUrl::parse("s3://b")
                .unwrap_err()
                .to_string()
                .contains("come with the fleet")
        );
    }
}
