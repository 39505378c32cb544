//! A seeded simulation of a node around the core: hosts that start, work and die, storage that is
//! slow or fails, clients, deployments, alarms. Each run checks, at every step:
//!
//! - a cell is in at most one live host, and a host has no more cells than allowed;
//! - a cell is read only while nothing writes it, and comes to life with its latest data;
//! - an alarm runs when it is due, as it was set last, and once at a time;
//! - a cell that breaks limits again and again is kept out for as long as was said;
//! - a cell rests when it has been idle for long enough, not before;
//! - and, when the world has come to rest, that nobody waits any more and no alarm is overdue.
//!
//! The last test plants faults in the core, one by one, and wants each of them noticed.

mod model;
mod world;

use crate::sabotage::Fault;
use world::World;

const SEEDS: u64 = 100;
const STEPS: usize = 600;

/// Runs one seed; gives back the trace, or what went wrong.
fn run(seed: u64, fault: Option<Fault>) -> Result<Vec<String>, String> {
    let mut world = World::new(seed, fault);
    for _ in 0..STEPS {
        world.step()?;
    }
    world.come_to_rest()?;
    world.drain()?;
    Ok(world.trace)
}

#[test]
fn a_node_keeps_its_promises_whatever_happens_in_whatever_order() {
    for seed in 0..SEEDS {
        if let Err(broken) = run(seed, None) {
            panic!("seed {seed}: {broken}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let first = run(7, None).expect("this seed is sound");
    assert!(first.len() > 500, "something happens");
    assert_eq!(Ok(first), run(7, None));
    assert_ne!(run(7, None), run(8, None));
}

#[test]
fn every_planted_fault_is_noticed() {
    let faults = [
        (Fault::ActivateTwice, "being read"),
        (Fault::LoadWhileSaving, "being written"),
        (Fault::Overpack, "too many cells"),
        (Fault::LoseAlarm, "alarm"),
        (Fault::DoubleAlarm, "alarm"),
        (Fault::ForgetHostLoss, "wait"),
        (Fault::RestTooSoon, "rests"),
        (Fault::IgnoreQuarantine, "kept out"),
    ];
    for (fault, expected) in faults {
        let broken = (0..SEEDS).find_map(|seed| run(seed, Some(fault)).err());
        let broken = broken.unwrap_or_else(|| panic!("{fault:?} goes unnoticed"));
        assert!(
            broken.contains(expected),
            "{fault:?} is noticed for another reason: {broken}"
        );
    }
}
