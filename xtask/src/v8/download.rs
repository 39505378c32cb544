//! The library from the release page, as the crate's build script would fetch it.
//!
//! Done here first because the build script waits for minutes where the page cannot be reached,
//! and knows no other way then.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::library::Library;
use crate::shell;

/// How long a connection may take, in seconds.
const CONNECT_S: &str = "8";
/// A transfer slower than this for 30 seconds is given up, in bytes a second.
const SLOWEST_BYTES_PER_S: &str = "2000";

/// Downloads the library into Cargo's cache.
pub fn take(library: &Library) -> Result<()> {
    let folder = shell::cache_dir()?.join("v8").join(library.version());
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let file = folder.join(format!("download-{}", std::process::id()));
    eprintln!("Downloading V8 {}…", library.version());
    let done = fetch(&address(library), &file).and_then(|()| library.adopt(&file));
    if file.exists() {
        fs::remove_file(&file)?;
    }
    done
}

/// The crate's release page, or the mirror's address when `RUSTY_V8_MIRROR` is one.
fn address(library: &Library) -> String {
    match std::env::var("RUSTY_V8_MIRROR") {
        Ok(base) if base.starts_with("http:") || base.starts_with("https:") => {
            let base = base.trim_end_matches('/');
            format!("{base}/v{}/{}", library.version(), library.file_name())
        }
        _ => library.address(),
    }
}

fn fetch(address: &str, file: &Path) -> Result<()> {
    let mut command = if shell::find_program("curl").is_some() {
        let mut curl = Command::new("curl");
        curl.args(["--location", "--fail", "--silent", "--show-error"]);
        curl.args(["--connect-timeout", CONNECT_S, "--speed-time", "30"]);
        curl.args(["--speed-limit", SLOWEST_BYTES_PER_S, "--output"])
            .arg(file)
            .arg(address);
        curl
    } else if shell::find_program("python3").is_some() {
        let mut python = Command::new("python3");
        python
            .args(["-c", PYTHON_FETCH, address])
            .arg(file)
            .arg(CONNECT_S);
        python
    } else {
        bail!("neither curl nor python3 is here to download with");
    };
    shell::run(command.stdin(Stdio::null()))
}

/// Arguments: address, file, timeout in seconds.
const PYTHON_FETCH: &str = "\
import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[3])) as answer:
    with open(sys.argv[2], 'wb') as file:
        shutil.copyfileobj(answer, file)
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_page_is_an_error_within_seconds() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let started = std::time::Instant::now();
        // Port 9 of the loopback interface: nothing listens there.
        let result = fetch(
            "http://127.0.0.1:9/library.a.gz",
            &folder.path().join("file"),
        );
        assert!(result.is_err());
        assert!(started.elapsed().as_secs() < 20);
    }
}
