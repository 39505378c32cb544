//! Runs Ninja and shows how far it is.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::Workshop;
use super::compiler;
use super::packages::Llvm;

/// Ninja's jobs for each core: a group's members wait for its first one.
const JOBS_PER_CORE: usize = 11;
/// How many of Ninja's last lines an error shows.
const LAST_LINES: usize = 40;
/// Where no bar can be drawn, a line is printed this often.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Compiles the library.
pub fn run_ninja(shop: &Workshop, llvm: &Llvm) -> Result<()> {
    let mut ninja = Command::new("ninja");
    ninja.current_dir(shop.tree()).args(["-C", "out", "-j"]);
    ninja
        .arg((shop.cores * JOBS_PER_CORE).to_string())
        .arg("rusty_v8");
    ninja
        .env("NINJA_STATUS", "[%f/%t] ")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    ninja.env(compiler::REAL_COMPILER, llvm.folder.join("bin/clang++"));
    ninja.env(compiler::UNITS, shop.units());
    ninja.env(compiler::SLOTS, shop.cores.to_string());
    let mut child = ninja
        .stdout(Stdio::piped())
        .spawn()
        .context("starting ninja")?;
    let output = child.stdout.take().context("ninja's output is a pipe")?;

    let log_path = shop.base.join("build.log");
    let mut log = File::create(&log_path)?;
    let mut last = VecDeque::with_capacity(LAST_LINES);
    let mut meter = Meter::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        writeln!(log, "{line}")?;
        match parse_status(&line) {
            Some((done, all)) => meter.show(done, all),
            None => {
                if last.len() == LAST_LINES {
                    last.pop_front();
                }
                last.push_back(line);
            }
        }
    }
    let status = child.wait()?;
    meter.bar.finish_and_clear();
    if !status.success() {
        let text: Vec<String> = last.into();
        bail!(
            "ninja failed ({status}); its last messages:\n{}\nThe whole log: {}",
            text.join("\n"),
            log_path.display()
        );
    }
    Ok(())
}

/// `[12/3456] CXX …`: steps done, steps in all.
fn parse_status(line: &str) -> Option<(u64, u64)> {
    let (counts, _) = line.strip_prefix('[')?.split_once("] ")?;
    let (done, all) = counts.split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

struct Meter {
    bar: ProgressBar,
    started: Instant,
    next_line: Duration,
}

impl Meter {
    fn new() -> Self {
        let bar = ProgressBar::new(1);
        let style = "V8 {bar:40} {pos}/{len} steps, {elapsed} passed, about {eta} to go";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_secs(1));
        Self {
            bar,
            started: Instant::now(),
            next_line: LINE_INTERVAL,
        }
    }

    fn show(&mut self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
        let passed = self.started.elapsed();
        if self.bar.is_hidden() && passed >= self.next_line {
            self.next_line = passed + LINE_INTERVAL;
            let left = estimate_left(passed, done, all);
            eprintln!(
                "V8: {done} of {all} steps, {} min passed, about {} min to go",
                passed.as_secs() / 60,
                left.as_secs().div_ceil(60)
            );
        }
    }
}

fn estimate_left(passed: Duration, done: u64, all: u64) -> Duration {
    let left = all.saturating_sub(done) as f64;
    passed.mul_f64(left / done.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_from_the_line() {
        assert_eq!(parse_status("[12/3456] CXX obj/v8/a.o"), Some((12, 3456)));
        assert_eq!(parse_status("FAILED: obj/v8/a.o"), None);
        assert_eq!(parse_status("[oops] x"), None);
    }

    #[test]
    fn the_estimate_follows_the_steps() {
        assert_eq!(
            estimate_left(Duration::from_secs(60), 10, 40),
            Duration::from_secs(180)
        );
        assert_eq!(
            estimate_left(Duration::from_secs(60), 40, 40),
            Duration::ZERO
        );
    }
}
