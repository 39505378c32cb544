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
        self.tell_at(1, event)
    }

    fn tell_at(&mut self, ms: u64, event: Event) -> Vec<Effect> {
        let now = Now {
            mono: MonoMs::new(ms),
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
            spent_us: 0,
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

/// The hosts that are started, and the cells that are handed over with their hosts.
fn started(effects: &[Effect]) -> (Vec<HostId>, Vec<(CellId, HostId)>) {
    let mut all = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::StartHost { host, .. } => all.0.push(*host),
            Effect::Activate { cell, host } => all.1.push((cell.clone(), *host)),
            _ => {}
        }
    }
    all
}

#[test]
fn a_cell_that_keeps_its_isolate_busy_moves_to_one_of_its_own_at_an_idle_moment() {
    let mut bench = Bench::new(Config::default());
    let first = bench.load(&cell(1)).expect("a host is started for it");
    bench.tell(Event::HostReady { host: first });
    bench.load(&cell(2));
    let look = |busy, spent_us| Event::CellActivity {
        cell: cell(1),
        activity: Activity {
            last_used: MonoMs::new(10_000),
            busy,
            spent_us,
        },
    };
    // Nine of ten seconds.
    assert_eq!(evicted(&bench.tell_at(10_001, look(true, 9_000_000))), []);
    let (at, _) = bench.0.poll_deadline().expect("it is looked at again");
    assert!(at < MonoMs::new(10_100), "soon: {at:?}");
    let effects = bench.tell_at(10_050, look(false, 9_000_000));
    assert_eq!(evicted(&effects), [cell(1)]);
    assert!(effects.iter().any(|effect| matches!(
        effect,
        Effect::Evict {
            why: crate::Leave::Busy,
            ..
        }
    )));
    let gone = Event::Evicted {
        cell: cell(1),
        unsaved: false,
    };
    bench.tell_at(10_051, Event::Wanted { cell: cell(1) });
    let (hosts, _) = started(&bench.tell_at(10_052, gone));
    let second = *hosts.first().expect("a host of its own");
    bench.tell_at(10_053, Event::HostReady { host: second });
    let (_, cells) = started(&bench.tell_at(10_054, Event::ImageLoaded { cell: cell(1) }));
    assert_eq!(cells, [(cell(1), second)]);
    // A new cell goes where there is room, although the other isolate is emptier.
    bench.tell_at(10_055, Event::Wanted { cell: cell(3) });
    let (_, cells) = started(&bench.tell_at(10_056, Event::ImageLoaded { cell: cell(3) }));
    assert_eq!(cells, [(cell(3), first)]);
    // Alone it stays where it is, however busy.
    let alone = bench.tell_at(30_000, look(false, 18_000_000));
    assert_eq!(evicted(&alone), []);
}
