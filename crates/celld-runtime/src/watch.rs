//! Ends events that use too much CPU time.
//!
//! A host marks when it enters and leaves JavaScript by one atomic store each. One thread for
//! the whole process looks at the marks now and then, and measures the CPU time of hosts that
//! have stayed inside for long. What it costs a host does not depend on the limit.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use deno_core::v8;
use parking_lot::{Condvar, Mutex};

/// How often hosts are looked at while any of them is inside JavaScript.
const BUSY_INTERVAL: Duration = Duration::from_millis(10);
/// How often otherwise.
const IDLE_INTERVAL: Duration = Duration::from_millis(250);

/// The context of an isolate's scripts, kept in a slot of the isolate for [`interrupted`].
#[derive(Clone)]
pub struct MainContext(pub v8::Global<v8::Context>);

/// Who was running when an execution was ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Culprit {
    /// Instance of the cell; 0 for a stateless event.
    pub slot: u32,
    /// The event; 0 when unknown.
    pub event: u32,
}

/// One host, as the watchdog sees it.
pub struct Watched {
    /// Odd while the host is inside JavaScript; rises by one at each crossing.
    crossings: AtomicU64,
    isolate: v8::IsolateHandle,
    clock: libc::clockid_t,
    limit: Duration,
    /// What the event that runs has used before this stay, in µs.
    used_before_us: AtomicU64,
    culprit: Mutex<Option<Culprit>>,
    /// The stay that V8 has been asked to end, and has not looked up since; 0 for none. Asking
    /// twice would end whatever runs when the second request is noticed.
    asked: AtomicU64,
    /// Stops the SQL that runs at this moment, if any does.
    sql: Mutex<Option<celld_storage::InterruptHandle>>,
}

impl Watched {
    /// Watches the calling thread, which owns `isolate`.
    pub fn register(isolate: v8::IsolateHandle, limit: Duration) -> Arc<Self> {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: `pthread_self` is always valid in its own thread and `clock` is a live variable.
        let known = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } == 0;
        let watched = Arc::new(Self {
            crossings: AtomicU64::new(0),
            isolate,
            clock: if known { clock } else { libc::CLOCK_MONOTONIC },
            limit,
            used_before_us: AtomicU64::new(0),
            culprit: Mutex::new(None),
            asked: AtomicU64::new(0),
            sql: Mutex::new(None),
        });
        watchdog().add(Arc::downgrade(&watched));
        watched
    }

    /// The host goes into JavaScript.
    pub fn enter(&self) {
        self.crossings.fetch_add(1, Ordering::Relaxed);
    }

    /// The host has come out of JavaScript.
    pub fn leave(&self) {
        self.crossings.fetch_add(1, Ordering::Relaxed);
    }

    /// True when the watchdog ended the last stay.
    pub fn was_ended(&self) -> bool {
        self.culprit.lock().is_some()
    }

    /// Who was ended, if the watchdog ended the last stay.
    pub fn take_culprit(&self) -> Option<Culprit> {
        self.culprit.lock().take()
    }

    /// SQL begins; the watchdog can end it.
    pub fn sql_begins(&self, handle: celld_storage::InterruptHandle) {
        *self.sql.lock() = Some(handle);
    }

    /// SQL has ended.
    pub fn sql_ended(&self) {
        *self.sql.lock() = None;
    }

    /// Says what the event that is about to run has used already.
    pub fn set_used_before(&self, used: Duration) {
        let used = u64::try_from(used.as_micros()).unwrap_or(u64::MAX);
        self.used_before_us.store(used, Ordering::Relaxed);
    }

    /// The limit of one event.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// CPU time of the host's thread since its start.
    pub fn cpu_time(&self) -> Option<Duration> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is a live variable. The clock of a thread that has ended gives an error.
        let known = unsafe { libc::clock_gettime(self.clock, &mut time) } == 0;
        known.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    fn remaining(&self) -> Duration {
        let used = Duration::from_micros(self.used_before_us.load(Ordering::Relaxed));
        self.limit.saturating_sub(used)
    }

    fn end_execution(self: &Arc<Self>, stay: u64) {
        if self.asked.swap(stay, Ordering::Relaxed) == 0 {
            self.interrupt();
        }
        // V8 cannot look up while SQLite runs: SQLite has to come back first.
        if let Some(sql) = &*self.sql.lock() {
            sql.interrupt();
        }
    }

    fn interrupt(self: &Arc<Self>) {
        self.call_in(interrupted);
    }

    /// Ends what runs, because the heap is full. Called on the host's thread, in the middle of
    /// an allocation.
    pub fn end_for_memory(self: &Arc<Self>) {
        self.call_in(out_of_memory);
    }

    /// Has V8 call `callback` on the host's thread as soon as the running script can be stopped.
    fn call_in(
        self: &Arc<Self>,
        callback: unsafe extern "C" fn(v8::UnsafeRawIsolatePtr, *mut c_void),
    ) {
        let data = Arc::into_raw(self.clone()) as *mut c_void;
        if !self.isolate.request_interrupt(callback, data) {
            // SAFETY: the isolate is gone, so the callback that would have taken this reference
            // back will not run.
            drop(unsafe { Arc::from_raw(data as *const Self) });
        }
    }
}

/// Runs on the host's thread, in the middle of the offending code: notes on whose behalf it runs,
/// and ends it.
unsafe extern "C" fn interrupted(isolate: v8::UnsafeRawIsolatePtr, data: *mut c_void) {
    // SAFETY: `data` is the reference that `call_in` gave up.
    let watched = unsafe { Arc::from_raw(data as *const Watched) };
    let stay = watched.asked.swap(0, Ordering::Relaxed);
    if watched.crossings.load(Ordering::Relaxed) != stay {
        // The offender came to its end by itself: what runs here is somebody else.
        return;
    }
    // SAFETY: V8 calls this on the isolate's own thread with the isolate entered.
    unsafe { end_current(isolate, &watched) };
}

/// The same for the script that filled the heap.
unsafe extern "C" fn out_of_memory(isolate: v8::UnsafeRawIsolatePtr, data: *mut c_void) {
    // SAFETY: `data` is the reference that `call_in` gave up.
    let watched = unsafe { Arc::from_raw(data as *const Watched) };
    // SAFETY: V8 calls this on the isolate's own thread with the isolate entered.
    unsafe { end_current(isolate, &watched) };
}

/// Notes on whose behalf the running script runs, and ends it.
///
/// # Safety
/// The calling thread must have entered the isolate.
unsafe fn end_current(isolate: v8::UnsafeRawIsolatePtr, watched: &Watched) {
    // SAFETY: as required of the caller.
    let mut isolate = unsafe { v8::Isolate::from_raw_isolate_ptr(isolate) };
    let mut culprit = Culprit::default();
    if let Some(MainContext(context)) = isolate.get_slot::<MainContext>().cloned() {
        v8::scope_with_context!(let scope, &mut isolate, context);
        let mapping = scope.get_continuation_preserved_embedder_data();
        if let Ok(mapping) = v8::Local::<v8::Object>::try_from(mapping) {
            // Plain data properties of an object without a prototype: no script runs.
            let number = |name: &str| -> Option<u32> {
                let key = v8::String::new(scope, name)?;
                mapping.get(scope, key.into())?.uint32_value(scope)
            };
            culprit.slot = number("celldSlot").unwrap_or(0);
            culprit.event = number("celldEvent").unwrap_or(0);
        }
    }
    *watched.culprit.lock() = Some(culprit);
    isolate.terminate_execution();
}

struct Watchdog {
    hosts: Mutex<Vec<Weak<Watched>>>,
    added: Condvar,
}

impl Watchdog {
    fn add(&self, host: Weak<Watched>) {
        self.hosts.lock().push(host);
        self.added.notify_one();
    }

    fn run(&self) {
        // Crossing at which a stay was first seen, and the CPU time then, by host.
        let mut stays: Vec<(*const Watched, u64, Duration)> = Vec::new();
        loop {
            let hosts: Vec<Arc<Watched>> = {
                let mut hosts = self.hosts.lock();
                hosts.retain(|host| host.strong_count() > 0);
                if hosts.is_empty() {
                    stays.clear();
                    self.added.wait(&mut hosts);
                }
                hosts.iter().filter_map(Weak::upgrade).collect()
            };
            let busy = look(&hosts, &mut stays);
            drop(hosts);
            std::thread::sleep(if busy { BUSY_INTERVAL } else { IDLE_INTERVAL });
        }
    }
}

/// Looks at every host once; true when any of them is inside JavaScript.
fn look(hosts: &[Arc<Watched>], stays: &mut Vec<(*const Watched, u64, Duration)>) -> bool {
    let mut seen = Vec::new();
    for host in hosts {
        let crossing = host.crossings.load(Ordering::Relaxed);
        if crossing % 2 == 0 {
            continue;
        }
        let Some(time) = host.cpu_time() else {
            continue;
        };
        let key = Arc::as_ptr(host);
        match stays
            .iter()
            .find(|stay| stay.0 == key && stay.1 == crossing)
        {
            Some(stay) if time.saturating_sub(stay.2) >= host.remaining() => {
                host.end_execution(crossing);
                // Ask again at the next look: SQL that was between two statements missed the call.
                seen.push(*stay);
            }
            Some(stay) => seen.push(*stay),
            None => seen.push((key, crossing, time)),
        }
    }
    let busy = !seen.is_empty();
    *stays = seen;
    busy
}

fn watchdog() -> &'static Watchdog {
    static WATCHDOG: OnceLock<&'static Watchdog> = OnceLock::new();
    WATCHDOG.get_or_init(|| {
        let watchdog: &'static Watchdog = Box::leak(Box::new(Watchdog {
            hosts: Mutex::new(Vec::new()),
            added: Condvar::new(),
        }));
        let started = std::thread::Builder::new()
            .name("celld-watchdog".into())
            .spawn(move || watchdog.run());
        if let Err(error) = started {
            tracing::error!(%error, "cannot start the CPU watchdog: CPU limits are not enforced");
        }
        watchdog
    })
}
