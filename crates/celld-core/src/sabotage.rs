//! Faults that tests plant, to prove that the checks would notice them. Absent from the product.

/// A deliberate mistake. Each names, in the simulator, the check that must catch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Fault {
    /// A second request for a cell that is being loaded starts a second activation.
    ActivateTwice,
    /// A cell that is being saved is loaded at once.
    LoadWhileSaving,
    /// Hosts take more cells than allowed.
    Overpack,
    /// An alarm set during its handler is forgotten when the handler fails.
    LoseAlarm,
    /// An alarm is fired again while its handler runs.
    DoubleAlarm,
    /// A request for a host that died is forgotten.
    ForgetHostLoss,
    /// A cell that is kept out is let in.
    IgnoreQuarantine,
    /// A cell is told to rest although it was used a moment ago.
    RestTooSoon,
}

/// The planted fault of one core, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sabotage {
    #[cfg(test)]
    pub(crate) planted: Option<Fault>,
}

impl Sabotage {
    /// True when a test has planted this fault. Constantly false in the product.
    pub(crate) fn is(self, fault: Fault) -> bool {
        #[cfg(test)]
        return self.planted == Some(fault);
        #[cfg(not(test))]
        {
            let _ = fault;
            false
        }
    }
}
