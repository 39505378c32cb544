//! Static files in a manifest.

use serde::{Deserialize, Serialize};

use super::BlobHash;
use crate::assets::{FILE_MAX_BYTES, FILES_MAX};

/// The static files of a deployment, and how paths lead to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assets {
    /// How paths and HTML files correspond.
    pub html_handling: HtmlHandling,
    /// What answers where no file does.
    pub not_found_handling: NotFoundHandling,
    /// Requests go to the Worker even where a file would answer.
    pub run_worker_first: bool,
    /// The files, in the order of their paths.
    pub files: Vec<AssetFile>,
}

/// One static file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetFile {
    /// Its path from the directory, with a leading slash and nothing escaped.
    pub path: String,
    /// Hash of its content, and the name of its blob.
    pub sha256: BlobHash,
    /// Length of its content, in bytes.
    pub bytes: u64,
    /// `Content-Type`, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// How paths and HTML files correspond (`html_handling`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HtmlHandling {
    /// `/a` is `a.html`, and `/a/` is `a/index.html`.
    #[default]
    AutoTrailingSlash,
    /// `/a/` is either.
    ForceTrailingSlash,
    /// `/a` is either.
    DropTrailingSlash,
    /// Paths are file names.
    None,
}

impl HtmlHandling {
    /// Every value with its name in configurations.
    pub const ALL: [(&'static str, Self); 4] = [
        ("auto-trailing-slash", Self::AutoTrailingSlash),
        ("force-trailing-slash", Self::ForceTrailingSlash),
        ("drop-trailing-slash", Self::DropTrailingSlash),
        ("none", Self::None),
    ];
}

/// What answers where no file does (`not_found_handling`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotFoundHandling {
    /// Nothing.
    #[default]
    None,
    /// `/index.html`, with status 200.
    SinglePageApplication,
    /// The nearest `404.html` on the way to the root, with status 404.
    #[serde(rename = "404-page")]
    Page404,
}

impl NotFoundHandling {
    /// Every value with its name in configurations.
    pub const ALL: [(&'static str, Self); 3] = [
        ("none", Self::None),
        ("single-page-application", Self::SinglePageApplication),
        ("404-page", Self::Page404),
    ];
}

impl Assets {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.files.len() > FILES_MAX {
            return Err(format!("it has more than {FILES_MAX} static files"));
        }
        let mut last = "";
        for file in &self.files {
            let step = |part: &str| part.is_empty() || part == "." || part == "..";
            let parts = file.path.strip_prefix('/');
            if parts.is_none_or(|parts| parts.split('/').any(step)) || file.path.contains('\0') {
                return Err(format!("{:?} cannot name a static file", file.path));
            }
            if file.path.as_str() <= last {
                return Err(format!("the static file {:?} is out of order", file.path));
            }
            last = &file.path;
            if file.bytes > FILE_MAX_BYTES {
                return Err(format!("the static file {:?} is too large", file.path));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_configurations_and_manifests_agree() {
        for (name, value) in HtmlHandling::ALL {
            assert_eq!(serde_json::to_value(value).unwrap(), name);
        }
        for (name, value) in NotFoundHandling::ALL {
            assert_eq!(serde_json::to_value(value).unwrap(), name);
        }
    }

    #[test]
    fn paths_name_files_once_and_below_the_root() {
        let assets = |paths: &[&str]| Assets {
            html_handling: HtmlHandling::None,
            not_found_handling: NotFoundHandling::None,
            run_worker_first: false,
            files: paths
                .iter()
                .map(|path| AssetFile {
                    path: (*path).into(),
                    sha256: BlobHash::of(b""),
                    bytes: 0,
                    content_type: None,
                })
                .collect(),
        };
        assert_eq!(assets(&["/a", "/a.b/c"]).check(), Ok(()));
        for bad in [
            &["a"] as &[&str],
            &["/../a"],
            &["/a//b"],
            &["/a", "/a"],
            &["/b", "/a"],
            &["/"],
        ] {
            assert!(assets(bad).check().is_err(), "{bad:?}");
        }
    }
}
