//! `cargo xtask sim`: a long run of the simulated fleet.

use anyhow::{Context, Result, bail};

use crate::shell;

/// Runs `--seeds N` seeds `--from S` on; 100,000 from 0 where nothing is said.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut from, mut seeds) = (0u64, 100_000u64);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let number = match argument.as_str() {
            "--from" => &mut from,
            "--seeds" => &mut seeds,
            other => bail!("`cargo xtask sim` does not know '{other}'; see `cargo xtask help`"),
        };
        let text = rest
            .next()
            .with_context(|| format!("{argument} needs a number"))?;
        *number = text
            .parse()
            .with_context(|| format!("{argument} needs a number, not '{text}'"))?;
    }
    eprintln!("Seeds {from} to {}…", from.saturating_add(seeds));
    let mut test = shell::cargo();
    test.args(["test", "--package", "celld-core", "--lib", "a_long_run"])
        .args(["--", "--ignored", "--nocapture"])
        // Read when the test is compiled: the core reads no environment.
        .env("CELLD_SIM_FROM", from.to_string())
        .env("CELLD_SIM_SEEDS", seeds.to_string());
    shell::run(&mut test)
}
