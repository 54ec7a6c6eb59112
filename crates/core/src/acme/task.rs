//! What an edge does next for a certificate, alone or with others that have the same store.
//!
//! ```text
//!            due            granted, nothing written since
//! Wait ------------> Lock ----------------> Store | RenewalInfo | Attempt --> Wait
//!   ^                  |                         |
//!   +-- others have it +   the lease ends: nothing more, others go on
//! ```
//! In a cluster each certificate has a lock in the store, which ends with the lease of who holds
//! it. Whoever holds it asks the authority, and nobody else. Its revision is the fencing token:
//! whatever is written of the certificate is written only if the lock still has that revision. To
//! the authority nothing is sent after [`leased_until`], so that an edge which is cut off from the
//! store stops before another begins.

use crate::time::{Duration, Instant};

/// Who may ask the authority for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// This edge alone, always: its state is on its own disk.
    Sole,
    /// Nobody has the lock.
    Free,
    /// This edge has it, with a lease that is good.
    Held,
    /// Another edge has it.
    Others,
    /// The store is away: nobody here knows.
    Unknown,
}

/// How it stands with a certificate, as far as an edge knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateState {
    /// Whether this edge may ask the authority.
    pub lock: Lock,
    /// When the next attempt to get one is due.
    pub due_s: u64,
    /// When the authority is asked when to renew; none without a certificate.
    pub ask_s: Option<u64>,
    /// Whether this edge has a certificate issued later than the one in the cluster's store, if
    /// any.
    pub is_unstored: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Nothing before that, in seconds since 1970, unless something becomes known.
    Wait(u64),
    /// Take the lock.
    Lock,
    /// Put the certificate that is here into the store, instead of asking for another.
    Store,
    /// Ask the authority when to renew (RFC 9773).
    RenewalInfo,
    /// Get a certificate: by the order that was begun, otherwise by a new one.
    Attempt,
}

impl CertificateState {
    /// What to do at `now_s`. After the lock is granted this is asked again: of two edges that saw
    /// the same, the second finds that all is done.
    #[must_use]
    pub fn task(&self, now_s: u64) -> Task {
        // One that is to be renewed anyway is of no use to the others.
        let stores = self.is_unstored && now_s < self.due_s;
        let next_s = if stores { 0 } else { self.next_s() };
        match self.lock {
            Lock::Others | Lock::Unknown => Task::Wait(u64::MAX),
            _ if now_s < next_s => Task::Wait(next_s),
            Lock::Free => Task::Lock,
            Lock::Sole | Lock::Held if stores => Task::Store,
            Lock::Sole | Lock::Held if self.ask_s.is_some_and(|at_s| at_s <= now_s) => {
                Task::RenewalInfo
            }
            Lock::Sole | Lock::Held => Task::Attempt,
        }
    }

    fn next_s(&self) -> u64 {
        self.ask_s.map_or(self.due_s, |ask_s| ask_s.min(self.due_s))
    }
}

/// Until when a lease is good for whoever asked for it at `asked`: `margin` is for what is still on
/// its way to the authority then, and for clocks that differ in speed. The store counts `lease`
/// from when it has heard of it, which is later.
#[must_use]
pub fn leased_until(asked: Instant, lease: Duration, margin: Duration) -> Instant {
    asked + lease.saturating_sub(margin)
}

/// The shortest lease of a lock. A takeover may take so long, since certificates are renewed weeks
/// before they end; an edge that is slow for a moment keeps its order.
pub const LEASE_MIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
