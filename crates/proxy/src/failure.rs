//! Why one attempt of a request, or the request as a whole, failed, and what may follow.

use loadline_core::{ending::Ending, plan::Refusal, reason::Reason};
use loadline_http1::ParseError;

use crate::exchange::Next;

/// Why an attempt, or the request as a whole, failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) ending: Ending,
    pub(crate) reason: Reason,
    /// What is wrong with the client's message, if that is why.
    pub(crate) refused: Option<ParseError>,
    /// Whether sending the request again is safe.
    pub(crate) repeatable: bool,
    /// A kept connection had been closed meanwhile: nobody's fault.
    pub(crate) stale: bool,
    /// Part of an answer has reached the client, whose connection has to go like this.
    pub(crate) committed: Option<Next>,
    /// The server has all the connections it may have.
    pub(crate) crowded: bool,
    /// Sending it again is already taken out of the retry budget.
    pub(crate) paid: bool,
}

impl Failure {
    /// Its server has been given up: whatever the client has seen so far, this is its end.
    pub(crate) const CUT: Self =
        Self { repeatable: false, committed: Some(Next::Reset), ..Self::new(Reason::DrainOver) };

    /// A failure before anything was sent anywhere.
    pub(crate) const fn new(reason: Reason) -> Self {
        Self {
            ending: reason.ending(),
            reason,
            refused: None,
            repeatable: true,
            stale: false,
            committed: None,
            crowded: false,
            paid: false,
        }
    }

    /// Refused by the plan.
    pub(crate) const fn refused(refusal: Refusal) -> Self {
        Self::new(match refusal {
            Refusal::NoServer => Reason::NoServer,
            Refusal::Full => Reason::Full,
            Refusal::QueueFull => Reason::QueueFull,
        })
    }
}
