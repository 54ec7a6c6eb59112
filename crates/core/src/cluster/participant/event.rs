//! What a participant hears, and what it wants done.

use alloc::{string::String, vec::Vec};

use crate::{
    cluster::{
        share::Share,
        table::{Report, Revision, SessionId, Table},
    },
    time::{Duration, Instant},
};

/// A service with its groups that are shared: those with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedService {
    /// Its name in the configuration.
    pub name: String,
    /// The names of the groups, in any order.
    pub groups: Vec<String>,
}

/// Which request an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// What is to be shared, at the beginning and after a reload.
    Configured(Vec<SharedService>),
    /// What this edge counted: one observation for each configured service, in that order; due by
    /// [`Participant::next_deadline`](super::Participant::next_deadline).
    Observed(Vec<Observation>),
    /// All that is in the store at this revision, over a new connection: at the beginning, and when
    /// a watch had to begin anew. Requests before it need not be answered any more.
    Read(Contents),
    /// What one revision has changed. Revisions come in order and none is left out; after a gap
    /// comes [`Event::Read`].
    Changed(Revision, Vec<Change>),
    /// The answer to a request.
    Answered(RequestId, Answer),
    /// The edge leaves in order: it uses nothing more.
    Leave,
}

/// What is counted of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Requests that have come since the process began, the highest class first, whatever became
    /// of them.
    pub asked: [u64; 3],
    /// One a group, in the order in which they were configured.
    pub groups: Vec<GroupObservation>,
}

/// What is known of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupObservation {
    /// The round trip; none where no request can be sent there.
    pub distance: Option<Duration>,
    /// Requests per thousand seconds that the whole group could take, if known.
    pub capacity: Option<u64>,
    /// Requests that the whole group may have in flight, if limited.
    pub places: Option<u32>,
    /// Requests in flight from this edge.
    pub in_flight: u32,
}

/// The store at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The revision at which all of this was read.
    pub revision: Revision,
    /// Every session, with the revision at which its report was created.
    pub sessions: Vec<(SessionId, Revision, Report)>,
    /// Every table by its service, with the revision at which it was written.
    pub tables: Vec<(String, Revision, Table)>,
}

/// A key that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A report was written; the revision is that at which it was created.
    Report(SessionId, Revision, Report),
    /// A session has ended: its report is gone.
    Ended(SessionId),
    /// The table of a service was written.
    Table(String, Table),
    /// It was deleted.
    TableGone(String),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// This edge may use so much of a group from now on, floor included. It must be in force before
    /// the next action is carried out: that one may tell others of it.
    Share {
        /// Name of the service.
        service: String,
        /// Name of the group within the service.
        group: String,
        /// How much.
        share: Share,
    },
    /// The shares in force may be used until then; for ever if none. The edge enforces it where it
    /// decides about requests, even if nobody calls the participant in time.
    Until(Option<Instant>),
    /// LeaseRequest for a lease of [`Settings::lease`](super::Settings::lease).
    Join(RequestId),
    /// Renew the lease.
    KeepAlive(RequestId, SessionId),
    /// Put `edges/SESSION` with the lease.
    Report(RequestId, SessionId, Report),
    /// Put `shares/SERVICE`, if it was last written at `replaces` (or is not there, where that is
    /// none), and `edges/SESSION` is there: a transaction.
    Table {
        /// For the answer.
        id: RequestId,
        /// The session that writes.
        session: SessionId,
        /// The service that the table is for.
        service: String,
        /// The revision at which the table was written that this one was made of.
        replaces: Option<Revision>,
        /// The new one.
        table: Table,
    },
    /// Revoke the lease: everything it had is free. There is no answer.
    Leave(SessionId),
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is a lease.
    Joined(SessionId),
    /// It was renewed, or the report was written.
    Done,
    /// The store does not know the session (any more).
    SessionLost,
    /// The table was written, at this revision.
    Written(Revision),
    /// Another table was there, which the watch brings.
    Conflict,
    /// Nobody knows what became of it, or the store refused it: it is tried again.
    Failed,
}
