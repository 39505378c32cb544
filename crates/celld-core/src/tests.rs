//! Single decisions of the core, event by event.

use crate::{
    Activity, CellId, Config, Core, Effect, Event, Generation, HostId, HostRole, MonoMs,
    NamespaceKey, Now, ObjectId, ScriptName, WallMs,
};

fn cell(n: u8) -> CellId {
    CellId {
        namespace: NamespaceKey::new("n").expect("a namespace key"),
        object: ObjectId::from_bytes([n; 32]),
    }
}

/// A core in which no time passes.
struct Bench(Core);

impl Bench {
    /// With a Worker that serves; its stateless host is the first.
    fn new(config: Config) -> Self {
        let mut bench = Self(Core::new(config));
        bench.tell(Event::Deployed {
            script: ScriptName::new("s"),
            generation: Generation::new(1),
            namespaces: vec![cell(0).namespace],
        });
        bench.tell(Event::HostReady {
            host: HostId::new(1),
        });
        bench
    }

    fn tell(&mut self, event: Event) -> Vec<Effect> {
        let now = Now {
            mono: MonoMs::new(1),
            wall: WallMs::new(1),
        };
        self.0.handle_event(event, now);
        std::iter::from_fn(|| self.0.poll_effect()).collect()
    }

    /// Wants a cell and hands its image over; the host that was started for it, if any.
    fn load(&mut self, cell: &CellId) -> Option<HostId> {
        let wanted = self.tell(Event::Wanted { cell: cell.clone() });
        self.tell(Event::ImageLoaded { cell: cell.clone() });
        wanted.into_iter().find_map(|effect| match effect {
            Effect::StartHost {
                host,
                role: HostRole::Cells,
                ..
            } => Some(host),
            _ => None,
        })
    }
}

/// The cells that are asked to leave.
fn evicted(effects: &[Effect]) -> Vec<CellId> {
    let evicted = effects.iter().filter_map(|effect| match effect {
        Effect::Evict { cell, .. } => Some(cell.clone()),
        _ => None,
    });
    evicted.collect()
}

#[test]
fn a_cell_whose_host_becomes_ready_during_the_drain_leaves_too() {
    let mut bench = Bench::new(Config::default());
    let host = bench.load(&cell(1)).expect("a host is started for it");
    assert_eq!(evicted(&bench.tell(Event::Drain { grace_ms: 10 })), []);
    let effects = bench.tell(Event::HostReady { host });
    assert!(
        effects.contains(&Effect::Activate {
            cell: cell(1),
            host
        }),
        "{effects:?}"
    );
    assert_eq!(evicted(&effects), [cell(1)]);
    let last = bench.tell(Event::Evicted {
        cell: cell(1),
        unsaved: false,
    });
    assert!(last.contains(&Effect::Drained), "{last:?}");
}

#[test]
fn the_next_cells_leave_when_the_records_of_those_before_are_written() {
    let mut bench = Bench::new(Config {
        evictions_max: 2,
        ..Config::default()
    });
    let host = bench.load(&cell(1)).expect("a host is started for it");
    bench.tell(Event::HostReady { host });
    (2..=4).for_each(|n| assert_eq!(bench.load(&cell(n)), None, "there is room"));
    let leaving = evicted(&bench.tell(Event::Drain { grace_ms: 10 }));
    assert_eq!(leaving, [cell(1), cell(2)]);
    let gone = |n, unsaved| Event::Evicted {
        cell: cell(n),
        unsaved,
    };
    assert_eq!(evicted(&bench.tell(gone(1, true))), []);
    assert_eq!(evicted(&bench.tell(gone(2, true))), []);
    let saved = Event::Saved { cell: cell(2) };
    assert_eq!(evicted(&bench.tell(saved)), [cell(3)]);
    let failed = Event::SaveFailed { cell: cell(1) };
    assert_eq!(evicted(&bench.tell(failed)), [cell(4)]);
    bench.tell(gone(3, false));
    let last = bench.tell(gone(4, false));
    assert!(last.contains(&Effect::Drained), "{last:?}");
}

#[test]
fn requests_do_not_wait_for_a_worker_that_does_not_start() {
    let mut bench = Bench::new(Config::default());
    let refused = Effect::RefuseWorkers {
        script: ScriptName::new("s"),
        generation: Generation::new(1),
    };
    let lost = Event::HostLost {
        host: HostId::new(1),
    };
    let effects = bench.tell(lost);
    assert!(!effects.contains(&refused), "the next one starts");
    let failed = Event::HostFailed {
        host: HostId::new(2),
    };
    assert!(bench.tell(failed).contains(&refused));
    let (at, _) = bench.0.poll_deadline().expect("it is tried again");
    bench.0.handle_time(Now {
        mono: at,
        wall: WallMs::new(1),
    });
    let again = std::iter::from_fn(|| bench.0.poll_effect());
    assert_eq!(
        again
            .filter(|effect| matches!(effect, Effect::StartHost { .. }))
            .count(),
        1
    );
}

#[test]
fn a_cell_that_is_to_leave_when_idle_waits_for_its_work_only() {
    let mut bench = Bench::new(Config::default());
    let host = bench.load(&cell(1)).expect("a host is started for it");
    bench.tell(Event::HostReady { host });
    bench.load(&cell(2));
    let looks_at = |effects: &[Effect], n| {
        let look = Effect::CheckCell { cell: cell(n) };
        effects.contains(&look)
    };
    let effects = bench.tell(Event::EvictIdle);
    assert!(
        looks_at(&effects, 1) && looks_at(&effects, 2),
        "{effects:?}"
    );
    let activity = |n, busy| Event::CellActivity {
        cell: cell(n),
        activity: Activity {
            last_used: MonoMs::new(1),
            busy,
        },
    };
    assert_eq!(evicted(&bench.tell(activity(1, false))), [cell(1)]);
    assert_eq!(evicted(&bench.tell(activity(2, true))), []);
    let (at, _) = bench.0.poll_deadline().expect("it is looked at again");
    assert!(at < MonoMs::new(1_000), "soon: {at:?}");
    assert_eq!(evicted(&bench.tell(activity(2, false))), [cell(2)]);
    // A later stay of the same cell has the usual time.
    bench.tell(Event::Evicted {
        cell: cell(1),
        unsaved: false,
    });
    bench.load(&cell(1));
    assert_eq!(evicted(&bench.tell(activity(1, false))), []);
}
