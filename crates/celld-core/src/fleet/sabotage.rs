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
}
