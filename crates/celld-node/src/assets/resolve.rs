//! Which file answers for a path. No I/O.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{AssetFile, HtmlHandling, NotFoundHandling, StaticAssets};

/// What JavaScript's `encodeURIComponent` escapes.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// What answers for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// A file.
    File {
        /// Which.
        file: &'a AssetFile,
        /// It stands for something that is not there: status 404.
        not_found: bool,
    },
    /// Another path; nothing in it is escaped.
    Redirect(String),
    /// Nothing.
    Nothing,
}

/// The form of a URL's path that names files: unescaped, and without empty steps.
pub(super) fn decode(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    for (index, part) in path.split('/').enumerate() {
        if index > 0 {
            decoded.push('/');
        }
        match percent_decode_str(part).decode_utf8() {
            Ok(text) => decoded.push_str(&text),
            Err(_) => decoded.push_str(part),
        }
    }
    while decoded.contains("//") {
        decoded = decoded.replace("//", "/");
    }
    decoded
}

/// The form of an unescaped path in URLs.
pub(super) fn encode(path: &str) -> String {
    let parts: Vec<String> = path
        .split('/')
        .map(|part| utf8_percent_encode(part, ESCAPED).to_string())
        .collect();
    parts.join("/")
}

/// Finds what answers for `path`, which starts with a slash and has no escapes.
pub(super) fn resolve<'a>(
    assets: &'a StaticAssets,
    path: &str,
    not_found: NotFoundHandling,
) -> Outcome<'a> {
    Search { assets, not_found }.find(path, true)
}

struct Search<'a> {
    assets: &'a StaticAssets,
    not_found: NotFoundHandling,
}

impl<'a> Search<'a> {
    fn find(&self, path: &str, may_redirect: bool) -> Outcome<'a> {
        let by_html = match self.assets.html_handling {
            HtmlHandling::AutoTrailingSlash => self.automatic(path, may_redirect),
            HtmlHandling::ForceTrailingSlash => self.forced(path, may_redirect),
            HtmlHandling::DropTrailingSlash => self.dropped(path, may_redirect),
            HtmlHandling::None => self.serve(path),
        };
        by_html.unwrap_or_else(|| self.fallback(path))
    }

    /// `/a` is `a.html`, `/a/` is `a/index.html`.
    fn automatic(&self, path: &str, may: bool) -> Option<Outcome<'a>> {
        let redirect = |file: &str, to: &str| may.then(|| self.redirect(file, to)).flatten();
        let special = if let Some(dir) = path.strip_suffix("/index") {
            let exact = self.serve(path);
            exact
                .or_else(|| redirect(&format!("{path}.html"), &format!("{dir}/")))
                .or_else(|| redirect(&format!("{dir}.html"), dir))
        } else if let Some(dir) = path.strip_suffix("/index.html") {
            redirect(path, &format!("{dir}/")).or_else(|| redirect(&format!("{dir}.html"), dir))
        } else if let Some(bare) = path.strip_suffix('/') {
            self.serve(&format!("{path}index.html"))
                .or_else(|| redirect(&format!("{bare}.html"), bare))
        } else if let Some(bare) = path.strip_suffix(".html") {
            redirect(path, bare)
                .or_else(|| redirect(&format!("{bare}/index.html"), &format!("{bare}/")))
        } else {
            None
        };
        special
            .or_else(|| self.serve(path))
            .or_else(|| self.serve(&format!("{path}.html")))
            .or_else(|| redirect(&format!("{path}/index.html"), &format!("{path}/")))
    }

    /// `/a/` is `a.html` or `a/index.html`.
    fn forced(&self, path: &str, may: bool) -> Option<Outcome<'a>> {
        let redirect = |file: &str, to: &str| may.then(|| self.redirect(file, to)).flatten();
        let special = if let Some(dir) = path.strip_suffix("/index") {
            let to = format!("{dir}/");
            let exact = self.serve(path);
            exact
                .or_else(|| redirect(&format!("{path}.html"), &to))
                .or_else(|| redirect(&format!("{dir}.html"), &to))
        } else if let Some(dir) = path.strip_suffix("/index.html") {
            let to = format!("{dir}/");
            redirect(path, &to).or_else(|| redirect(&format!("{dir}.html"), &to))
        } else if let Some(bare) = path.strip_suffix('/') {
            self.serve(&format!("{path}index.html"))
                .or_else(|| self.serve(&format!("{bare}.html")))
        } else if let Some(bare) = path.strip_suffix(".html") {
            let to = format!("{bare}/");
            redirect(path, &to)
                .or_else(|| self.serve(path))
                .or_else(|| redirect(&format!("{bare}/index.html"), &to))
        } else {
            None
        };
        let to = format!("{path}/");
        special
            .or_else(|| self.serve(path))
            .or_else(|| redirect(&format!("{path}.html"), &to))
            .or_else(|| redirect(&format!("{path}/index.html"), &to))
    }

    /// `/a` is `a.html` or `a/index.html`; only the root ends with a slash.
    fn dropped(&self, path: &str, may: bool) -> Option<Outcome<'a>> {
        let redirect = |file: &str, to: &str| may.then(|| self.redirect(file, to)).flatten();
        let special = if let Some(dir) = path.strip_suffix("/index") {
            let exact = self.serve(path);
            exact.or_else(|| match dir {
                "" => redirect("/index.html", "/"),
                dir => redirect(&format!("{dir}.html"), dir)
                    .or_else(|| redirect(&format!("{path}.html"), dir)),
            })
        } else if let Some(dir) = path.strip_suffix("/index.html") {
            match dir {
                "" => redirect(path, "/"),
                dir => redirect(path, dir)
                    .or_else(|| self.serve(path))
                    .or_else(|| redirect(&format!("{dir}.html"), dir)),
            }
        } else if path == "/" {
            self.serve("/index.html")
        } else if let Some(bare) = path.strip_suffix('/') {
            redirect(&format!("{bare}.html"), bare)
                .or_else(|| redirect(&format!("{bare}/index.html"), bare))
        } else if let Some(bare) = path.strip_suffix(".html") {
            redirect(path, bare).or_else(|| redirect(&format!("{bare}/index.html"), bare))
        } else {
            None
        };
        special
            .or_else(|| self.serve(path))
            .or_else(|| self.serve(&format!("{path}.html")))
            .or_else(|| self.serve(&format!("{path}/index.html")))
    }

    fn serve(&self, path: &str) -> Option<Outcome<'a>> {
        self.assets.files.get(path).map(|file| Outcome::File {
            file,
            not_found: false,
        })
    }

    /// A redirect from a path that means `file` to one that serves the same content.
    fn redirect(&self, file: &str, to: &str) -> Option<Outcome<'a>> {
        let file = self.assets.files.get(file)?;
        if self.assets.files.contains_key(to) {
            return None;
        }
        match self.find(to, false) {
            Outcome::File { file: there, .. } if there.blob == file.blob => {
                Some(Outcome::Redirect(to.to_owned()))
            }
            _ => None,
        }
    }

    fn fallback(&self, path: &str) -> Outcome<'a> {
        match self.not_found {
            NotFoundHandling::None => Outcome::Nothing,
            NotFoundHandling::SinglePageApplication => {
                self.serve("/index.html").unwrap_or(Outcome::Nothing)
            }
            NotFoundHandling::Page404 => {
                let mut dir = path;
                while let Some((above, _)) = dir.rsplit_once('/') {
                    if let Some(file) = self.assets.files.get(&format!("{above}/404.html")) {
                        return Outcome::File {
                            file,
                            not_found: true,
                        };
                    }
                    dir = above;
                }
                Outcome::Nothing
            }
        }
    }
}
