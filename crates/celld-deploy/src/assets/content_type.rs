//! Content types by the ends of file names.

/// The content type of a file; `None` when the name does not tell.
pub(super) fn of(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next()?;
    let (_, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    TYPES
        .iter()
        .find(|(_, extensions)| extensions.contains(&extension.as_str()))
        .map(|(content_type, _)| *content_type)
}

/// The types that browsers and the usual build tools know. Text is UTF-8.
const TYPES: &[(&str, &[&str])] = &[
    ("text/html; charset=utf-8", &["html", "htm", "shtml"]),
    ("text/css; charset=utf-8", &["css"]),
    ("text/javascript; charset=utf-8", &["js", "mjs", "cjs"]),
    (
        "text/plain; charset=utf-8",
        &["txt", "text", "conf", "def", "list", "log", "in", "ini"],
    ),
    ("text/markdown; charset=utf-8", &["md", "markdown"]),
    ("text/csv; charset=utf-8", &["csv"]),
    ("text/tab-separated-values; charset=utf-8", &["tsv"]),
    ("text/calendar; charset=utf-8", &["ics", "ifb"]),
    ("text/vcard; charset=utf-8", &["vcard", "vcf"]),
    ("text/vtt; charset=utf-8", &["vtt"]),
    ("text/xml; charset=utf-8", &["xml"]),
    ("text/yaml; charset=utf-8", &["yaml", "yml"]),
    ("text/jsx; charset=utf-8", &["jsx"]),
    ("application/json", &["json", "map"]),
    ("application/json5", &["json5"]),
    ("application/ld+json", &["jsonld"]),
    ("application/manifest+json", &["webmanifest"]),
    ("application/geo+json", &["geojson"]),
    ("application/rss+xml", &["rss"]),
    ("application/atom+xml", &["atom"]),
    ("application/xhtml+xml", &["xhtml", "xht"]),
    ("application/xml", &["xsl", "xsd", "rng"]),
    ("application/wasm", &["wasm"]),
    ("application/pdf", &["pdf"]),
    ("application/zip", &["zip"]),
    ("application/gzip", &["gz"]),
    ("application/x-tar", &["tar"]),
    ("application/x-7z-compressed", &["7z"]),
    ("application/rtf", &["rtf"]),
    ("application/epub+zip", &["epub"]),
    ("application/toml", &["toml"]),
    (
        "application/octet-stream",
        &["bin", "exe", "dll", "dmg", "iso", "img", "so", "deb"],
    ),
    ("application/vnd.ms-fontobject", &["eot"]),
    ("font/woff", &["woff"]),
    ("font/woff2", &["woff2"]),
    ("font/ttf", &["ttf"]),
    ("font/otf", &["otf"]),
    ("font/collection", &["ttc"]),
    ("image/svg+xml", &["svg", "svgz"]),
    ("image/png", &["png"]),
    ("image/apng", &["apng"]),
    ("image/jpeg", &["jpg", "jpeg", "jpe"]),
    ("image/gif", &["gif"]),
    ("image/webp", &["webp"]),
    ("image/avif", &["avif"]),
    ("image/bmp", &["bmp"]),
    ("image/heic", &["heic"]),
    ("image/jxl", &["jxl"]),
    ("image/tiff", &["tif", "tiff"]),
    ("image/vnd.microsoft.icon", &["ico"]),
    ("audio/mpeg", &["mp3", "mpga", "mp2"]),
    ("audio/mp4", &["m4a", "mp4a"]),
    ("audio/ogg", &["ogg", "oga", "opus", "spx"]),
    ("audio/wav", &["wav"]),
    ("audio/webm", &["weba"]),
    ("audio/aac", &["aac", "adts"]),
    ("audio/midi", &["mid", "midi"]),
    ("video/mp4", &["mp4", "mp4v", "mpg4"]),
    ("video/mpeg", &["mpeg", "mpg", "mpe"]),
    ("video/webm", &["webm"]),
    ("video/ogg", &["ogv"]),
    ("video/quicktime", &["mov", "qt"]),
    ("video/mp2t", &["ts", "m2t", "m2ts", "mts"]),
    ("model/gltf+json", &["gltf"]),
    ("model/gltf-binary", &["glb"]),
    ("application/vnd.apple.mpegurl", &["m3u8"]),
    ("application/dash+xml", &["mpd"]),
];

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_last_extension_tells_in_any_case() {
        assert_eq!(of("/a.b/index.HTML"), Some("text/html; charset=utf-8"));
        assert_eq!(of("/x.min.js"), Some("text/javascript; charset=utf-8"));
        assert_eq!(of("/favicon.ico"), Some("image/vnd.microsoft.icon"));
        assert_eq!(of("/a.b/LICENSE"), None);
        assert_eq!(of("/a.unknown"), None);
    }

    #[test]
    fn no_extension_has_two_types() {
        let mut seen = std::collections::HashSet::new();
        for extension in super::TYPES.iter().flat_map(|(_, extensions)| *extensions) {
            assert!(seen.insert(extension), "{extension}");
        }
    }
}
