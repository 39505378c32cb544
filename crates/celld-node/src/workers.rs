//! Stateless events: the published hosts of each Worker, and the choice among them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use celld_core::{HostId, MonoMs};
use celld_runtime::api::WorkerEvent;
use celld_runtime::exchange::EventError;
use parking_lot::Mutex;

use crate::assets::StaticAssets;
use crate::hosts::HostEntry;
use crate::refuse;

/// One Worker's hosts.
pub(crate) struct Pool {
    ready: ArcSwap<Vec<Arc<HostEntry>>>,
    /// Events that wait for a first or another host.
    waiting: Mutex<VecDeque<WorkerEvent>>,
    waiting_max: usize,
    /// A deployment has been adopted: events may wait for a host of it.
    adopted: AtomicBool,
    /// Static files of the deployment that serves.
    assets: ArcSwapOption<StaticAssets>,
}

/// What a send led to, for the core to know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Dispatched {
    /// Sent; the host has this many waiting events by the node's count.
    To(HostId, u32),
    /// It waits for a host, or was refused.
    Waiting,
}

impl Pool {
    pub(crate) fn new(waiting_max: usize) -> Self {
        Self {
            ready: ArcSwap::from_pointee(Vec::new()),
            waiting: Mutex::new(VecDeque::new()),
            waiting_max,
            adopted: AtomicBool::new(false),
            assets: ArcSwapOption::empty(),
        }
    }

    /// Static files that may answer before the Worker.
    pub(crate) fn assets(&self) -> Option<Arc<StaticAssets>> {
        self.assets.load_full()
    }

    /// Changes the static files.
    pub(crate) fn set_assets(&self, assets: Option<Arc<StaticAssets>>) {
        self.assets.store(assets);
    }

    /// True when events can be served.
    pub(crate) fn is_adopted(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
    }

    /// Hosts that take events.
    pub(crate) fn hosts(&self) -> usize {
        self.ready.load().len()
    }

    /// Sends an event to the host with the fewest waiting events.
    pub(crate) fn send(&self, event: WorkerEvent, now: MonoMs) -> Dispatched {
        let mut event = event;
        loop {
            let ready = self.ready.load();
            // A host that refuses is stopping or dead; the list without it is about to come.
            let calmest = ready.iter().min_by_key(|host| host.load());
            for host in calmest.into_iter().chain(ready.iter()) {
                match host.send_worker(event, now) {
                    Ok(()) => return Dispatched::To(host.id(), host.load()),
                    Err(back) => event = back,
                }
            }
            let mut waiting = self.waiting.lock();
            // `publish` stores the list before it empties the queue under this lock.
            if !Arc::ptr_eq(&ready, &self.ready.load()) {
                continue;
            }
            if waiting.len() >= self.waiting_max {
                drop(waiting);
                refuse::worker_event(
                    event,
                    EventError::overloaded("Too many requests wait for this Worker."),
                );
            } else {
                waiting.push_back(event);
            }
            return Dispatched::Waiting;
        }
    }

    /// Changes the hosts, and sends what waits.
    pub(crate) fn publish(&self, hosts: Vec<Arc<HostEntry>>, now: MonoMs) {
        self.adopted.store(true, Ordering::Release);
        let any = !hosts.is_empty();
        self.ready.store(Arc::new(hosts));
        if any {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            for event in waiting {
                self.send(event, now);
            }
        }
    }

    /// Fails what waits.
    pub(crate) fn refuse(&self, why: &EventError) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for event in waiting {
            refuse::worker_event(event, why.clone());
        }
    }
}
