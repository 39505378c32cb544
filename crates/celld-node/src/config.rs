//! What a node is started with.

use std::path::PathBuf;
use std::sync::Arc;

use celld_bucket::BucketUrl;
use celld_runtime::api::Limits;

use crate::console::{ConsoleSink, TracingSink};
use crate::hosts::{HostFactory, IsolateHosts};
use crate::outbound::OutboundConfig;

/// Settings of a node.
pub struct NodeConfig {
    /// The bucket; a local directory. One node at a time may use it.
    pub bucket: BucketUrl,
    /// Directory for working files. What an earlier process left there is removed.
    pub scratch: PathBuf,
    /// The start-up snapshot of isolates.
    pub snapshot: &'static [u8],
    /// Limits of isolates and their events.
    pub limits: Limits,
    /// Limits and periods of the core.
    pub core: celld_core::Config,
    /// How the node log is written.
    pub log: celld_log::Options,
    /// Outgoing requests of scripts.
    pub outbound: OutboundConfig,
    /// Events that may wait for cells on their way in, all cells together (default 50,000).
    pub waiting_max: usize,
    /// The Worker that gets public requests; needed when several are deployed.
    pub default_script: Option<String>,
    /// Where lines of scripts and news of the node go.
    pub console: Arc<dyn ConsoleSink>,
    /// Starts isolate hosts.
    pub hosts: Arc<dyn HostFactory>,
}

impl NodeConfig {
    /// Defaults for everything that has one.
    pub fn new(bucket: BucketUrl, scratch: PathBuf, snapshot: &'static [u8]) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            bucket,
            scratch,
            snapshot,
            limits: Limits::default(),
            core: celld_core::Config {
                stateless_hosts_max: cpus,
                ..celld_core::Config::default()
            },
            log: celld_log::Options::default(),
            outbound: OutboundConfig::default(),
            waiting_max: 50_000,
            default_script: None,
            console: Arc::new(TracingSink),
            hosts: Arc::new(IsolateHosts),
        }
    }
}
