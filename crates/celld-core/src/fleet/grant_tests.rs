//! Read grants, move by move: both sides count on their own clocks, each to the safe side. Every
//! rule is checked with the mistake planted, too.

use std::collections::BTreeMap;

use super::config::{Config, Durability};
use super::ids::{Bundled, CertHash, NodeId, Token};
use super::message::{Message, StoreOp};
use super::peers::Peers;
use super::sabotage::Fault;
use super::session::{Phase, SessionRecord};
use super::witness::{Deed, Followed, Witness};
use crate::{Lsn, MonoMs, SessionId};

const OWNER: (NodeId, SessionId) = (NodeId::from_random(1), SessionId::from_random(1));
const WITNESS: (NodeId, SessionId) = (NodeId::from_random(2), SessionId::from_random(2));
const CLAIMANT: NodeId = NodeId::from_random(3);

fn with(planted: Option<Fault>) -> Config {
    Config {
        planted,
        ..Config::default()
    }
}

fn at(ms: u64) -> MonoMs {
    MonoMs::new(ms)
}

fn record() -> SessionRecord {
    SessionRecord {
        token: Token {
            session: OWNER.1,
            number: 1,
        },
        session: OWNER.1,
        node: OWNER.0,
        phase: Phase::Open,
        durability: Durability::Fleet,
        witnesses: [WITNESS.0].into_iter().collect(),
        bundled: Bundled::default(),
        cert: CertHash::default(),
    }
}

/// An owner asked at 1,000 on its clock, and is answered 300 ms later by a witness whose clock is
/// far ahead. True when its grant ends when it must.
fn an_owners_grant_ends_in_time(planted: Option<Fault>) -> bool {
    let config = with(planted);
    let mut peers = Peers::new(config, at(0));
    peers.linked(WITNESS.0, WITNESS.1, at(0));
    assert!(!peers.all_grant(&record(), at(1_000)), "nothing is granted");
    peers.granted(WITNESS.0, at(1_000), at(9_000_000), at(1_300));
    let end = 1_000 + config.grant_ms;
    peers.all_grant(&record(), at(end - 1)) && !peers.all_grant(&record(), at(end))
}

#[test]
fn a_grant_counts_from_before_it_was_asked_for_on_the_owners_clock() {
    assert!(an_owners_grant_ends_in_time(None));
}

#[test]
fn the_check_catches_a_grant_counted_from_its_receipt() {
    assert!(!an_owners_grant_ends_in_time(Some(Fault::GrantFromReceipt)));
}

#[test]
fn the_check_catches_a_grant_by_the_witnesss_clock() {
    assert!(!an_owners_grant_ends_in_time(Some(
        Fault::TrustTheWitnessClock
    )));
}

fn sealed(witness: &mut Witness, now: u64) -> u64 {
    witness.seal(CLAIMANT, OWNER.1, at(now));
    let deeds = witness.stored(OWNER.1, StoreOp::Seal, None, at(now));
    match deeds.as_slice() {
        [Deed::Say(CLAIMANT, Message::SealAnswer { answer, .. })] => answer.grant_left_ms,
        other => panic!("the claimant is answered, not {other:?}"),
    }
}

#[test]
fn a_witness_says_how_long_its_last_grant_goes_on_and_gives_no_more() {
    let config = with(None);
    let mut witness = Witness::new(config, &BTreeMap::new(), at(0));
    let ping =
        |witness: &mut Witness, now| witness.ping(OWNER, at(77), Bundled::default(), at(now));
    assert!(matches!(
        ping(&mut witness, 10_000),
        Deed::Say(_, Message::Pong { .. })
    ));
    let left = sealed(&mut witness, 10_100);
    assert_eq!(left, config.outlast_ms(config.grant_ms) - 100);
    assert!(
        left > config.grant_ms - 100,
        "the two clocks may drift apart"
    );
    assert_eq!(
        ping(&mut witness, 10_200),
        Deed::Say(OWNER.0, Message::Refused)
    );
    assert_eq!(
        witness.append(OWNER, Lsn::new(1), Lsn::new(1)),
        Some(Deed::Say(OWNER.0, Message::Refused))
    );
}

/// A witness restarts at 50,000, just after it had granted a read, and is asked to seal.
fn a_restart_outlasts_grants(planted: Option<Fault>) -> bool {
    let config = with(planted);
    let followed = Followed {
        end: Some(Lsn::new(3)),
        bundled: Bundled::default(),
        sealed: false,
    };
    let found = [(OWNER.1, followed)].into_iter().collect();
    let mut witness = Witness::new(config, &found, at(50_000));
    sealed(&mut witness, 50_010) >= config.grant_ms
}

#[test]
fn a_restarted_witness_takes_for_granted_what_it_may_have_granted() {
    assert!(a_restart_outlasts_grants(None));
}

#[test]
fn the_check_catches_a_witness_that_forgets_its_grants() {
    assert!(!a_restart_outlasts_grants(Some(
        Fault::ForgetTheGrantsOnRestart
    )));
}

#[test]
fn a_batch_behind_a_gap_is_not_taken_and_the_follower_says_where_it_stands() {
    let mut witness = Witness::new(with(None), &BTreeMap::new(), at(0));
    let say = |lsn| Some(Deed::Say(OWNER.0, Message::Stored { lsn: Lsn::new(lsn) }));
    assert_eq!(
        witness.append(OWNER, Lsn::new(1), Lsn::new(2)),
        None,
        "no follower"
    );
    assert_eq!(
        witness.join(OWNER, Lsn::new(4)),
        Deed::Store(OWNER.1, StoreOp::Begin(Lsn::new(4)))
    );
    witness.stored(OWNER.1, StoreOp::Begin(Lsn::new(4)), Some(OWNER.0), at(1));
    assert_eq!(witness.append(OWNER, Lsn::new(6), Lsn::new(7)), say(4));
    assert_eq!(
        witness.append(OWNER, Lsn::new(3), Lsn::new(7)),
        Some(Deed::Store(OWNER.1, StoreOp::Append(Lsn::new(7))))
    );
    assert_eq!(
        witness.append(OWNER, Lsn::new(3), Lsn::new(7)),
        say(4),
        "it is being flushed"
    );
    witness.stored(OWNER.1, StoreOp::Append(Lsn::new(7)), Some(OWNER.0), at(2));
    assert_eq!(witness.append(OWNER, Lsn::new(3), Lsn::new(7)), say(7));
}
