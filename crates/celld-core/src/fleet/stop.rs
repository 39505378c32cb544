//! Why a session is over. The process says so and exits with status 3.

/// One cause, one code. After any of them the session reveals nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Stop {
    /// The lease ran out before it could be renewed.
    #[error(
        "the lease in the bucket ran out before it could be renewed: check the bucket's latency and errors, then start the node again"
    )]
    LeaseLost,
    /// The session record is another's write: someone is taking over, or has.
    #[error(
        "another node replaced this session's record: it took this node for dead; start the node again"
    )]
    RecordReplaced,
    /// A number of the log was taken by someone else's object.
    #[error(
        "another node sealed this session's log: it took this node for dead; start the node again"
    )]
    LogSealed,
    /// A witness was asked to seal and refuses this session.
    #[error(
        "a witness refuses this session because another node is taking it over; start the node again"
    )]
    WitnessSealed,
    /// A cell that this session owns has another's record.
    #[error(
        "another node claimed a cell of this session: it took this node for dead; start the node again"
    )]
    CellTaken,
}

impl Stop {
    /// Stable code, as logs and `celld explain` use it.
    pub fn code(self) -> &'static str {
        match self {
            Self::LeaseLost => "CD0501",
            Self::RecordReplaced => "CD0502",
            Self::LogSealed => "CD0503",
            Self::WitnessSealed => "CD0504",
            Self::CellTaken => "CD0505",
        }
    }
}
