//! Project tasks: `cargo xtask <task>`. `cargo xtask help` lists them.
//!
//! This crate must not depend on V8, directly or not: it is what brings V8's library to a machine
//! that has none, so it has to build first.

mod bench;
mod dev;
mod node;
mod shell;
mod sim;
mod test;
mod tidy;
mod v8;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
Usage: cargo xtask <task> [arguments]

  dev [PROJECT] [ARGS…]   set up what is missing, build celld and run `celld dev PROJECT ARGS…`
  test [--only A,B]       set up what is missing and run every check and test
       [--skip A,B]       (steps: fmt, tidy, clippy, js, unit, integration)
       [--list]           print the steps
  fmt                     format Rust, JavaScript and TypeScript
  tidy                    check the rules of the house on the tracked files
  v8 [--from SOURCE]      provide V8's static library; without --from, the first that works of
                          cache, mirror, download, source
     [--until STAGE]      with --from source: stop after fetch, prepare, configure or compile
     [--check]            read the cached library through and compare its checksum
  sim [--seeds N]         simulate a fleet through N seeds (100,000 where nothing is said)
      [--from S]          beginning with this one
  bench [ARGS…]           build celld for release and run the benchmark under perf/
  help                    print this text
";

fn main() -> ExitCode {
    // Installed as `clang++` in a V8 source build, this program is the compiler's wrapper.
    if let Some(code) = v8::source::compiler::run_if_called_as_compiler() {
        return code;
    }
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<()> {
    if arguments.is_empty() {
        print!("{HELP}");
        return Ok(());
    }
    let task = arguments.remove(0);
    match task.as_str() {
        "dev" => dev::run(arguments),
        "test" => test::run(&arguments),
        "fmt" => test::format_all(),
        "tidy" => tidy::run(&arguments),
        "v8" => v8::run(&arguments),
        "bench" => bench::run(arguments),
        "sim" => sim::run(&arguments),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => bail!("there is no task '{other}'; `cargo xtask help` lists them"),
    }
}
