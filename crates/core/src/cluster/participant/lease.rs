//! The session of an edge: a lease, counted from the instant before it was requested.

use alloc::vec::Vec;

use crate::{
    cluster::{
        participant::{Answer, RequestId},
        table::SessionId,
    },
    time::{Duration, Instant},
};

/// Whether there is a session, and until when.
#[derive(Debug)]
pub(super) struct Lease {
    /// How long it is for the store, and for the edge.
    whole: Duration,
    counted: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    /// There is none; it is asked for at this time.
    Without(Instant),
    /// A lease was requested; with the time of the request, once sent.
    Joining(RequestId, Option<Instant>),
    With {
        session: SessionId,
        /// Since when.
        joined: Instant,
        /// When what was answered last was asked.
        renewed: Instant,
        /// Renewals requested since then.
        asked: Vec<(RequestId, Option<Instant>)>,
    },
}

/// A request about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseRequest {
    Join,
    KeepAlive(SessionId),
}

impl Lease {
    pub(super) fn new(whole: Duration, margin: Duration) -> Self {
        let counted = whole.saturating_sub(margin);
        Self { whole, counted, state: State::Without(Instant::ZERO) }
    }

    /// The session, whether or not its shares may be used.
    pub(super) fn session(&self) -> Option<SessionId> {
        if let State::With { session, .. } = self.state { Some(session) } else { None }
    }

    /// Until when shares may be used; none without a session.
    pub(super) fn until(&self) -> Option<Instant> {
        let State::With { renewed, .. } = self.state else { return None };
        Some(renewed + self.counted)
    }

    pub(super) fn is_valid(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Whether it has had the session for less than a lease.
    pub(super) fn is_new(&self, now: Instant) -> bool {
        matches!(self.state, State::With { joined, .. } if now < joined + self.whole)
    }

    /// What is to be asked now.
    pub(super) fn due(&self, now: Instant) -> Option<LeaseRequest> {
        match &self.state {
            State::Without(at) => (*at <= now).then_some(LeaseRequest::Join),
            State::Joining(_, asked) => {
                asked.is_some_and(|asked| asked + PATIENCE <= now).then_some(LeaseRequest::Join)
            }
            State::With { session, renewed, asked, .. } => {
                let last = asked.last().map_or(Some(*renewed), |(_, at)| *at)?;
                (last + self.period() <= now).then_some(LeaseRequest::KeepAlive(*session))
            }
        }
    }

    /// Something is about to be asked.
    pub(super) fn ask(&mut self, id: RequestId, ask: LeaseRequest) {
        match (&mut self.state, ask) {
            (State::With { asked, .. }, LeaseRequest::KeepAlive(_)) => {
                if asked.len() >= UNDER_WAY {
                    asked.remove(0);
                }
                asked.push((id, None));
            }
            (State::With { .. }, LeaseRequest::Join) | (_, LeaseRequest::KeepAlive(_)) => {}
            (state, LeaseRequest::Join) => *state = State::Joining(id, None),
        }
    }

    /// Notes that this request is sent now.
    pub(super) fn asked(&mut self, id: RequestId, now: Instant) {
        match &mut self.state {
            State::Joining(asked, at) if *asked == id => *at = Some(now),
            State::With { asked, .. } => {
                let request = asked.iter_mut().find(|(asked, _)| *asked == id);
                request.into_iter().for_each(|(_, at)| *at = Some(now));
            }
            State::Joining(..) | State::Without(_) => {}
        }
    }

    /// An answer came; whether it was to something of this lease.
    pub(super) fn answered(&mut self, now: Instant, id: RequestId, answer: Answer) -> bool {
        match &mut self.state {
            State::Joining(asked, at) if *asked == id => {
                self.state = match (answer, *at) {
                    (Answer::Joined(session), Some(renewed)) => {
                        State::With { session, joined: now, renewed, asked: Vec::new() }
                    }
                    _ => State::Without(now + PATIENCE),
                };
                true
            }
            State::With { asked, renewed, .. } => {
                let Some(at) = asked.iter().position(|(asked, _)| *asked == id) else {
                    return false;
                };
                match (answer, asked[at].1) {
                    (Answer::Done, Some(when)) => {
                        *renewed = when.max(*renewed);
                        asked.drain(..=at);
                    }
                    (Answer::SessionLost, _) => self.state = State::Without(now),
                    // It is asked again when its time comes, as if it had not been answered.
                    _ => {}
                }
                true
            }
            State::Joining(..) | State::Without(_) => false,
        }
    }

    /// There is a new connection: what was asked over another is not answered any more.
    pub(super) fn reconnected(&mut self, now: Instant) {
        match &mut self.state {
            State::With { asked, .. } => asked.clear(),
            state => *state = State::Without(now),
        }
    }

    /// The session has ended.
    pub(super) fn lose(&mut self, now: Instant) {
        self.state = State::Without(now);
    }

    fn period(&self) -> Duration {
        self.whole / 4
    }
}

/// After this it is asked again for a session.
const PATIENCE: Duration = Duration::from_secs(1);

/// Renewals that an answer is awaited to, at most.
const UNDER_WAY: usize = 8;
