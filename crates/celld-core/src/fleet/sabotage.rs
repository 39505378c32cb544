//! Mistakes that tests plant in the fleet machine, each of which a named test must notice. They
//! can be planted in test builds only.

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Fault {
    /// A write without an answer is taken for one that failed.
    LostReplyIsFailure,
    /// A refused repetition of an own write is taken for someone else's.
    OwnConflictIsALoss,
    /// A lease counts from the answer, not from the request.
    LeaseFromReceipt,
    /// A session goes on after its lease ran out.
    ServeAfterLeaseLoss,
    /// An observer waits as long as the lease lives, but from before it saw the record.
    WatchFromTheStart,
    /// A takeover writes no seal.
    SkipTheSeal,
    /// A seal holds nothing of what the followers have.
    SealWithoutMerging,
    /// A takeover doesn't wait until the last read grant has ended.
    IgnoreTheGrant,
    /// A takeover without an answer of a witness goes on as if there were nothing to ask for.
    SealWithoutWitness,
    /// A write counts as proven once it is in the leader's memory.
    AcknowledgeBeforeProof,
    /// One follower of several proves a write.
    OneFollowerIsEnough,
    /// A dropped follower doesn't count any more before the record says so.
    DropBeforeRecorded,
    /// The last follower is dropped although the bucket lacks proven writes.
    LeaveTheFollowersEarly,
    /// A follower is recorded that lacks proven writes.
    AddBeforeCaughtUp,
    /// A follower takes batches of a session that it has sealed.
    AppendAfterTheSeal,
    /// A follower that restarts has forgotten what it sealed.
    ForgetTheSealOnRestart,
    /// A witness that restarts thinks that no grant of its is out.
    ForgetTheGrantsOnRestart,
    /// A follower that is asked to begin a log empties the one that it has.
    JoiningEmptiesTheLog,
    /// A follower takes a batch although it lacks the one before.
    AcceptAGap,
    /// A bundle counts although one before it is missing.
    AHoleInTheBundlesCounts,
    /// A claim keeps the epoch.
    ReuseAnEpoch,
    /// A claim forgets the log of the owner before.
    DropATail,
    /// A cell is claimed while its owner's session is being fenced off.
    ClaimBeforeSealed,
    /// A cell is served while its release is on its way.
    ServeWhileReleasing,
    /// A grant counts from the answer, not from the request.
    GrantFromReceipt,
    /// A grant counts from what the witness's clock said.
    TrustTheWitnessClock,
    /// An owner serves reads without asking whether it still may.
    ReadWithoutAGrant,
    /// A session without a record owns cells.
    ClaimWithoutARecord,
}
