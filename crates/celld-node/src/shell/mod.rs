//! The core's thread: events in, effects out.
//!
//! The thread itself never waits for anything but its channel. An effect is a message to a host,
//! a change of a published view, or a task on the tokio runtime whose result comes back as a
//! command.

mod cells;
mod effects;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use celld_core::{CellId, Core, Event, Generation, HostId};
use celld_runtime::api::{CellRemains, Limits, WorkerCode};
use celld_runtime::exchange::EventError;
use tokio::sync::oneshot;

use crate::assets::StaticAssets;
use crate::cells::{Base, CellError, Loaded};
use crate::console::Notice;
use crate::shared::Shared;

/// Commands that are taken before the effects of all of them are carried out.
const BATCH_MAX: usize = 256;

/// What reaches the core's thread.
pub(crate) enum Command {
    /// Something that only the core has to know.
    Core(Event),
    /// Code to adopt.
    Deploy {
        code: WorkerCode,
        /// CPU time of one event, instead of the node's limit.
        cpu_max: Option<Duration>,
        /// Its static files.
        assets: Option<Arc<StaticAssets>>,
        adopted: oneshot::Sender<Result<(), String>>,
    },
    /// A host has loaded its code, or not.
    HostStarted {
        host: HostId,
        result: Result<(), EventError>,
    },
    /// A cell has been read.
    Loaded {
        cell: CellId,
        result: Result<Loaded, CellError>,
    },
    /// A cell has left its host.
    Evicted {
        cell: CellId,
        result: Result<CellRemains, EventError>,
    },
    /// A record has been written. `None`: there was nothing to write.
    Saved {
        cell: CellId,
        result: Result<Option<Base>, CellError>,
    },
    /// Every cell is to leave that has nothing to do.
    EvictIdle {
        /// Told once the core has looked.
        done: oneshot::Sender<()>,
    },
    /// Every cell is to leave.
    Drain {
        grace: Duration,
        done: oneshot::Sender<()>,
    },
    /// The node is dropped: end at once.
    End,
}

/// What the shell keeps of a cell that is not cold.
struct Held {
    base: Base,
    epoch: celld_core::Epoch,
    name: Option<String>,
    /// The image, until a host takes it.
    loaded: Option<Loaded>,
    /// What an eviction left to be saved.
    remains: Option<CellRemains>,
    database: Option<PathBuf>,
}

/// Code that hosts of a generation run.
#[derive(Clone)]
struct Deployed {
    code: Arc<WorkerCode>,
    limits: Limits,
    assets: Option<Arc<StaticAssets>>,
}

pub(crate) struct Shell {
    core: Core,
    shared: Arc<Shared>,
    cells: HashMap<CellId, Held>,
    /// Why a cell's image could not be read, until it is told.
    failures: HashMap<CellId, String>,
    codes: HashMap<Generation, Deployed>,
    host_generation: HashMap<HostId, Generation>,
    deploying: HashMap<Generation, oneshot::Sender<Result<(), String>>>,
    /// Why a generation's host could not start.
    load_errors: HashMap<Generation, EventError>,
    last_generation: Generation,
    databases: u64,
    drained: Vec<oneshot::Sender<()>>,
    /// Who waits for the counts of a look at idle cells.
    looked: Vec<oneshot::Sender<()>>,
    ended: bool,
}

impl Shell {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            core: Core::new(shared.core_config.clone()),
            shared,
            cells: HashMap::new(),
            failures: HashMap::new(),
            codes: HashMap::new(),
            host_generation: HashMap::new(),
            deploying: HashMap::new(),
            load_errors: HashMap::new(),
            last_generation: Generation::default(),
            databases: 0,
            drained: Vec::new(),
            looked: Vec::new(),
            ended: false,
        }
    }

    /// Runs until the node has drained, or nobody is left to send commands.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        while !self.ended {
            match self.wait(commands) {
                Ok(command) => {
                    self.take(command);
                    commands
                        .try_iter()
                        .take(BATCH_MAX)
                        .for_each(|command| self.take(command));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = self.shared.clock.now();
            if self
                .core
                .poll_deadline()
                .is_some_and(|(at, _)| at <= now.mono)
            {
                self.core.handle_time(now);
            }
            self.carry_out();
        }
    }

    fn wait(&self, commands: &Receiver<Command>) -> Result<Command, RecvTimeoutError> {
        let Some((at, reason)) = self.core.poll_deadline() else {
            return commands.recv().map_err(|_| RecvTimeoutError::Disconnected);
        };
        let wait = at.get().saturating_sub(self.shared.clock.mono().get());
        let result = commands.recv_timeout(Duration::from_millis(wait));
        if matches!(result, Err(RecvTimeoutError::Timeout)) {
            tracing::trace!(reason, "the core wakes");
        }
        result
    }

    fn carry_out(&mut self) {
        // Answers to checks are fed back at once, and may lead to further effects.
        while let Some(effect) = self.core.poll_effect() {
            self.effect(effect);
        }
        *self.shared.counts.lock() = self.core.counts();
        for done in self.looked.drain(..) {
            let _ = done.send(());
        }
    }

    fn feed(&mut self, event: Event) {
        self.core.handle_event(event, self.shared.clock.now());
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Core(Event::HostLost { host }) => {
                self.feed(Event::HostLost { host });
                self.forget_host(host);
            }
            Command::Core(event) => self.feed(event),
            Command::Deploy {
                code,
                cpu_max,
                assets,
                adopted,
            } => self.deploy(code, cpu_max, assets, adopted),
            Command::HostStarted { host, result } => self.host_started(host, result),
            Command::Loaded { cell, result } => self.loaded(cell, result),
            Command::Evicted { cell, result } => self.evicted(cell, result),
            Command::Saved { cell, result } => self.saved(cell, result),
            Command::End => self.end(),
            Command::EvictIdle { done } => {
                self.feed(Event::EvictIdle);
                self.looked.push(done);
            }
            Command::Drain { grace, done } => {
                self.shared.draining.store(true, Ordering::Relaxed);
                self.drained.push(done);
                let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
                self.feed(Event::Drain { grace_ms });
            }
        }
    }

    fn deploy(
        &mut self,
        code: WorkerCode,
        cpu_max: Option<Duration>,
        assets: Option<Arc<StaticAssets>>,
        adopted: oneshot::Sender<Result<(), String>>,
    ) {
        if self.shared.draining.load(Ordering::Relaxed) {
            let _ = adopted.send(Err("the node is shutting down".into()));
            return;
        }
        let generation = self.last_generation.next();
        self.last_generation = generation;
        let namespaces = code
            .classes
            .iter()
            .map(|class| class.namespace.clone())
            .collect();
        let script = celld_core::ScriptName::new(&code.name);
        let mut limits = self.shared.limits.clone();
        limits.cpu_max = cpu_max.unwrap_or(limits.cpu_max);
        self.codes.insert(
            generation,
            Deployed {
                code: Arc::new(code),
                limits,
                assets,
            },
        );
        self.deploying.insert(generation, adopted);
        self.feed(Event::Deployed {
            script,
            generation,
            namespaces,
        });
    }

    fn host_started(&mut self, host: HostId, result: Result<(), EventError>) {
        match result {
            Ok(()) => self.feed(Event::HostReady { host }),
            Err(why) => {
                if let Some(generation) = self.host_generation.get(&host) {
                    tracing::error!(%host, why = why.message, "an isolate could not be started");
                    self.load_errors.insert(*generation, why);
                }
                self.feed(Event::HostFailed { host });
                self.forget_host(host);
            }
        }
    }

    /// Forgets a host that has ended, and the code that no host runs any more.
    fn forget_host(&mut self, host: HostId) {
        self.shared.hosts.pin().remove(&host);
        let Some(generation) = self.host_generation.remove(&host) else {
            return;
        };
        let used = self
            .host_generation
            .values()
            .any(|other| *other == generation);
        let deploying = self.deploying.contains_key(&generation);
        if !used && !deploying && generation < self.newest(generation) {
            self.codes.remove(&generation);
            self.load_errors.remove(&generation);
        }
    }

    /// The newest generation of the same script.
    fn newest(&self, of: Generation) -> Generation {
        let Some(known) = self.codes.get(&of) else {
            return of;
        };
        let same = self
            .codes
            .iter()
            .filter(|(_, other)| other.code.name == known.code.name);
        same.map(|(generation, _)| *generation).max().unwrap_or(of)
    }

    /// Tells whoever deployed a generation what became of it.
    fn deployment_ended(&mut self, generation: Generation, result: Result<bool, ()>) {
        let Some(Deployed { code, .. }) = self.codes.get(&generation).cloned() else {
            return;
        };
        let (script, version) = (code.name.clone(), code.version.clone());
        let (notice, answer) = match result {
            Ok(replaced) => (
                Notice::Adopted {
                    script,
                    version,
                    replaced,
                },
                Ok(()),
            ),
            Err(()) => {
                let why = self.load_errors.remove(&generation).map_or_else(
                    || "a newer deployment came before it was loaded".into(),
                    |error| error.stack.clone().unwrap_or_else(|| error.to_string()),
                );
                (
                    Notice::Refused {
                        script,
                        version: Some(version),
                        why: why.clone(),
                    },
                    Err(why),
                )
            }
        };
        if let Some(waiting) = self.deploying.remove(&generation) {
            let _ = waiting.send(answer);
        }
        self.shared.console.notice(notice);
    }
}
