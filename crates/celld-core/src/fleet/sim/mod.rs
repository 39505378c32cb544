//! A seeded simulation of a fleet: nodes that crash, freeze, lose their disks and come back; a
//! bucket that loses answers, applies late, repeats, throttles and goes away; a network that
//! loses, delays and doubles; clocks that start anywhere and drift; clients with a ledger of every
//! acknowledged write. Each run checks, at every step:
//!
//! - I1, I3: whatever was acknowledged is in what every later owner begins with;
//! - I2: an epoch has one writer;
//! - I4: a read shows everything that was acknowledged before it was asked for;
//! - I5: no clock agrees with any other, so whatever compares two of them fails;
//! - nobody takes himself for fenced who isn't;
//!
//! and, when trouble has ended, that every cell can be written and read through every node.

pub(in crate::fleet) mod bucket;
pub(in crate::fleet) mod ledger;
pub(in crate::fleet) mod node;
mod planted;
pub(in crate::fleet) mod process;
mod shell;
mod trouble;
mod world;

use crate::fleet::sabotage::Fault;
use world::World;

/// Seeds that failed once: replayed before all others.
const KEPT: [u64; 10] = [9, 127, 185, 203, 539, 1_275, 2_457, 2_824, 6_449, 12_668];

/// Runs one seed: the digest of what happened, or what went wrong.
fn run(seed: u64, planted: Option<Fault>) -> Result<u64, String> {
    let mut world = World::new(seed, planted, false);
    world.run()?;
    Ok(world.digest)
}

fn run_all(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        if let Err(broken) = run(seed, None) {
            let mut world = World::new(seed, None, true);
            let _ = world.run();
            let trace = world.trace.unwrap_or_default();
            let tail = trace.len().saturating_sub(TRACE_LINES);
            panic!(
                "seed {seed}: {broken}\nthe last of {} steps:\n{}\nto replay: cargo xtask sim --from {seed} --seeds 1",
                trace.len(),
                trace[tail..].join("\n")
            );
        }
    }
}

#[test]
fn kept_seeds_stay_sound() {
    run_all(KEPT.into_iter());
}

/// Steps that a failure prints.
const TRACE_LINES: usize = 20_000;

/// Seeds of a run in all, in four parts so that the test runner spreads them.
const SEEDS: u64 = 20_000;

#[test]
fn a_fleet_keeps_its_promises_first_quarter() {
    run_all(0..SEEDS / 4);
}

#[test]
fn a_fleet_keeps_its_promises_second_quarter() {
    run_all(SEEDS / 4..SEEDS / 2);
}

#[test]
fn a_fleet_keeps_its_promises_third_quarter() {
    run_all(SEEDS / 2..SEEDS * 3 / 4);
}

#[test]
fn a_fleet_keeps_its_promises_fourth_quarter() {
    run_all(SEEDS * 3 / 4..SEEDS);
}

/// `cargo xtask sim` sets the range at build time: this crate reads no environment.
#[test]
#[ignore = "long: cargo xtask sim --seeds N --from S"]
fn a_long_run() {
    let number = |text: Option<&str>, otherwise| {
        text.map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let from = number(option_env!("CELLD_SIM_FROM"), 0);
    let seeds = number(option_env!("CELLD_SIM_SEEDS"), 100_000);
    run_all(from..from + seeds);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let traced = |seed| {
        let mut world = World::new(seed, None, true);
        world.run().expect("this seed is sound");
        (world.digest, world.trace.expect("it is traced"))
    };
    let first = traced(7);
    assert!(first.1.len() > 500, "something happens");
    assert_eq!(first, traced(7));
    assert_eq!(
        run(7, None),
        Ok(first.0),
        "and looking at it changes nothing"
    );
    assert_ne!(first.0, traced(8).0);
}
