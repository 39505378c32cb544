//! `cargo xtask bench`: the benchmark under `perf/`, against a release build.

use anyhow::{Result, bail};

use crate::{dev, node, shell, v8};

/// Builds `celld` for release and runs `perf/bench.mjs`, passing the arguments on.
pub fn run(arguments: Vec<String>) -> Result<()> {
    let script = shell::root().join("perf/bench.mjs");
    if !script.is_file() {
        bail!(
            "{} does not exist: there is no benchmark to run",
            script.display()
        );
    }
    dev::check_c_compiler()?;
    v8::ensure()?;
    let node = node::program()?;
    node::install("tests/node")?;
    eprintln!("Building celld for release…");
    shell::run(shell::cargo().args(["build", "--release", "--package", "celld"]))?;
    let celld = shell::target_dir()?.join("release/celld");
    let mut bench = shell::command(node);
    bench.arg(script).args(arguments).env("CELLD", celld);
    shell::forget_cargo_run(&mut bench);
    shell::run(&mut bench)
}
