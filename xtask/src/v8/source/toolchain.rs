//! The compiler folder in the layout that V8's build files expect, and their arguments.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};

use super::Workshop;
use super::packages::{self, Llvm};

const TOOLS: [&str; 8] = [
    "clang",
    "llvm-ar",
    "llvm-nm",
    "llvm-readelf",
    "llvm-objcopy",
    "llvm-strip",
    "lld",
    "ld.lld",
];
/// The target under whose name the build files look for clang's runtime.
const RUNTIME_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Lays the folder out anew: links to the installed tools, and this program as `clang++`.
pub fn lay_out(shop: &Workshop, llvm: &Llvm) -> Result<()> {
    let folder = shop.llvm();
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    let bin = folder.join("bin");
    fs::create_dir_all(&bin)?;
    for tool in TOOLS {
        link(&llvm.folder.join("bin").join(tool), &bin.join(tool))?;
    }
    // A copy: the program itself may be rebuilt while V8 compiles.
    let wrapper = bin.join("clang++");
    fs::copy(std::env::current_exe()?, &wrapper).context("copying the compiler's wrapper")?;
    packages::make_executable(&wrapper)?;

    // Clang's own headers lie beside its runtime; Debian keeps the latter under another name.
    let version = llvm.major.to_string();
    let theirs = llvm.folder.join("lib/clang").join(&version);
    let ours = folder.join("lib/clang").join(&version);
    let runtime = ours.join("lib").join(RUNTIME_TARGET);
    fs::create_dir_all(&runtime)?;
    link(&theirs.join("include"), &ours.join("include"))?;
    link(
        &packages::runtime(llvm),
        &runtime.join("libclang_rt.builtins.a"),
    )
}

fn link(target: &Path, place: &Path) -> Result<()> {
    symlink(target, place).with_context(|| format!("linking {}", place.display()))
}

/// The arguments of `gn gen`: a release build of what the crate's build script would ask for.
pub fn gn_arguments(shop: &Workshop, llvm: &Llvm) -> String {
    let fixed = [
        "is_debug=false",
        "use_custom_libcxx=true",
        "rusty_v8_enable_simdutf=true",
        "v8_enable_sandbox=false",
        "v8_enable_pointer_compression=false",
        "v8_enable_v8_checks=false",
        "v8_enable_temporal_support=true",
        "v8_monolithic_for_shared_library=true",
        // Temporal comes ready-made; nothing else here is Rust.
        "enable_rust=false",
        "enable_rust_cxx=false",
        // Another clang than Chromium's warns about other things.
        "treat_warnings_as_errors=false",
        "symbol_level=0",
        "line_tables_only=false",
        "no_inline_line_tables=false",
        "use_glib=false",
    ];
    let mut text = fixed.join(" ");
    text.push_str(&format!(" clang_base_path=\"{}\"", shop.llvm().display()));
    text.push_str(&format!(" clang_version=\"{}\"", llvm.major));
    text
}
