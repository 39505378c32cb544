//! Running other programs, and the places that tasks use.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The checkout that this task was started from.
pub fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`; the compiled-in path serves a direct start.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// The folder for everything that outlives a checkout: `$XDG_CACHE_HOME/celld` or `~/.cache/celld`.
pub fn cache_dir() -> Result<PathBuf> {
    if let Some(base) = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(base).join("celld"));
    }
    let home = std::env::home_dir().context("no home directory: set HOME")?;
    Ok(home.join(".cache/celld"))
}

/// Cargo's own folder: `$CARGO_HOME` or `~/.cargo`.
pub fn cargo_home() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CARGO_HOME").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let home = std::env::home_dir().context("no home directory: set CARGO_HOME")?;
    Ok(home.join(".cargo"))
}

/// The full path of a program on `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A command for the checkout's root.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// A `cargo` command for the checkout.
///
/// It does not see what `cargo run` sets for this program, nor `RUSTY_V8_MIRROR`: the library is in
/// Cargo's cache by then, and the `v8` crate is built again whenever that variable changes.
pub fn cargo() -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    forget_cargo_run(&mut command);
    command
}

/// Removes the variables that `cargo run` sets for the program it starts.
pub fn forget_cargo_run(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let ours = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        if ours
            || matches!(
                text,
                "CARGO_BIN_NAME" | "CARGO_CRATE_NAME" | "RUSTY_V8_MIRROR"
            )
        {
            command.env_remove(&name);
        }
    }
}

/// Runs a command to its end; an error names it when it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not start `{}`", describe(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output; on failure the error holds its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start `{}`", describe(command)))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{}` failed ({}):\n{}",
            describe(command),
            output.status,
            text.trim_end()
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed something that is not text", describe(command)))
}

/// A command as a person would type it, cut to a readable length.
pub fn describe(command: &Command) -> String {
    let mut text = Path::new(command.get_program()).file_name().map_or_else(
        || command.get_program().to_string_lossy().into_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Cargo's target folder for this checkout.
pub fn target_dir() -> Result<PathBuf> {
    let text = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--quiet"]))?;
    let data: serde_json::Value = serde_json::from_str(&text).context("reading cargo metadata")?;
    let path = data["target_directory"]
        .as_str()
        .context("cargo metadata names no target folder")?;
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let error = run(Command::new("false").arg("--why")).expect_err("false fails");
        assert!(
            error.to_string().contains("`false --why` failed"),
            "{error}"
        );
    }

    #[test]
    fn output_reports_what_the_command_said() {
        let error = output(Command::new("sh").args(["-c", "echo broken >&2; exit 3"]))
            .expect_err("exit code 3");
        assert!(error.to_string().contains("broken"), "{error}");
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.lock").is_file());
    }

    #[test]
    fn a_program_is_found_on_the_path() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-here").is_none());
    }
}
