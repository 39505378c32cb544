//! Effects that concern hosts, deployments and alarms.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use celld_core::{
    AlarmEnd, AlarmFound, CellId, CellLimit, Effect, Event, Generation, HostId, ScriptName, WallMs,
};
use celld_runtime::api::{AlarmOutcome, CellEvent, HostConfig, HostMessage};
use celld_runtime::exchange::{EventError, reply};
use celld_runtime::host::{OnReady, WorkerSurface};

use super::{Command, Shell};
use crate::cells;
use crate::console::Notice;
use crate::hosts::HostEntry;
use crate::refuse;
use crate::shared::{Counters, Quarantined, Shared};
use crate::world::RoutedWorld;

impl Shell {
    pub(super) fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::StartHost {
                host, generation, ..
            } => self.start_host(host, generation),
            Effect::StopHost { host, grace_ms } => self.stop_host(host, grace_ms),
            Effect::PublishWorkers { script, hosts, .. } => self.publish_workers(&script, &hosts),
            Effect::RefuseWorkers { script, generation } => {
                let why = self.load_errors.get(&generation);
                let why = why.map_or("see the node's log", |error| error.message.as_str());
                let error = refuse::retryable(format!("The Worker cannot be started: {why}"));
                self.shared.pool(&script).refuse(&error);
            }
            Effect::Adopted {
                generation,
                replaced,
                ..
            } => {
                self.serve_assets(generation);
                self.deployment_ended(generation, Ok(replaced.is_some()));
            }
            Effect::DeploymentRefused { generation, .. } => {
                self.deployment_ended(generation, Err(()));
                self.codes.remove(&generation);
            }
            Effect::LoadImage { cell } => self.load_image(cell),
            Effect::Activate { cell, host } => self.activate(cell, host),
            Effect::Refuse { cell, why } => self.refuse(cell, why),
            Effect::CheckCell { cell } => self.check_cell(cell),
            Effect::CheckHost { host } => self.check_host(host),
            Effect::Rest { cell, host } => {
                if let Some(entry) = self.shared.hosts.pin().get(&host) {
                    // A host that is dead has nothing left to rest.
                    let _ = entry.send(HostMessage::Rest { cell });
                }
            }
            Effect::Evict {
                cell,
                host,
                grace_ms,
                why,
            } => self.evict(cell, host, grace_ms, why),
            Effect::SaveRecord { cell } => self.save_remains(cell),
            Effect::Release { cell } => self.release(cell),
            Effect::Checkpoint { cell, host } => self.checkpoint(cell, host),
            Effect::Compact { cell } => self.compact(cell),
            Effect::FireAlarm {
                cell,
                scheduled,
                retry_count,
            } => self.fire_alarm(cell, scheduled, retry_count),
            Effect::ReadAlarm { cell, hinted } => self.read_alarm(cell, hinted),
            Effect::DropAlarm { cell, scheduled } => {
                tracing::error!(%cell, %scheduled, "the alarm failed too often and is given up");
                self.shared.console.notice(Notice::AlarmDropped {
                    cell: cell.to_string(),
                });
            }
            Effect::Quarantined {
                cell,
                limit,
                strikes,
                until,
            } => self.quarantined(cell, limit, strikes, until),
            Effect::Drained => self.drained(),
        }
    }

    fn publish_workers(&self, script: &ScriptName, hosts: &[HostId]) {
        let entries = self.shared.hosts.pin();
        let ready = hosts
            .iter()
            .filter_map(|id| entries.get(id).cloned())
            .collect();
        self.shared
            .pool(script)
            .publish(ready, self.shared.clock.mono());
    }

    /// The static files of a deployment are served from here on.
    fn serve_assets(&self, generation: Generation) {
        if let Some(deployed) = self.codes.get(&generation) {
            let script = ScriptName::new(&deployed.code.name);
            self.shared
                .pool(&script)
                .set_assets(deployed.assets.clone());
        }
    }

    fn start_host(&mut self, id: HostId, generation: Generation) {
        let Some(super::Deployed {
            code,
            limits,
            assets,
        }) = self.codes.get(&generation).cloned()
        else {
            self.host_generation.insert(id, generation);
            self.host_started(id, Err(EventError::new("the deployment is gone")));
            return;
        };
        let config = HostConfig {
            id,
            code: code.clone(),
            limits,
            snapshot: self.shared.snapshot,
            world: Arc::new(RoutedWorld(self.shared.clone(), assets)),
            tokio: self.shared.tokio.clone(),
        };
        let report = StartReport {
            host: id,
            shared: Some(self.shared.clone()),
        };
        let ready: OnReady = Box::new(move |result| report.send(result));
        self.host_generation.insert(id, generation);
        let handle = self.shared.factory.start(config, ready);
        self.shared
            .hosts
            .pin()
            .insert(id, Arc::new(HostEntry::new(handle, code)));
    }

    fn stop_host(&mut self, host: HostId, grace_ms: u64) {
        let entry = self.shared.hosts.pin().get(&host).cloned();
        if let Some(entry) = entry {
            entry.stop(Duration::from_millis(grace_ms));
        }
        self.forget_host(host);
    }

    fn check_host(&mut self, host: HostId) {
        let Some(entry) = self.shared.hosts.pin().get(&host).cloned() else {
            return;
        };
        let last_used = entry.used_at();
        let busy = entry.busy_since(last_used);
        let waiting = entry.look(self.shared.core_config.stateless_grow_waiting);
        self.feed(Event::HostActivity {
            host,
            last_used,
            busy,
            waiting,
        });
    }

    fn fire_alarm(&mut self, cell: CellId, scheduled: WallMs, retry_count: u32) {
        Counters::one(&self.shared.counters.alarms);
        let (reply, answer) = reply();
        let event = CellEvent::Alarm {
            scheduled_ms: scheduled.get(),
            retry_count,
            reply,
        };
        self.shared.send_to_cell(&cell, None, event);
        let shared = self.shared.clone();
        self.shared.tokio.spawn(async move {
            let outcome = alarm_end(&cell, answer.await);
            shared.tell(Event::AlarmDone { cell, outcome });
        });
    }

    fn read_alarm(&mut self, cell: CellId, hinted: WallMs) {
        let shared = self.shared.clone();
        self.shared.tokio.spawn(async move {
            let found = cells::read_alarm(&shared.store, &cell)
                .await
                .unwrap_or_else(|error| {
                    tracing::error!(%cell, %error, "cannot read a cell's alarm; trying again");
                    AlarmFound::Unreadable
                });
            if found == AlarmFound::Nothing
                && let Err(error) = cells::delete_marker(&shared.store, &cell, hinted.get()).await
            {
                tracing::warn!(%cell, %error, "cannot remove an alarm marker");
            }
            shared.tell(Event::AlarmRead { cell, found });
        });
    }

    fn quarantined(&mut self, cell: CellId, limit: CellLimit, strikes: u32, until: WallMs) {
        let why = Quarantined {
            limit,
            strikes,
            until,
        };
        tracing::warn!(%cell, strikes, "quarantined: {}", why.reason());
        let mut all = self.shared.quarantined.lock();
        let now = self.shared.clock.now().wall;
        all.retain(|_, other| other.until > now);
        all.insert(cell, why);
    }

    fn drained(&mut self) {
        self.end();
        for done in self.drained.drain(..) {
            let _ = done.send(());
        }
    }

    /// Ends what is left: hosts, and events that wait for one.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.shared.draining.store(true, Ordering::Relaxed);
        let hosts: Vec<HostId> = self.host_generation.keys().copied().collect();
        for host in hosts {
            self.stop_host(host, 0);
        }
        for pool in self.shared.pools.pin().values() {
            pool.publish(Vec::new(), self.shared.clock.mono());
            pool.refuse(&refuse::retryable("The node is shutting down.".into()));
        }
    }
}

/// Reports a host's start, also when the host forgets to: a thread that never ran drops it.
struct StartReport {
    host: HostId,
    shared: Option<Arc<Shared>>,
}

impl StartReport {
    fn send(mut self, result: Result<WorkerSurface, EventError>) {
        if let Some(shared) = self.shared.take() {
            shared.command(Command::HostStarted {
                host: self.host,
                result: result.map(|_| ()),
            });
        }
    }
}

impl Drop for StartReport {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            let result = Err(EventError::new(
                "the isolate's thread ended before it had loaded the code",
            ));
            shared.command(Command::HostStarted {
                host: self.host,
                result,
            });
        }
    }
}

/// Failures of the script count, as do limits that it broke; failures of the node around it do not.
fn alarm_end(cell: &CellId, answer: Result<AlarmOutcome, EventError>) -> AlarmEnd {
    let error = match answer {
        Ok(outcome) => {
            return AlarmEnd::Done {
                next: outcome.next_ms.map(WallMs::new),
            };
        }
        Err(error) => error,
    };
    let counted = !error.overloaded && (error.by_script || error.limit.is_some());
    tracing::debug!(%cell, counted, why = error.message, "an alarm failed");
    let mut jitter = [0u8; 2];
    // Without randomness retries are merely less spread out.
    let _ = getrandom::fill(&mut jitter);
    AlarmEnd::Failed {
        counted,
        jitter_permille: u16::from_le_bytes(jitter) % 1_001,
    }
}
