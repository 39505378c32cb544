//! The `celld` program: develops, deploys and runs Workers with Durable Objects.

mod adopt;
mod check;
mod cli;
mod collect;
mod console;
mod deploy;
mod dev;
mod errors;
mod excerpt;
mod listen;
mod logging;
mod output;
mod printer;
mod project;
mod report;
mod run;
mod table;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use errors::Failure;
use output::Output;

/// Requests are made of many small allocations on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.json());
    match dispatch(cli, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            output.failure(&failure);
            code
        }
    }
}

fn dispatch(cli: Cli, output: &Output) -> Result<(), Failure> {
    match cli.command {
        Command::Dev(arguments) => {
            logging::start(output.json(), "warn,celld=info,celld_node=info");
            block_on(dev::dev(arguments, output))
        }
        Command::Deploy(arguments) => {
            logging::start(output.json(), "warn");
            block_on(deploy::deploy(arguments, output))
        }
        Command::Run(arguments) => {
            let access = if arguments.access_log { "info" } else { "off" };
            logging::start(
                output.json(),
                &format!("warn,celld=info,celld_node=info,celld::access={access}"),
            );
            block_on(run::run(arguments, output))
        }
        Command::Explain(arguments) => errors::explain(arguments.code.as_deref(), output),
    }
}

/// Runs a command on the runtime that carries all I/O of the process.
fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("celld-io")
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                errors::NODE_START,
                format!("cannot start threads for I/O: {error}"),
            )
        })?;
    let result = runtime.block_on(work);
    // A blocking read or a name look-up must not hold up the end of the process.
    runtime.shutdown_background();
    result
}
