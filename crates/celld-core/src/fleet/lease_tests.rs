//! The lease of a lone node and its takeover, move by move, on a bucket that is scripted by hand.

use std::collections::BTreeSet;

use super::config::{Config, Durability};
use super::ids::{Bundled, CertHash, NodeId, Token, Tokens};
use super::lease::Lease;
use super::register::{Ask, Found, Written};
use super::sabotage::Fault;
use super::session::{Phase, SessionRecord};
use super::stop::Stop;
use super::takeover::{LogObject, Progress, SealAnswer, Takeover, TakeoverAsk};
use crate::{Lsn, MonoMs, SessionId};

const TTL: u64 = 9_000;

fn session(n: u128) -> SessionId {
    SessionId::from_random(n)
}

fn fresh(witnesses: &[NodeId]) -> SessionRecord {
    SessionRecord {
        token: Token {
            session: session(1),
            number: 0,
        },
        session: session(1),
        node: NodeId::from_random(1),
        phase: Phase::Open,
        durability: Durability::Fleet,
        witnesses: witnesses.iter().copied().collect(),
        bundled: Bundled::default(),
        cert: CertHash::default(),
    }
}

fn at(ms: u64) -> MonoMs {
    MonoMs::new(ms)
}

fn written(ask: Option<Ask<SessionRecord>>) -> (Option<Token>, SessionRecord) {
    match ask {
        Some(Ask::Write { expect, next, .. }) => (expect, next),
        other => panic!("a write is asked for, not {other:?}"),
    }
}

/// A lease that was created by a request that left at 1,000 and was answered at 1,400.
fn held(config: Config) -> (Lease, SessionRecord) {
    let mut lease = Lease::open(config, fresh(&[]), at(1_000));
    let (expect, record) = written(lease.poll_ask(at(1_000)));
    assert_eq!(expect, None, "a session's record is created");
    lease.wrote(Written::Done, at(1_400));
    (lease, record)
}

#[test]
fn a_lease_counts_from_before_the_request_was_sent() {
    let waiting = Lease::open(Config::default(), fresh(&[]), at(1_000));
    assert!(!waiting.holds(at(1_000)), "nothing is known to be applied");
    let (lease, _) = held(Config::default());
    assert!(lease.holds(at(1_000 + TTL - 1)));
    assert!(!lease.holds(at(1_000 + TTL)));
}

#[test]
fn the_checks_catch_a_lease_from_its_receipt_and_service_after_its_end() {
    let planted = |fault| Config {
        planted: Some(fault),
        ..Config::default()
    };
    let (lease, _) = held(planted(Fault::LeaseFromReceipt));
    assert!(lease.holds(at(1_000 + TTL)), "it lives too long");
    let (mut lease, _) = held(planted(Fault::ServeAfterLeaseLoss));
    lease.handle_time(at(1_000 + TTL));
    assert_eq!(lease.stopped(), None, "it goes on");
}

#[test]
fn a_lease_that_runs_out_stops_the_session_with_its_own_code() {
    let (mut lease, _) = held(Config::default());
    lease.handle_time(at(1_000 + TTL));
    assert_eq!(lease.stopped(), Some(Stop::LeaseLost));
    assert_eq!(lease.poll_ask(at(1_000 + TTL)), None);
    let codes = [
        Stop::LeaseLost,
        Stop::RecordReplaced,
        Stop::LogSealed,
        Stop::WitnessSealed,
        Stop::CellTaken,
    ];
    assert_eq!(
        codes
            .map(Stop::code)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .len(),
        5
    );
}

#[test]
fn a_lost_answer_is_decided_by_reading_back() {
    let (mut lease, first) = held(Config::default());
    let (renew, _) = lease.deadline().expect("it is renewed");
    lease.handle_time(renew);
    let (expect, second) = written(lease.poll_ask(renew));
    assert_eq!(expect, Some(first.token));
    lease.wrote(Written::Unknown, renew.plus(100));
    assert!(matches!(
        lease.poll_ask(renew.plus(100)),
        Some(Ask::Read { .. })
    ));
    lease.read(Found::Here(second), renew.plus(200));
    assert!(lease.is_settled());
    assert!(lease.holds(renew.plus(TTL - 1)), "it was applied");
    assert_eq!(lease.stopped(), None);
}

#[test]
fn a_write_that_was_not_applied_is_repeated_with_the_same_token() {
    let (mut lease, first) = held(Config::default());
    let (renew, _) = lease.deadline().expect("it is renewed");
    lease.handle_time(renew);
    let (_, second) = written(lease.poll_ask(renew));
    lease.wrote(Written::Unknown, renew.plus(100));
    lease.poll_ask(renew.plus(100));
    lease.read(Found::Here(first.clone()), renew.plus(200));
    let (again, _) = lease.deadline().expect("it tries again");
    lease.handle_time(again);
    assert_eq!(
        written(lease.poll_ask(again)),
        (Some(first.token), second.clone())
    );
    // The lost request was applied meanwhile.
    lease.wrote(Written::Refused, again.plus(50));
    lease.poll_ask(again.plus(50));
    lease.read(Found::Here(second), again.plus(100));
    assert_eq!(lease.stopped(), None);
    assert!(lease.holds(renew.plus(TTL - 1)));
    assert!(
        !lease.holds(renew.plus(TTL)),
        "it counts from the first attempt"
    );
}

#[test]
fn a_record_of_someone_else_ends_the_session() {
    let (mut lease, record) = held(Config::default());
    let (renew, _) = lease.deadline().expect("it is renewed");
    lease.handle_time(renew);
    lease.poll_ask(renew);
    lease.wrote(Written::Refused, renew.plus(10));
    lease.poll_ask(renew.plus(10));
    let mut theirs = record;
    theirs.token.session = session(2);
    theirs.phase = Phase::Recovering;
    lease.read(Found::Here(theirs), renew.plus(20));
    assert_eq!(lease.stopped(), Some(Stop::RecordReplaced));
    assert!(!lease.holds(renew.plus(20)));
}

#[test]
fn at_least_five_attempts_fit_into_the_last_third() {
    let (mut lease, _) = held(Config::default());
    let mut now = at(1_000 + TTL * 2 / 3);
    let mut attempts = 0;
    lease.handle_time(now);
    while lease.stopped().is_none() {
        match lease.poll_ask(now) {
            Some(Ask::Write { within_ms, .. }) => {
                attempts += 1;
                now = now.plus(within_ms);
                lease.wrote(Written::Failed, now);
            }
            Some(Ask::Read { within_ms }) => {
                now = now.plus(within_ms);
                lease.read(Found::Failed, now);
            }
            None => now = lease.deadline().expect("it goes on").0,
        }
        lease.handle_time(now);
    }
    assert!(attempts >= 5, "{attempts} attempts");
    assert!(now.get() >= 1_000 + TTL);
}

/// A takeover that has been told what the record says.
struct Claimant {
    takeover: Takeover,
    tokens: Tokens,
    now: u64,
}

impl Claimant {
    fn new(config: Config, known_dead: bool) -> Self {
        Self {
            takeover: Takeover::new(config, known_dead),
            tokens: Tokens::new(session(2)),
            now: 500_000,
        }
    }

    fn ask(&mut self) -> Option<TakeoverAsk> {
        self.takeover.handle_time(&mut self.tokens, at(self.now));
        self.takeover.poll_ask(&mut self.tokens, at(self.now))
    }

    fn read(&mut self, record: &SessionRecord) {
        assert!(matches!(
            self.ask(),
            Some(TakeoverAsk::Record(Ask::Read { .. }))
        ));
        let found = Found::Here(record.clone());
        self.takeover
            .record_read(found, &mut self.tokens, at(self.now));
    }

    /// The record that it writes, which is applied.
    fn write(&mut self) -> SessionRecord {
        let Some(TakeoverAsk::Record(Ask::Write { next, .. })) = self.ask() else {
            panic!("it writes the record");
        };
        self.takeover.record_wrote(Written::Done, at(self.now));
        next
    }

    fn log_read(&mut self, wanted: u64, found: Found<LogObject>) {
        assert!(matches!(self.ask(), Some(TakeoverAsk::ReadLog { seq, .. }) if seq == wanted));
        self.takeover.log_read(found, at(self.now));
    }

    fn seal(&mut self, outcome: Written) -> (u64, LogObject, Lsn, Option<NodeId>) {
        let Some(TakeoverAsk::WriteSeal {
            seq,
            object,
            after,
            source,
            ..
        }) = self.ask()
        else {
            panic!("it writes the seal");
        };
        self.takeover.log_wrote(outcome, at(self.now));
        (seq, object, after, source)
    }
}

fn bundle(end: u64) -> Found<LogObject> {
    Found::Here(LogObject {
        token: fresh(&[]).token,
        seal: false,
        end: Lsn::new(end),
    })
}

/// True when a claimant may fence a lone owner that renews as late as it can.
fn outlives_the_lease(config: Config) -> bool {
    let (_, record) = held(Config::default());
    let mut claimant = Claimant::new(config, false);
    claimant.read(&record);
    assert_eq!(claimant.ask(), None, "it watches");
    claimant.now += TTL - 10;
    // Renewed at the last moment.
    let mut renewed = record;
    renewed.token.number += 1;
    claimant.now = claimant
        .takeover
        .deadline()
        .expect("it looks again")
        .0
        .get();
    claimant.read(&renewed);
    claimant.ask().is_none()
}

#[test]
fn a_lone_owner_is_replaced_only_after_its_lease_has_not_changed_for_its_whole_length() {
    assert!(outlives_the_lease(Config::default()));
    let mut claimant = Claimant::new(Config::default(), false);
    let (_, record) = held(Config::default());
    claimant.read(&record);
    let (look, _) = claimant.takeover.deadline().expect("it looks again");
    assert!(
        look.get() >= claimant.now + TTL + TTL / 20,
        "both clocks may drift"
    );
    claimant.now = look.get();
    claimant.read(&record);
    assert_eq!(claimant.write().phase, Phase::Recovering);
}

#[test]
fn the_check_catches_an_observer_that_counts_from_an_older_record() {
    let config = Config {
        planted: Some(Fault::WatchFromTheStart),
        ..Config::default()
    };
    assert!(!outlives_the_lease(config));
}

#[test]
fn the_seal_goes_to_the_first_free_number_and_the_old_owners_bundles_count() {
    let mut claimant = Claimant::new(Config::default(), true);
    let mut record = fresh(&[]);
    record.bundled = Bundled {
        next_seq: 7,
        lsn: Lsn::new(60),
    };
    claimant.read(&record);
    assert_eq!(claimant.write().phase, Phase::Recovering);
    claimant.log_read(7, bundle(64));
    claimant.log_read(8, Found::Absent);
    let (seq, _, after, _) = claimant.seal(Written::Refused);
    assert_eq!((seq, after), (8, Lsn::new(64)));
    claimant.log_read(8, bundle(70));
    claimant.log_read(9, Found::Failed);
    claimant.now += 1_000;
    claimant.log_read(9, Found::Absent);
    let (seq, object, after, source) = claimant.seal(Written::Unknown);
    assert_eq!(
        (seq, object.end, after, source),
        (9, Lsn::new(70), Lsn::new(70), None)
    );
    claimant.log_read(9, Found::Here(object));
    assert_eq!(claimant.write().phase, Phase::Sealed { seq: 9 });
    assert_eq!(claimant.takeover.progress(), Progress::Sealed { seq: 9 });
}

#[test]
fn without_an_answer_of_a_follower_nothing_is_sealed() {
    let (a, b) = (NodeId::from_random(0xa), NodeId::from_random(0xb));
    let mut claimant = Claimant::new(Config::default(), false);
    claimant.read(&fresh(&[a, b]));
    let asked = [claimant.ask(), claimant.ask()];
    assert_eq!(
        asked,
        [a, b].map(|witness| Some(TakeoverAsk::Doubt { witness }))
    );
    claimant
        .takeover
        .doubted(a, false, &mut claimant.tokens, at(claimant.now));
    assert_eq!(claimant.ask(), None, "a witness hears it: it is not fenced");
    claimant
        .takeover
        .doubted(b, true, &mut claimant.tokens, at(claimant.now));
    claimant.write();
    let asked = [claimant.ask(), claimant.ask()];
    assert_eq!(
        asked,
        [a, b].map(|witness| Some(TakeoverAsk::Seal { witness }))
    );
    assert_eq!(claimant.ask(), None);
    assert!(claimant.takeover.lacks_witness());
    // A follower with an empty disk knows nothing, and that proves nothing.
    let empty = SealAnswer {
        end: None,
        bundled: Bundled::default(),
        grant_left_ms: 0,
    };
    claimant.takeover.sealed(a, empty, at(claimant.now));
    assert_eq!(claimant.ask(), None);
    assert!(claimant.takeover.lacks_witness());
    claimant.now += 1_000;
    assert_eq!(
        claimant.ask(),
        Some(TakeoverAsk::Seal { witness: a }),
        "asked again"
    );
    claimant.ask();
    let answer = SealAnswer {
        end: Some(Lsn::new(12)),
        bundled: Bundled {
            next_seq: 3,
            lsn: Lsn::new(10),
        },
        grant_left_ms: 700,
    };
    claimant.takeover.sealed(b, answer, at(claimant.now));
    assert!(!claimant.takeover.lacks_witness());
    claimant.log_read(3, Found::Absent);
    let (seq, object, after, source) = claimant.seal(Written::Done);
    assert_eq!(
        (seq, object.end, after, source),
        (3, Lsn::new(12), Lsn::new(10), Some(b))
    );
    assert_eq!(claimant.ask(), None, "the last grant has not ended");
    let (ended, _) = claimant.takeover.deadline().expect("it will end");
    assert!(ended.get() > claimant.now + 700);
    claimant.now = ended.get();
    assert_eq!(claimant.write().phase, Phase::Sealed { seq: 3 });
}

/// A claimant whose only witness has sealed with 700 ms of its last grant left; true when it waits.
fn waits_for_the_last_grant(planted: Option<Fault>) -> bool {
    let config = Config {
        planted,
        ..Config::default()
    };
    let witness = NodeId::from_random(0xa);
    let mut claimant = Claimant::new(config, true);
    claimant.read(&fresh(&[witness]));
    claimant.write();
    claimant.ask();
    let answer = SealAnswer {
        end: Some(Lsn::new(0)),
        bundled: Bundled::default(),
        grant_left_ms: 700,
    };
    claimant.takeover.sealed(witness, answer, at(claimant.now));
    claimant.log_read(1, Found::Absent);
    claimant.seal(Written::Done);
    claimant.ask().is_none()
}

#[test]
fn nothing_can_be_claimed_before_the_last_grant_has_ended() {
    assert!(waits_for_the_last_grant(None));
}

#[test]
fn the_check_catches_a_takeover_that_ignores_the_grant() {
    assert!(!waits_for_the_last_grant(Some(Fault::IgnoreTheGrant)));
}
