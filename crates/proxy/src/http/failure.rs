//! The failure of one attempt, and which response the client may still get.

use loadline_core::decide::{
    reason::Reason,
    request::{Failed, Progress},
};
use loadline_http1::ParseError;

use crate::http::exchange::Next;

/// How an attempt failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) failed: Failed,
    /// What is wrong with the client's message, if that is why.
    pub(crate) refused: Option<ParseError>,
    /// Part of a response has reached the client, whose connection has to go like this.
    pub(crate) committed: Option<Next>,
    /// The same attempt is worth making once more.
    pub(crate) again: Option<Again>,
}

/// What is asked of a store once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The same, with another signature.
    Signed,
    /// Its page for objects that are not there.
    ErrorPage,
    /// Why it has refused a `HEAD`. If it does not say, what that is about is missing, or the
    /// request is bad.
    Cause { is_missing: bool },
    /// Nothing: the object is not there, and the page for that did not come.
    NoPage,
    /// All of the object: what the range was to be of is another by now.
    Whole,
    /// All of the object, for the conditions to be judged: the range is beyond its end.
    Conditions,
}

impl Failure {
    /// The server has all the connections it may have.
    pub(crate) const CROWDED: Self = Self {
        failed: Failed {
            reason: Reason::NoConnection,
            progress: Progress { crowded: true, ..Progress::NOTHING },
        },
        refused: None,
        committed: None,
        again: None,
    };

    /// Its server has been given up, and it is not sent to another. A client that has been told a
    /// `status`, if that is not 0, has part of a response.
    pub(crate) fn cut(status: u16) -> Self {
        let progress = Progress { committed: true, ..Progress::NOTHING };
        Self {
            failed: Failed { reason: Reason::DrainOver, progress },
            refused: None,
            committed: (status != 0).then_some(Next::Reset),
            again: None,
        }
    }

    /// A failure before anything was sent.
    pub(crate) const fn new(reason: Reason) -> Self {
        let failed = Failed { reason, progress: Progress::NOTHING };
        Self { failed, refused: None, committed: None, again: None }
    }
}

/// Why the rest of a request is missing by its client's fault, and what is wrong with it.
pub(crate) fn of_client(reason: Reason) -> (Reason, Option<ParseError>) {
    match reason {
        Reason::TrailersTooLarge => (Reason::ClientBad, Some(ParseError::TrailersTooLarge)),
        other => (other.of_client(), None),
    }
}
