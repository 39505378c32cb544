//! Exhaustive exploration of small fleets with the shipped core in them: every order of answers,
//! messages, ticks, crashes, pauses and lost replies within a budget.

mod shell;
mod world;

use stateright::{Checker, Model, Property};

use crate::fleet::config::{Config, Durability};
use crate::fleet::sabotage::Fault;
use world::{Action, Budget, World};

/// What is explored.
#[derive(Clone, Debug)]
struct Small {
    start: World,
}

impl Model for Small {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.start.clone()]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.actions(actions);
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        let mut next = state.clone();
        next.act(action);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is lost, stale or doubled", |_, state: &World| {
                state.broken.is_none()
            }),
            Property::sometimes("a cell changes hands", |_, state: &World| state.taken_over),
            Property::sometimes("an old owner learns it", |_, state: &World| state.stopped),
        ]
    }
}

/// Periods of a few ticks, in the proportions of the real ones.
fn ticking(durability: Durability, planted: Option<Fault>) -> Config {
    Config {
        lease_ttl_ms: 3,
        grant_ms: 1,
        drift_permille: 0,
        ping_ms: 1,
        suspect_ms: 3,
        reset_grace_ms: 1,
        drop_ms: 2,
        witnesses: 1,
        durability,
        bundle_ms: 100,
        bundles_in_flight: 2,
        resend_ms: 3,
        retry_ms: 1,
        request_ms: 1_000,
        takeover_wait_ms: 1_000,
        planted,
        ..Config::default()
    }
}

/// What an exploration came to.
struct Explored {
    broken: Option<String>,
    states: usize,
    taken_over: bool,
    stopped: bool,
}

/// Explores everything within the budget, or so many steps of it, and prints how much that was.
fn explore(name: &str, start: World, most: usize) -> Explored {
    let checker = Small { start }
        .checker()
        .threads(2)
        .target_state_count(most)
        .spawn_dfs()
        .join();
    let states = checker.unique_state_count();
    eprintln!(
        "{name}: {states} distinct states, {} steps, {} deep",
        checker.state_count(),
        checker.max_depth()
    );
    let found = |property| checker.discovery(property);
    Explored {
        broken: found("nothing is lost, stale or doubled")
            .and_then(|path| path.last_state().broken.clone()),
        states,
        taken_over: found("a cell changes hands").is_some(),
        stopped: found("an old owner learns it").is_some(),
    }
}

/// Two nodes; the first owns a cell, the second is its follower, and the first dies.
fn death(planted: Option<Fault>) -> World {
    let left = Budget {
        ticks: 9,
        crashes: 1,
        writes: 1,
        ..Budget::default()
    };
    to_the_point(World::at_rest(
        ticking(Durability::Fleet, planted),
        2,
        1,
        left,
    ))
}

/// The first freezes, is replaced, and thaws; clients read and write meanwhile.
fn frost(durability: Durability, planted: Option<Fault>) -> World {
    let left = Budget {
        ticks: 12,
        pauses: 1,
        writes: 1,
        reads: 1,
        ..Budget::default()
    };
    to_the_point(World::at_rest(ticking(durability, planted), 2, 1, left))
}

/// The first node suffers and is read through; clients write through the second.
fn to_the_point(mut world: World) -> World {
    world.only = Some((0, 1));
    world
}

/// The same without witnesses: a lease in the bucket.
fn lease(planted: Option<Fault>) -> World {
    let config = Config {
        witnesses: 0,
        ..ticking(Durability::Bucket, planted)
    };
    let left = Budget {
        ticks: 12,
        pauses: 1,
        writes: 1,
        reads: 1,
        ..Budget::default()
    };
    to_the_point(World::at_rest(config, 2, 1, left))
}

/// Replies are lost, applied or not, now or later, while cells are written and handed over.
fn losses(planted: Option<Fault>) -> World {
    let config = Config {
        bundle_ms: 1,
        ..ticking(Durability::Fleet, planted)
    };
    let left = Budget {
        ticks: 4,
        losses: 2,
        writes: 2,
        moves: 1,
        ..Budget::default()
    };
    World::at_rest(config, 2, 2, left)
}

/// Three nodes, two followers, a death.
fn three(planted: Option<Fault>) -> World {
    let config = Config {
        witnesses: 2,
        ..ticking(Durability::Fleet, planted)
    };
    let left = Budget {
        ticks: 7,
        crashes: 1,
        losses: 1,
        writes: 1,
        ..Budget::default()
    };
    World::at_rest(config, 3, 2, left)
}

/// Steps of one exploration at most: keeps the whole within two minutes on two cores.
const STEPS: usize = 700_000;

#[test]
#[ignore = "minutes: cargo test -p celld-core --lib fleet::model -- --ignored --nocapture"]
fn small_fleets_lose_nothing_in_any_order_of_events() {
    let explored = [
        explore("an owner dies", death(None), STEPS),
        explore("an owner freezes", frost(Durability::Fleet, None), STEPS),
        explore(
            "frost, bucket proofs",
            frost(Durability::Bucket, None),
            STEPS,
        ),
        explore("a lease and no witness", lease(None), STEPS),
        explore("lost replies", losses(None), STEPS),
        explore("three nodes, two cells", three(None), STEPS),
    ];
    for one in &explored {
        assert_eq!(one.broken, None);
    }
    let states: usize = explored.iter().map(|one| one.states).sum();
    eprintln!("in all: {states} distinct states");
    assert!(states >= 1_000_000, "{states} distinct states are few");
    assert!(explored.iter().any(|one| one.taken_over));
    assert!(explored.iter().any(|one| one.stopped));
}

fn caught(start: World, reason: &str) {
    let fault = start.config.planted;
    let broken = explore("with a planted fault", start, STEPS).broken;
    let broken = broken.unwrap_or_else(|| panic!("{fault:?} goes unnoticed"));
    assert!(broken.contains(reason), "{fault:?}: {broken}");
}

#[test]
fn a_seal_without_the_tail_is_found_by_exploration() {
    caught(death(Some(Fault::SealWithoutMerging)), "lost");
}
