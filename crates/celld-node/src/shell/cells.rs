//! Effects that concern one cell.

use std::sync::Arc;
use std::time::Duration;

use celld_core::{Activity, CellId, Event, HostId, Leave, Lsn, Refusal};
use celld_runtime::api::{CellImage, CellRemains, HostMessage};
use celld_runtime::exchange::{EventError, reply};
use celld_runtime::pulse::Pulse;

use super::{Command, Held, Shell};
use crate::cells::{self, Base, CellError, Fresh, Loaded};
use crate::refuse;
use crate::shared::{Counters, Shared};

impl Shell {
    pub(super) fn load_image(&mut self, cell: CellId) {
        let shared = self.shared.clone();
        let settled = self.settled(&cell);
        self.shared.tokio.spawn(async move {
            let result = cells::load(&shared.store, &cell, settled).await;
            shared.command(Command::Loaded { cell, result });
        });
    }

    /// The cell's last commit of this session, which reading its data must wait for.
    fn settled(&self, cell: &CellId) -> Lsn {
        self.shared
            .routes
            .port(cell)
            .map_or(Lsn::default(), |port| port.last_lsn())
    }

    pub(super) fn loaded(&mut self, cell: CellId, result: Result<Loaded, CellError>) {
        match result {
            Ok(loaded) => {
                let held = Held {
                    base: loaded.base.clone(),
                    epoch: loaded.epoch,
                    name: loaded.name.clone(),
                    loaded: Some(loaded),
                    remains: None,
                    database: None,
                };
                self.cells.insert(cell.clone(), held);
                self.feed(Event::ImageLoaded { cell });
            }
            Err(error) => {
                tracing::error!(%cell, %error, "cannot read a cell");
                self.failures.insert(cell.clone(), error.to_string());
                self.feed(Event::ImageFailed { cell });
            }
        }
    }

    pub(super) fn activate(&mut self, cell: CellId, host: HostId) {
        let entry = self.shared.hosts.pin().get(&host).cloned();
        let (Some(entry), Some(held)) = (entry, self.cells.get_mut(&cell)) else {
            self.feed(Event::HostLost { host });
            return;
        };
        let Some(loaded) = held.loaded.take() else {
            return;
        };
        self.databases += 1;
        let database = self
            .shared
            .store
            .scratch
            .join(format!("cell-{}.sqlite", self.databases));
        held.database = Some(database.clone());
        let port = self.shared.routes.port_or_new(&cell);
        port.know_alarm(loaded.alarm_ms);
        let sockets = self.shared.cell_sockets(&cell);
        let name = loaded
            .name
            .or_else(|| port.name().map(|name| name.to_string()))
            .or_else(|| sockets.name.get().cloned());
        if let Some(name) = &name {
            // A cell that hibernates without having written keeps its name with its sockets.
            let _ = sockets.name.set(name.clone());
        }
        held.name.clone_from(&name);
        let pulse = Arc::new(Pulse::new(self.shared.clock.origin()));
        let image = CellImage {
            cell: cell.clone(),
            class_name: Shared::class_name(entry.code(), &cell),
            name,
            epoch: loaded.epoch,
            txid: loaded.txid,
            database,
            snapshot: loaded.snapshot,
            tail: loaded.tail,
            sockets,
            pulse: pulse.clone(),
        };
        Counters::one(&self.shared.counters.activations);
        let message = HostMessage::Activate(Box::new(image));
        self.shared
            .routes
            .open(&cell, entry, message, pulse, self.shared.clock.mono());
    }

    pub(super) fn refuse(&mut self, cell: CellId, why: Refusal) {
        let detail = match why {
            Refusal::HostFailed => self.host_failure(),
            Refusal::Quarantined { .. } => {
                let all = self.shared.quarantined.lock();
                all.get(&cell).map(|why| why.reason().to_owned())
            }
            _ => self.failures.remove(&cell),
        };
        let error = refuse::refusal(why, cell.namespace.as_str(), detail.as_deref());
        self.shared.routes.refuse(&cell, &error);
        self.release(cell);
    }

    fn host_failure(&self) -> Option<String> {
        let newest = self
            .load_errors
            .iter()
            .max_by_key(|(generation, _)| **generation);
        newest.map(|(_, error)| error.message.clone())
    }

    /// The cell is cold. Events that came meanwhile start it again.
    pub(super) fn release(&mut self, cell: CellId) {
        if let Some(database) = self.cells.remove(&cell).and_then(|held| held.database) {
            self.remove_database(database);
        }
        if self.shared.cell_sockets(&cell).is_empty() {
            self.shared.sockets.pin().remove(&cell);
        }
        let settled = self.settled(&cell);
        if settled > self.shared.store.log.durable() {
            // The port remembers what a later load must wait for; it goes when that is in the log.
            let (shared, late) = (self.shared.clone(), cell.clone());
            let gate = move |_: Result<(), celld_log::LogFailed>| {
                shared.routes.release_settled(&late, settled)
            };
            self.shared.store.log.when_durable(settled, Box::new(gate));
            if self.shared.routes.has_waiting(&cell) {
                self.shared.tell(Event::Wanted { cell });
            }
        } else if !self.shared.routes.release(&cell) {
            self.shared.tell(Event::Wanted { cell });
        }
    }

    pub(super) fn check_cell(&mut self, cell: CellId) {
        let Some(port) = self.shared.routes.port(&cell) else {
            return;
        };
        let activity = match port.pulse() {
            Some(pulse) => Activity {
                last_used: pulse.used_at(),
                busy: pulse.is_busy(),
                spent_us: pulse.spent_us(),
            },
            // Its host has died, which is about to be known here.
            None => Activity {
                last_used: self.shared.clock.mono(),
                busy: true,
                spent_us: 0,
            },
        };
        self.feed(Event::CellActivity { cell, activity });
    }

    pub(super) fn evict(&mut self, cell: CellId, host: HostId, grace_ms: u64, why: Leave) {
        Counters::one(&self.shared.counters.evictions);
        let (reply, answer) = reply();
        let message = HostMessage::Evict {
            cell: cell.clone(),
            reason: refuse::leaving(why),
            grace: Duration::from_millis(grace_ms),
            reply,
        };
        let entry = self.shared.hosts.pin().get(&host).cloned();
        match entry {
            Some(entry) => self.shared.routes.close(&cell, &entry, message),
            // The host died a moment ago: dropping the message answers it.
            None => drop(message),
        }
        let shared = self.shared.clone();
        self.shared.tokio.spawn(async move {
            let result = answer.await;
            shared.command(Command::Evicted { cell, result });
        });
    }

    pub(super) fn evicted(&mut self, cell: CellId, result: Result<CellRemains, EventError>) {
        let mut unsaved = false;
        if let Some(held) = self.cells.get_mut(&cell) {
            match result {
                Ok(remains) => {
                    unsaved = remains.snapshot.is_some();
                    held.remains = Some(remains);
                }
                // What it wrote is in the log; a later activation finds it there.
                Err(error) => {
                    tracing::debug!(%cell, why = error.message, "a cell left without its state")
                }
            }
            if let Some(database) = held.database.take() {
                self.remove_database(database);
            }
        }
        self.feed(Event::Evicted { cell, unsaved });
    }

    /// What is to be written of a cell's remains; `None` when they hold nothing new.
    fn fresh(&self, cell: &CellId, remains: CellRemains) -> Option<(Base, Fresh)> {
        let held = self.cells.get(cell)?;
        let snapshot = remains.snapshot?;
        let fresh = Fresh {
            epoch: held.epoch,
            txid: remains.txid,
            name: held.name.clone(),
            alarm_ms: remains.alarm_ms,
            snapshot: Some(snapshot),
        };
        Some((held.base.clone(), fresh))
    }

    pub(super) fn save_remains(&mut self, cell: CellId) {
        let remains = self
            .cells
            .get_mut(&cell)
            .and_then(|held| held.remains.take());
        let Some((base, fresh)) = remains.and_then(|remains| self.fresh(&cell, remains)) else {
            self.saved(cell, Ok(None));
            return;
        };
        let shared = self.shared.clone();
        self.shared.tokio.spawn(async move {
            let result = cells::save(&shared.store, &cell, &base, fresh)
                .await
                .map(Some);
            shared.command(Command::Saved { cell, result });
        });
    }

    pub(super) fn checkpoint(&mut self, cell: CellId, host: HostId) {
        let (reply, answer) = reply();
        let message = HostMessage::Checkpoint {
            cell: cell.clone(),
            reply,
        };
        let entry = self.shared.hosts.pin().get(&host).cloned();
        // A dead host gives the message back; dropping it answers it.
        if let Some(entry) = entry {
            let _ = entry.send(message);
        }
        let Some(held) = self.cells.get(&cell) else {
            self.saved(cell, Ok(None));
            return;
        };
        let (base, epoch, name) = (held.base.clone(), held.epoch, held.name.clone());
        let shared = self.shared.clone();
        self.shared.tokio.spawn(async move {
            let result = match answer.await {
                Ok(CellRemains {
                    txid,
                    snapshot: Some(snapshot),
                    alarm_ms,
                    ..
                }) => {
                    let fresh = Fresh {
                        epoch,
                        txid,
                        name,
                        alarm_ms,
                        snapshot: Some(snapshot),
                    };
                    cells::save(&shared.store, &cell, &base, fresh)
                        .await
                        .map(Some)
                }
                // Nothing new since the host's last snapshot, or no host any more; but the log may
                // hold what no record does. It is complete up to the last proven commit, so it can
                // be moved into the record beside a cell that goes on writing.
                Ok(_) | Err(_) if shared.store.log.tail(&cell).is_some() => {
                    let settled = shared.store.log.durable();
                    cells::compact(&shared.store, &cell, settled, Some(epoch))
                        .await
                        .map(Some)
                }
                Ok(_) | Err(_) => Ok(None),
            };
            shared.command(Command::Saved { cell, result });
        });
    }

    pub(super) fn compact(&mut self, cell: CellId) {
        let shared = self.shared.clone();
        let settled = self.settled(&cell);
        self.shared.tokio.spawn(async move {
            let result = cells::compact(&shared.store, &cell, settled, None)
                .await
                .map(Some);
            shared.command(Command::Saved { cell, result });
        });
    }

    pub(super) fn saved(&mut self, cell: CellId, result: Result<Option<Base>, CellError>) {
        match result {
            Ok(Some(base)) => {
                Counters::one(&self.shared.counters.saves);
                if let Some(held) = self.cells.get_mut(&cell) {
                    held.base = base;
                }
                self.feed(Event::Saved { cell });
                self.shared.look_at_log();
            }
            Ok(None) => self.feed(Event::SaveFailed { cell }),
            Err(error) => {
                tracing::error!(%cell, %error, "cannot write a cell's record; its data stays in the node log");
                self.feed(Event::SaveFailed { cell });
            }
        }
    }

    /// Removes what a residence left in the scratch directory, if anything.
    fn remove_database(&self, database: std::path::PathBuf) {
        self.shared
            .tokio
            .spawn_blocking(move || cells::remove_database(&database));
    }
}
