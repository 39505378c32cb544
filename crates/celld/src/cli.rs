//! The command line. What is written here is the help text, and `docs/cli.md` follows it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Effects};
use clap::{Args, Parser, Subcommand};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().effects(Effects::BOLD))
    .usage(AnsiColor::Yellow.on_default().effects(Effects::BOLD))
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Green.on_default())
    .error(AnsiColor::Red.on_default().effects(Effects::BOLD))
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// Cloudflare Workers and Durable Objects on your own machine, unchanged.
#[derive(Debug, Parser)]
#[command(name = "celld", version, styles = STYLES, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  celld dev                                        Serve the project in this directory
  celld deploy --bucket file:///srv/cells          Upload it
  celld run --bucket file:///srv/cells             Serve what is uploaded there
  celld explain CD0201                             What an error means, and what to do

Exit status: 0 success, 1 error, 2 wrong usage, 3 writes can no longer be made durable.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// True when the output is for programs.
    pub fn json(&self) -> bool {
        match &self.command {
            Command::Dev(arguments) => arguments.json,
            Command::Deploy(arguments) => arguments.json,
            Command::Run(arguments) => arguments.json,
            Command::Explain(arguments) => arguments.json,
        }
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a project while you work on it.
    Dev(DevArgs),
    /// Build a project and make it the current deployment in a bucket.
    Deploy(DeployArgs),
    /// Serve what is deployed in a bucket.
    Run(RunArgs),
    /// Explain an error code, or list them all.
    Explain(ExplainArgs),
}

/// `celld dev`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sources, the configuration and .dev.vars are watched: a change is built and adopted without a
restart, and what does not build leaves the old code serving. Data survives restarts and crashes.

To run the scheduled handler by hand:
  curl 'http://127.0.0.1:8787/cdn-cgi/handler/scheduled?cron=*+*+*+*+*'

Examples:
  celld dev                               Serve the project in this directory on port 8787
  celld dev path/to/project --port 3000   Another project, another port
  celld dev --env staging                 With an environment of the configuration
  celld dev --persist-to /tmp/data        With its data elsewhere")]
pub struct DevArgs {
    /// The project's directory, or its Wrangler configuration file.
    #[arg(default_value = ".", env = "CELLD_PROJECT")]
    pub project: PathBuf,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, short, default_value_t = 8787, env = "CELLD_PORT")]
    pub port: u16,
    /// Address to listen on. 0.0.0.0 lets others reach it.
    #[arg(
        long,
        default_value = "127.0.0.1",
        env = "CELLD_HOST",
        value_name = "ADDRESS"
    )]
    pub host: IpAddr,
    /// Where data is kept [default: .celld in the project].
    #[arg(long, value_name = "DIR", env = "CELLD_PERSIST_TO")]
    pub persist_to: Option<PathBuf>,
    /// Environment of the configuration (`env.NAME`).
    #[arg(long, short, value_name = "NAME", env = "CELLD_ENV")]
    pub env: Option<String>,
    /// Print JSON lines, for programs.
    #[arg(long, env = "CELLD_JSON")]
    pub json: bool,
    /// Don't watch for changes.
    #[arg(long, env = "CELLD_NO_WATCH")]
    pub no_watch: bool,
}

/// `celld deploy`.
#[derive(Debug, Args)]
#[command(after_help = "\
A deployment is immutable and named by its contents; modules that are in the bucket already are not
uploaded again. Deploying moves a pointer, and running nodes adopt the new code within seconds,
without dropping a request. Before anything is uploaded the program is started once, so that code
that throws at start-up or lacks a bound class never becomes current.

Examples:
  celld deploy --bucket file:///srv/cells
  celld deploy path/to/project --env production --bucket file:///srv/cells
  celld deploy --dry-run                  Show what would be uploaded; needs no bucket")]
pub struct DeployArgs {
    /// The project's directory, or its Wrangler configuration file.
    #[arg(default_value = ".", env = "CELLD_PROJECT")]
    pub project: PathBuf,
    /// The bucket, such as file:///srv/cells.
    #[arg(
        long,
        value_name = "URL",
        env = "CELLD_BUCKET",
        required_unless_present = "dry_run"
    )]
    pub bucket: Option<String>,
    /// Environment of the configuration (`env.NAME`).
    #[arg(long, short, value_name = "NAME", env = "CELLD_ENV")]
    pub env: Option<String>,
    /// Show what would be uploaded, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON, for programs.
    #[arg(long, env = "CELLD_JSON")]
    pub json: bool,
}

/// `celld run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Newer deployments are adopted within seconds. SIGTERM and Ctrl-C end the node in order: requests in
progress are finished, and every object is saved.

Examples:
  celld run --bucket file:///srv/cells
  celld run --bucket file:///srv/cells --listen 0.0.0.0:80 --internal-listen 127.0.0.1:9090
  celld run --bucket file:///srv/cells --json 2>&1 | my-log-collector")]
pub struct RunArgs {
    /// The bucket, such as file:///srv/cells.
    #[arg(long, value_name = "URL", env = "CELLD_BUCKET")]
    pub bucket: String,
    /// Address and port of the public listener.
    #[arg(
        long,
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS",
        env = "CELLD_LISTEN"
    )]
    pub listen: SocketAddr,
    /// Address and port of the internal listener: /healthz, /readyz, /debug/metrics [default: none].
    #[arg(long, value_name = "ADDRESS", env = "CELLD_INTERNAL_LISTEN")]
    pub internal_listen: Option<SocketAddr>,
    /// File with the token that the internal listener asks for. Required unless it listens on a
    /// loopback address.
    #[arg(long, value_name = "FILE", env = "CELLD_INTERNAL_TOKEN_FILE")]
    pub internal_token_file: Option<PathBuf>,
    /// Directory for working files, which are worth nothing after a stop [default: beside the bucket].
    #[arg(long, value_name = "DIR", env = "CELLD_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The Worker that gets public requests. Needed when several are deployed.
    #[arg(long, value_name = "NAME", env = "CELLD_WORKER")]
    pub worker: Option<String>,
    /// Let Workers reach loopback, private and link-local addresses with fetch.
    #[arg(long, env = "CELLD_ALLOW_PRIVATE_NETWORK")]
    pub allow_private_network: bool,
    /// Believe X-Forwarded-For and X-Forwarded-Proto. Only behind a proxy that sets them.
    #[arg(long, env = "CELLD_TRUST_PROXY")]
    pub trust_proxy: bool,
    /// PEM file of certificate authorities that fetch trusts beside the built-in ones.
    #[arg(long, value_name = "FILE", env = "CELLD_EXTRA_CA_FILE")]
    pub extra_ca_file: Option<PathBuf>,
    /// Log each request.
    #[arg(long, env = "CELLD_ACCESS_LOG")]
    pub access_log: bool,
    /// Print JSON lines, for programs.
    #[arg(long, env = "CELLD_JSON")]
    pub json: bool,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Limits of `celld run`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Heap of one isolate, in MiB.
    #[arg(long, default_value_t = 128, value_name = "MIB", env = "CELLD_HEAP_MAX_MIB",
          value_parser = clap::value_parser!(u64).range(16..=4096))]
    pub heap_max_mib: u64,
    /// CPU time of one event, in ms, where the Worker sets none.
    #[arg(long, default_value_t = 30_000, value_name = "MS", env = "CELLD_CPU_MAX_MS",
          value_parser = clap::value_parser!(u64).range(10..=300_000))]
    pub cpu_max_ms: u64,
    /// Events of one Durable Object that may be in progress or waiting.
    #[arg(long, default_value_t = 1_000, value_name = "N", env = "CELLD_CELL_EVENTS_MAX",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub cell_events_max: u64,
    /// Largest request body, in MiB.
    #[arg(long, default_value_t = 100, value_name = "MIB", env = "CELLD_BODY_MAX_MIB",
          value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub body_max_mib: u64,
    /// Durable Objects in memory at once.
    #[arg(long, default_value_t = 10_000, value_name = "N", env = "CELLD_RESIDENT_MAX",
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub resident_max: u64,
    /// Client connections at once.
    #[arg(long, default_value_t = 10_000, value_name = "N", env = "CELLD_CONNECTIONS_MAX",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub connections_max: u64,
    /// Time for requests in progress at the end, in seconds.
    #[arg(long, default_value_t = 8, value_name = "S", env = "CELLD_DRAIN_S",
          value_parser = clap::value_parser!(u64).range(0..=3_600))]
    pub drain_s: u64,
}

/// `celld explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The code, such as CD0201; all are listed without it.
    pub code: Option<String>,
    /// Print JSON, for programs.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_of_every_command_is_explained_in_the_docs() {
        let page = include_str!("../../../docs/cli.md");
        for command in Cli::command().get_subcommands() {
            assert!(
                page.contains(&format!("## celld {}", command.get_name())),
                "{}",
                command.get_name()
            );
            for argument in command.get_arguments() {
                let Some(long) = argument
                    .get_long()
                    .filter(|long| *long != "help" && *long != "version")
                else {
                    continue;
                };
                assert!(
                    page.contains(&format!("`--{long}")),
                    "docs/cli.md lacks --{long}"
                );
                if let Some(variable) = argument.get_env().and_then(|name| name.to_str()) {
                    assert!(page.contains(variable), "docs/cli.md lacks {variable}");
                }
            }
        }
    }

    #[test]
    fn a_deployment_needs_a_bucket_unless_it_is_a_dry_run() {
        assert!(Cli::try_parse_from(["celld", "deploy", "--dry-run"]).is_ok());
        if std::env::var_os("CELLD_BUCKET").is_none() {
            assert!(Cli::try_parse_from(["celld", "deploy"]).is_err());
        }
    }
}
