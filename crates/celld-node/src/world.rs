//! What isolates ask of the node.

use std::sync::Arc;

use celld_core::{CellId, CellLimit, Event, HostId, Lsn, WallMs};
use celld_runtime::api::{
    ASSETS_WORKER, CellEvent, Commit, ConsoleLine, OnDurable, WorkerCode, WorkerEvent, World,
};
use celld_runtime::exchange::{EventError, HttpRequest, HttpResponse, Reply};
use celld_runtime::socket::CellSocket;
use celld_runtime::socket_channel::SocketReceiver;
use celld_runtime::socket_pump;

use crate::assets::{self, StaticAssets};
use crate::console::Notice;
use crate::shared::Shared;

/// A node as the isolates of one deployment see it, whose static files come along.
#[derive(Clone)]
pub(crate) struct RoutedWorld(pub(crate) Arc<Shared>, pub(crate) Option<Arc<StaticAssets>>);

impl World for RoutedWorld {
    fn send_to_cell(&self, cell: &CellId, name: Option<&str>, event: CellEvent) {
        self.0.send_to_cell(cell, name, event);
    }

    fn send_to_worker(&self, from: &Arc<WorkerCode>, worker: Option<&str>, event: WorkerEvent) {
        if worker == Some(ASSETS_WORKER) {
            assets::answer(&self.0, self.1.as_ref(), event);
        } else {
            self.0.send_to_script(worker.unwrap_or(&from.name), event);
        }
    }

    fn fetch(&self, request: HttpRequest, reply: Reply<HttpResponse>) {
        self.0.outbound.fetch(request, reply);
    }

    fn append(&self, commit: Commit) -> Lsn {
        let Commit {
            cell,
            epoch,
            txid,
            name,
            alarm_ms,
            segment,
        } = commit;
        let bytes = segment.len() as u64;
        let port = self.0.routes.port_or_new(&cell);
        let tell = {
            let (shared, cell) = (self.0.clone(), cell.clone());
            let at = alarm_ms.map(WallMs::new);
            move || shared.tell(Event::AlarmSet { cell, at })
        };
        // An earlier alarm is told before the commit is proven: one that fires too early finds the
        // cell's memory in that state, and whatever it does waits for the proof.
        let later = port.note_alarm(alarm_ms, tell.clone());
        let commit = celld_log::Commit {
            cell,
            epoch,
            txid,
            name,
            alarm_ms,
            segment,
        };
        let lsn = self.0.store.log.append(commit);
        port.note_lsn(lsn);
        if later {
            // A later one, or none: if the commit should be lost, the old alarm must still fire.
            let proven = move |result: Result<(), celld_log::LogFailed>| {
                if result.is_ok() {
                    port.confirm_alarm(alarm_ms, tell);
                }
            };
            self.0.store.log.when_durable(lsn, Box::new(proven));
        }
        self.0.note_commit(bytes);
        lsn
    }

    fn durable(&self) -> Lsn {
        self.0.store.log.durable()
    }

    fn when_durable(&self, lsn: Lsn, then: OnDurable) {
        let gate = move |result: Result<(), celld_log::LogFailed>| {
            then(result.map_err(|failed| {
                EventError::reset(format!("A write could not be made durable: {failed}"))
            }));
        };
        self.0.store.log.when_durable(lsn, Box::new(gate));
    }

    fn adopt_socket(&self, cell: &CellId, socket: Arc<CellSocket>, incoming: SocketReceiver) {
        let world: Arc<dyn World> = Arc::new(self.clone());
        self.0
            .tokio
            .spawn(socket_pump::pump(world, cell.clone(), socket, incoming));
    }

    fn console(&self, line: ConsoleLine) {
        self.0.console.line(line);
    }

    fn host_lost(&self, host: HostId, why: EventError) {
        if let Some(entry) = self.0.hosts.pin().get(&host) {
            entry.bury();
            let script = entry.code().name.clone();
            self.0.console.notice(Notice::HostLost {
                script,
                why: why.message,
            });
        }
        self.0.tell(Event::HostLost { host });
    }

    fn cell_lost(&self, host: HostId, cell: &CellId) {
        self.0.routes.lost(cell, host);
        self.0.tell(Event::CellLost {
            host,
            cell: cell.clone(),
        });
    }

    fn limit_broken(&self, cell: &CellId, limit: CellLimit) {
        let cell = cell.clone();
        self.0.tell(Event::LimitBroken { cell, limit });
    }

    fn host_load(&self, host: HostId, waiting_events: usize) {
        let Some(entry) = self.0.hosts.pin().get(&host).cloned() else {
            return;
        };
        let waiting = u32::try_from(waiting_events).unwrap_or(u32::MAX);
        let worth_telling = self.0.core_config.stateless_grow_waiting;
        if entry.report(waiting, self.0.clock.mono(), worth_telling) {
            self.0.tell(Event::HostLoad { host, waiting });
        }
    }
}
