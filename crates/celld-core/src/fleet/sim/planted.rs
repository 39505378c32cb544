//! Every planted fault is noticed, and for its reason. Each test here defends one rule: with the
//! fault in place, the rule is broken, and the simulation must say so.

use super::run;
use crate::fleet::sabotage::Fault;

/// Seeds that may pass before a fault must have shown.
const SEEDS: u64 = 6_000;

fn caught(fault: Fault, reasons: &[&str]) {
    caught_from(0, fault, reasons);
}

/// Begins with a seed that has shown a rare fault before, to save time.
fn caught_from(seed: u64, fault: Fault, reasons: &[&str]) {
    let mut seeds = seed..seed + SEEDS;
    let broken = seeds.find_map(|seed| run(seed, Some(fault)).err().map(|why| (seed, why)));
    let (seed, broken) = broken.unwrap_or_else(|| panic!("{fault:?} goes unnoticed"));
    eprintln!("{fault:?}: seed {seed}: {broken}");
    assert!(
        reasons.iter().any(|reason| broken.contains(reason)),
        "{fault:?} is noticed for another reason: {broken}"
    );
}

const LOST: &[&str] = &["lost"];
const STALE: &[&str] = &["stale"];
const LOST_OR_STALE: &[&str] = &["lost", "stale"];

#[test]
fn a_write_acknowledged_before_its_proof_is_noticed() {
    caught(Fault::AcknowledgeBeforeProof, LOST);
}

#[test]
fn a_lost_reply_taken_for_a_failure_is_noticed() {
    caught(Fault::LostReplyIsFailure, &["for no reason"]);
}

#[test]
fn an_own_write_taken_for_anothers_is_noticed() {
    caught(Fault::OwnConflictIsALoss, &["for no reason"]);
}

#[test]
fn a_skipped_seal_is_noticed() {
    caught(Fault::SkipTheSeal, LOST);
}

#[test]
fn a_seal_without_the_followers_tail_is_noticed() {
    caught(Fault::SealWithoutMerging, LOST);
}

#[test]
fn a_seal_without_a_witness_is_noticed() {
    caught(Fault::SealWithoutWitness, LOST);
}

#[test]
fn a_proof_of_one_follower_of_two_is_noticed() {
    caught(Fault::OneFollowerIsEnough, LOST);
}

#[test]
fn a_follower_dropped_before_the_record_says_so_is_noticed() {
    caught(Fault::DropBeforeRecorded, LOST);
}

#[test]
fn a_last_follower_dropped_before_the_bucket_has_its_log_is_noticed() {
    caught(Fault::LeaveTheFollowersEarly, LOST);
}

#[test]
fn a_follower_recorded_before_it_has_caught_up_is_noticed() {
    caught_from(5_080, Fault::AddBeforeCaughtUp, LOST);
}

#[test]
fn an_append_accepted_after_the_seal_is_noticed() {
    caught(Fault::AppendAfterTheSeal, LOST);
}

#[test]
fn a_seal_forgotten_over_a_restart_is_noticed() {
    caught_from(1_360, Fault::ForgetTheSealOnRestart, LOST_OR_STALE);
}

#[test]
fn a_follower_that_empties_its_log_is_noticed() {
    caught(Fault::JoiningEmptiesTheLog, LOST);
}

#[test]
fn a_follower_that_accepts_a_gap_is_noticed() {
    caught(Fault::AcceptAGap, LOST);
}

#[test]
fn a_hole_in_the_bundles_that_counts_is_noticed() {
    caught(Fault::AHoleInTheBundlesCounts, LOST);
}

#[test]
fn a_reused_epoch_is_noticed() {
    caught(Fault::ReuseAnEpoch, &["two writers"]);
}

#[test]
fn a_dropped_tail_is_noticed() {
    caught(Fault::DropATail, LOST);
}

#[test]
fn a_claim_before_the_seal_is_noticed() {
    caught(Fault::ClaimBeforeSealed, LOST_OR_STALE);
}

#[test]
fn a_cell_served_while_it_is_released_is_noticed() {
    caught(Fault::ServeWhileReleasing, LOST_OR_STALE);
}

#[test]
fn a_read_without_a_grant_is_noticed() {
    caught_from(270, Fault::ReadWithoutAGrant, STALE);
}

#[test]
fn a_claim_by_a_session_without_a_record_is_noticed() {
    caught(Fault::ClaimWithoutARecord, &["stuck", "lost"]);
}
