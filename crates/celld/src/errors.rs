//! Errors as users see them: each kind has a code, a cause and a next step, in one table.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::output::Output;

/// A kind of error.
#[derive(Debug)]
pub struct Kind {
    /// Stable code.
    pub code: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// Why it happens.
    pub cause: &'static str,
    /// What to do.
    pub next: &'static str,
}

macro_rules! kinds {
    ($($name:ident = $code:literal, $title:literal, cause: $cause:literal, next: $next:literal;)*) => {
        $(
            pub static $name: &Kind = &Kind { code: $code, title: $title, cause: $cause, next: $next };
        )*
        /// All kinds, in the order of their codes.
        pub static KINDS: &[&Kind] = &[$($name),*];
    };
}

kinds! {
    CONFIG = "CD0101", "the project's configuration cannot be used",
        cause: "The Wrangler configuration is missing, is not valid JSON or TOML, or holds a key or value that celld cannot follow. Each finding names the file, the line, and what is expected there.",
        next: "Correct what the findings name; a misspelt key comes with the likely name. docs/configuration.md lists every key and what celld does with it.";
    DEV_VARS = "CD0102", ".dev.vars cannot be used",
        cause: "The file with local secrets cannot be read, or a line of it is not NAME=value.",
        next: "Correct the line that is named. Values with spaces or # need quotes.";
    BUILD = "CD0103", "the project does not build",
        cause: "A source has a syntax error, or imports something that is not there. Each finding shows the place.",
        next: "Correct the sources; for a missing package run your package manager's install. While `celld dev` runs, the code that built last goes on serving.";
    START_UP = "CD0104", "the program does not start",
        cause: "The code throws while its modules are loaded, or does not export a class or entrypoint that the configuration names.",
        next: "The message and its stack show the place. Code outside of handlers may not wait, fetch, or use random numbers.";
    MIGRATIONS = "CD0105", "the migrations don't fit",
        cause: "Durable Object classes and `migrations` contradict each other, or what was deployed before: a bound class was never created, or an applied migration was changed.",
        next: "Add a migration with a new tag at the end of the list; never change one that was deployed.";
    PROGRAM = "CD0106", "the program cannot be deployed",
        cause: "The program is larger than a deployment may be, or holds something that no deployment can.",
        next: "The message names what is too large. Move large data out of modules and variables.";
    PORT_IN_USE = "CD0201", "the port is in use",
        cause: "Another program, perhaps another celld, listens on this address and port.",
        next: "Stop that program (`ss -ltnp` shows it), or choose another port: --port for `celld dev`, --listen for `celld run`.";
    LISTEN = "CD0202", "cannot listen on the address",
        cause: "The address does not belong to this machine, or the port needs rights that this user lacks (ports below 1024).",
        next: "Choose an address of this machine and a port from 1024 up, or grant the right (`setcap cap_net_bind_service=+ep`).";
    TOKEN = "CD0203", "the internal listener's token cannot be used",
        cause: "The token file cannot be read or holds no usable token, or the internal listener is reachable from other machines without one.",
        next: "Write a token (`openssl rand -hex 32 > FILE`), protect the file, and name it with --internal-token-file.";
    BUCKET_URL = "CD0301", "the bucket cannot be opened",
        cause: "The URL is not one of a bucket that this version knows, or the directory cannot be used.",
        next: "Write file:///absolute/directory, and make sure that this user may write there.";
    BUCKET = "CD0302", "the bucket failed",
        cause: "Reading from or writing to the bucket failed: a full or failing disk, or missing rights.",
        next: "The message names the object and the system's reason. Nothing that was acknowledged is lost. Repair it and try again.";
    DAMAGED = "CD0303", "a deployment in the bucket cannot be used",
        cause: "An object of the deployment is missing, damaged, or written by another version of celld. Every hash is verified before code runs.",
        next: "Deploy the project again: damaged modules must be deleted first, under the name that the message gives.";
    NOTHING_DEPLOYED = "CD0304", "nothing is deployed in the bucket",
        cause: "`celld run` serves what `celld deploy` has put into the bucket, and there is nothing.",
        next: "Run `celld deploy PROJECT --bucket URL` with this bucket, then start the node again.";
    WHICH_WORKER = "CD0305", "it is not clear which Worker is to be served",
        cause: "Several Workers are deployed in the bucket, or the one that was asked for is not among them.",
        next: "Name one with --worker.";
    CONTENDED = "CD0306", "the deployment was not made current",
        cause: "Other uploads of the same Worker got in the way, or the answer to the decisive write was lost.",
        next: "Deploy again; uploading twice does no harm.";
    NODE_START = "CD0401", "the node cannot start",
        cause: "The node log, the scratch directory or a system resource cannot be had. A bucket directory serves one node at a time.",
        next: "The message names what is missing. If another node uses this bucket, stop it first.";
    LOG_FAILED = "CD0402", "writes can no longer be made durable",
        cause: "The node log could not be written. Everything that was acknowledged is on disk; nothing further will be acknowledged, so the process ends with status 3.",
        next: "Look at the disk (space, errors in the kernel's log), then start the node again: it recovers by itself.";
    DRAIN = "CD0403", "the node did not end in order",
        cause: "Some objects could not be saved within the time for shutting down. Nothing acknowledged is lost: the next start recovers them from the log.",
        next: "Nothing needs to be done; give a longer --drain-s if it happens often.";
    IN_USE = "CD0404", "the data is in use by another node",
        cause: "A bucket directory serves one node at a time, and another celld process holds it: a `celld dev` of the same project, or a `celld run` of the same bucket.",
        next: "Stop the process that the message names, or use other data: --persist-to for `celld dev`, --bucket and --data-dir for `celld run`.";
    DATA_DIR = "CD0501", "the data directory cannot be used",
        cause: "The directory for data or working files cannot be made or written.",
        next: "Check its rights, or name another with --persist-to (`celld dev`) or --data-dir (`celld run`).";
    WATCH = "CD0502", "changes cannot be watched",
        cause: "The system refuses to watch the project, or it has too many directories.",
        next: "Raise the limit that the message names, or start with --no-watch.";
    UNKNOWN_CODE = "CD0503", "there is no such error code",
        cause: "`celld explain` was asked about a code that this version does not use.",
        next: "Run `celld explain` for the list.";
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// Which kind.
    pub kind: &'static Kind,
    /// What happened, where; may have several lines.
    pub message: String,
    /// Findings, for programs.
    pub findings: Vec<Value>,
    /// Already rendered findings, for people, colours included.
    pub rendered: Option<String>,
}

impl Failure {
    /// A failure without findings.
    pub fn new(kind: &'static Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            findings: Vec::new(),
            rendered: None,
        }
    }

    /// The process's exit status.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(if std::ptr::eq(self.kind, LOG_FAILED) {
            3
        } else {
            1
        })
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "code": self.kind.code,
            "title": self.kind.title,
            "message": self.message,
            "help": self.kind.next,
            "findings": self.findings,
        })
    }
}

/// `celld explain`.
pub fn explain(code: Option<&str>, output: &Output) -> Result<(), Failure> {
    let Some(code) = code else {
        output.kinds(KINDS);
        return Ok(());
    };
    match KINDS
        .iter()
        .find(|kind| kind.code.eq_ignore_ascii_case(code))
    {
        Some(kind) => {
            output.kind(kind);
            Ok(())
        }
        None => Err(Failure::new(
            UNKNOWN_CODE,
            format!("{code:?} is not an error code"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_sorted_and_well_formed() {
        for pair in KINDS.windows(2) {
            assert!(
                pair[0].code < pair[1].code,
                "{} and {}",
                pair[0].code,
                pair[1].code
            );
        }
        for kind in KINDS {
            let digits = kind.code.strip_prefix("CD").unwrap();
            assert!(
                digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()),
                "{}",
                kind.code
            );
            assert!(
                kind.cause.ends_with('.') && kind.next.ends_with('.'),
                "{}",
                kind.code
            );
        }
    }

    #[test]
    fn every_code_is_in_the_docs() {
        let page = include_str!("../../../docs/cli.md");
        for kind in KINDS {
            assert!(page.contains(kind.code), "docs/cli.md lacks {}", kind.code);
        }
    }

    #[test]
    fn lost_durability_has_its_own_exit_status() {
        assert_eq!(Failure::new(LOG_FAILED, "").exit_code(), ExitCode::from(3));
        assert_eq!(Failure::new(BUILD, "").exit_code(), ExitCode::from(1));
    }
}
