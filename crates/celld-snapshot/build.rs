//! Evaluates `runtime-js/src` in a fresh isolate and keeps the result as a V8 snapshot.

use std::path::Path;

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let api = Path::new(&manifest).join("../../runtime-js/src");
    println!("cargo:rerun-if-changed={}", api.display());
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let made = celld_runtime::create_snapshot(&api).and_then(|snapshot| {
        let path = Path::new(&out).join("celld.snapshot");
        std::fs::write(&path, snapshot).map_err(|cause| celld_runtime::SnapshotError::Write {
            path: path.display().to_string(),
            cause,
        })
    });
    if let Err(error) = made {
        println!("cargo:error={error}");
    }
}
