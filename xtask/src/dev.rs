//! `cargo xtask dev`: from a fresh checkout to a running Worker.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result, bail};

use crate::{shell, v8};

/// Sets up what is missing, builds `celld`, and becomes `celld dev` with the given arguments.
pub fn run(arguments: Vec<String>) -> Result<()> {
    check_c_compiler()?;
    v8::ensure()?;
    eprintln!("Building celld (the first build takes several minutes)…");
    shell::run(shell::cargo().args(["build", "--package", "celld"]))?;
    let program = shell::target_dir()?.join("debug/celld");

    // The user's own folder, not the checkout: relative project paths mean what they say.
    let mut command = std::process::Command::new(&program);
    command.arg("dev").args(arguments);
    shell::forget_cargo_run(&mut command);
    let error = command.exec();
    Err(error).with_context(|| format!("could not start {}", program.display()))
}

/// SQLite, zlib and the TLS library are C code: without a compiler, the build fails late and darkly.
pub fn check_c_compiler() -> Result<()> {
    let named = std::env::var_os("CC").is_some();
    if named
        || ["cc", "gcc", "clang"]
            .iter()
            .any(|name| shell::find_program(name).is_some())
    {
        return Ok(());
    }
    bail!(
        "no C compiler was found (cc, gcc or clang), and SQLite needs one.\n\
         Debian and Ubuntu: apt-get install build-essential\n\
         Fedora: dnf install gcc gcc-c++ make\n\
         Elsewhere: install one, or set CC to its path."
    )
}
