//! What a node says to whoever runs it: lines of scripts, and news about itself.

use celld_runtime::api::ConsoleLine;

/// Takes lines and news. Called from many threads; must not block.
pub trait ConsoleSink: Send + Sync + 'static {
    /// A line of `console.*`, or an uncaught exception.
    fn line(&self, line: ConsoleLine);

    /// Something that the operator should know.
    fn notice(&self, notice: Notice);
}

/// News about the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A deployment serves.
    Adopted {
        /// Which Worker.
        script: String,
        /// Its content address.
        version: String,
        /// False for the first one of this Worker.
        replaced: bool,
    },
    /// A deployment could not be loaded; what served before goes on serving.
    Refused {
        /// Which Worker.
        script: String,
        /// Its content address, when it got so far.
        version: Option<String>,
        /// Why.
        why: String,
    },
    /// An isolate ended with everything in it.
    HostLost {
        /// Which Worker.
        script: String,
        /// Why.
        why: String,
    },
    /// An alarm failed too often and was given up.
    AlarmDropped {
        /// Namespace and id.
        cell: String,
    },
    /// The node log cannot be written. No further write will be acknowledged: stop the process.
    LogFailed {
        /// What happened and what to do.
        why: String,
    },
}

/// Sends everything to `tracing`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingSink;

impl ConsoleSink for TracingSink {
    fn line(&self, line: ConsoleLine) {
        let cell = line
            .cell
            .as_ref()
            .map(|(class, id)| format!("{class} {id}"));
        tracing::info!(
            level = line.level,
            worker = line.worker,
            cell,
            "{}",
            line.text
        );
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::Adopted {
                script, version, ..
            } => {
                tracing::info!(script, version, "deployment adopted");
            }
            Notice::Refused {
                script,
                version,
                why,
            } => {
                tracing::error!(script, version, "deployment refused: {why}");
            }
            Notice::HostLost { script, why } => tracing::warn!(script, "isolate lost: {why}"),
            Notice::AlarmDropped { cell } => tracing::warn!(cell, "alarm given up"),
            Notice::LogFailed { why } => tracing::error!("{why}"),
        }
    }
}
