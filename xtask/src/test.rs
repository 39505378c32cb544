//! `cargo xtask test`: every check and test, in order, with a summary.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{dev, node, shell, tidy, v8};

/// One step of the run.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn() -> Result<()>,
}

/// Cheap steps come first: a slip in the formatting shows after seconds.
const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        what: "Rust code is formatted",
        run: fmt,
    },
    Step {
        name: "tidy",
        what: "the rules of the house hold",
        run: tidy::check,
    },
    Step {
        name: "js",
        what: "JavaScript is formatted and type-checked",
        run: javascript,
    },
    Step {
        name: "clippy",
        what: "no lint fires",
        run: clippy,
    },
    Step {
        name: "unit",
        what: "Rust tests",
        run: unit,
    },
    Step {
        name: "integration",
        what: "whole programs, beside the reference runtime",
        run: integration,
    },
];

/// Folders whose JavaScript and TypeScript Prettier looks at.
const FORMATTED: [&str; 4] = ["runtime-js", "tests", "perf", "examples"];

/// Runs the chosen steps, all of them whatever fails, and fails when one did.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| argument == "--list") {
        for step in STEPS {
            println!("{:12} {}", step.name, step.what);
        }
        return Ok(());
    }
    let chosen = choose(arguments)?;
    dev::check_c_compiler()?;
    let mut results = Vec::new();
    for step in chosen {
        eprintln!("\n── {}: {} ──", step.name, step.what);
        let started = Instant::now();
        let result = (step.run)();
        if let Err(error) = &result {
            eprintln!("error: {error:#}");
        }
        results.push((step.name, started.elapsed(), result.is_ok()));
    }
    print_summary(&results);
    let failed: Vec<&str> = results
        .iter()
        .filter(|(_, _, passed)| !passed)
        .map(|(name, _, _)| *name)
        .collect();
    if !failed.is_empty() {
        let names = failed.join(",");
        bail!("failed: {names} (run these alone: cargo xtask test --only {names})");
    }
    Ok(())
}

/// Reads `--only A,B` and `--skip A,B`.
fn choose(arguments: &[String]) -> Result<Vec<&'static Step>> {
    let (mut only, mut skip): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let list = match argument.as_str() {
            "--only" => &mut only,
            "--skip" => &mut skip,
            other => bail!("`cargo xtask test` does not know '{other}'; see `cargo xtask help`"),
        };
        let names = rest
            .next()
            .with_context(|| format!("{argument} needs the names of steps"))?;
        list.extend(names.split(',').map(str::trim));
    }
    if let Some(unknown) = only
        .iter()
        .chain(&skip)
        .find(|name| STEPS.iter().all(|step| step.name != **name))
    {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!(
            "there is no step '{unknown}'; the steps are {}",
            names.join(", ")
        );
    }
    let wanted =
        |step: &&Step| (only.is_empty() || only.contains(&step.name)) && !skip.contains(&step.name);
    Ok(STEPS.iter().filter(wanted).collect())
}

fn print_summary(results: &[(&str, Duration, bool)]) {
    eprintln!("\n── summary ──");
    for (name, time, passed) in results {
        let verdict = if *passed { "ok" } else { "FAILED" };
        eprintln!("{name:12} {verdict:7} {:>7.1} s", time.as_secs_f64());
    }
    let total: Duration = results.iter().map(|(_, time, _)| *time).sum();
    eprintln!("{:12} {:7} {:>7.1} s", "in all", "", total.as_secs_f64());
}

fn fmt() -> Result<()> {
    shell::run(shell::cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    v8::ensure()?;
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    shell::run(shell::cargo().args(arguments))
}

fn unit() -> Result<()> {
    v8::ensure()?;
    shell::run(shell::cargo().args(["test", "--workspace", "--no-fail-fast"]))
}

fn javascript() -> Result<()> {
    let node = node::program()?;
    let formatted = shell::run(&mut prettier("--check")?).context("to format: cargo xtask fmt");
    node::install("runtime-js")?;
    let mut typed = Ok(());
    for project in ["tsconfig.json", "tsconfig.examples.json"] {
        let mut check = shell::command(&node);
        check.arg("runtime-js/node_modules/typescript/bin/tsc");
        check.arg("--project").arg(format!("runtime-js/{project}"));
        typed = typed.and(shell::run(&mut check));
    }
    formatted.and(typed)
}

/// Prettier for every JavaScript and TypeScript file, to `--check` or to `--write`.
fn prettier(mode: &str) -> Result<Command> {
    node::install("tests/node")?;
    let root = shell::root();
    let folders = FORMATTED.iter().filter(|folder| root.join(folder).is_dir());
    let patterns = folders.map(|folder| format!("{folder}/**/*.{{js,mjs,cjs,ts,tsx,jsx}}"));
    let mut command = shell::command(node::program()?);
    command
        .arg("tests/node/node_modules/prettier/bin/prettier.cjs")
        .arg(mode);
    command
        .args(["--log-level", "warn", "--no-error-on-unmatched-pattern"])
        .args(patterns);
    Ok(command)
}

/// `cargo xtask fmt`: formats everything.
pub fn format_all() -> Result<()> {
    shell::run(shell::cargo().args(["fmt", "--all"]))?;
    shell::run(&mut prettier("--write")?)
}

/// One run, without arguments.
const PLAIN: &[&[&str]] = &[&[]];

/// The runs of a suite that has several, by their arguments.
const MODES: &[(&str, &[&[&str]])] = &[(
    "conformance",
    &[
        &["--page", "check"],
        &["--runtime", "celld", "--after", "evict"],
        &["--runtime", "celld", "--after", "kill"],
    ],
)];

/// Runs `tests/<suite>/run.mjs` for every suite, in each of its modes.
fn integration() -> Result<()> {
    v8::ensure()?;
    let node = node::program()?;
    node::install("tests/node")?;
    shell::run(shell::cargo().args(["build", "--package", "celld"]))?;
    let celld = shell::target_dir()?.join("debug/celld");
    let suites = suites()?;
    if suites.is_empty() {
        bail!("no suite was found: tests/*/run.mjs");
    }
    let mut failed = Vec::new();
    for suite in suites {
        let folder = suite
            .parent()
            .and_then(|folder| folder.file_name())
            .unwrap_or_default()
            .to_string_lossy();
        let modes = MODES.iter().find(|(name, _)| **name == *folder);
        let runs = modes.map_or(PLAIN, |(_, runs)| runs);
        for &arguments in runs {
            let name = format!("{folder} {}", arguments.join(" "));
            eprintln!("\n─ {} ─", name.trim_end());
            let mut command = shell::command(&node);
            command.arg(&suite).args(arguments).env("CELLD", &celld);
            shell::forget_cargo_run(&mut command);
            if let Err(error) = shell::run(&mut command) {
                eprintln!("error: {error:#}");
                failed.push(name.trim_end().to_owned());
            }
        }
    }
    if !failed.is_empty() {
        bail!("suites failed: {}", failed.join(", "));
    }
    Ok(())
}

fn suites() -> Result<Vec<PathBuf>> {
    let folder = shell::root().join("tests");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let script = entry?.path().join("run.mjs");
        if script.is_file() {
            found.push(script);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Result<Vec<&'static str>> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        Ok(choose(&arguments)?
            .into_iter()
            .map(|step| step.name)
            .collect())
    }

    #[test]
    fn all_steps_run_unless_some_are_chosen() {
        assert_eq!(names(&[]).expect("steps").len(), STEPS.len());
        assert_eq!(
            names(&["--only", "clippy,fmt"]).expect("steps"),
            ["fmt", "clippy"]
        );
        assert!(!names(&["--skip", "js"]).expect("steps").contains(&"js"));
    }

    #[test]
    fn an_unknown_step_is_an_error_that_lists_the_steps() {
        let error = names(&["--only", "clipy"]).expect_err("no such step");
        assert!(error.to_string().contains("clippy"), "{error}");
        assert!(names(&["--only"]).is_err());
        assert!(names(&["--fast"]).is_err());
    }
}
