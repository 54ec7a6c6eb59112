//! The events and the actions of a request machine.

use crate::{
    decide::{
        ending::Ending,
        ledger::ServerId,
        plan::{QueuePlace, ServicePlan},
        reason::Reason,
    },
    fleet::Class,
    time::{Duration, Instant},
};

/// What is known of a request when it comes.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// What it is.
    pub kind: Kind,
    /// Hash of what the service hashes; any value where the policy does not hash.
    pub key: u64,
    /// How much it matters where not all find room.
    pub class: Class,
    /// The server that its session is with, or to which its client has a connection of its own.
    pub stick: Option<ServerId>,
    /// Acting on it twice is the same as acting once (RFC 9110, 9.2.2), and all of it is at hand as
    /// long as none of its body is said to have been sent that is not.
    pub idempotent: bool,
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One message and its response.
    Message,
    /// A connection whose bytes mean nothing here.
    Stream,
    /// A message that was copied: nobody waits for its response.
    Copy,
}

/// What an event is decided by besides what the machine knows.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The time of the event.
    pub now: Instant,
    /// A random number, uniform over all of `u64`.
    pub draw: u64,
    /// The service as the plan in force has it; none once it is gone.
    pub plan: Option<&'a ServicePlan>,
    /// How long events wait now until this edge hears of them: response times are that much
    /// longer than those of servers.
    pub lag: Duration,
}

/// What has happened to a request.
#[derive(Debug)]
pub enum Event {
    /// It has come.
    Arrived,
    /// Somebody of a lower class has given way in the queue, or nobody.
    Room(Option<QueuePlace>),
    /// It is now first in the queue, or is still first and something has changed.
    First,
    /// A newcomer of a higher class has taken its place in the queue.
    Displaced,
    /// It has waited for as long as [`Action::Join`] said.
    Overdue,
    /// Its client has gone while it waited.
    ClientGone,
    /// The connection of a [`Kind::Stream`] stands.
    Connected,
    /// Its server owes a response: a deadline has passed, or the server is out for its silence.
    Unanswered(Unanswered),
    /// The head of the response has come.
    Head {
        /// HTTP status code of the response.
        status: u16,
        /// Nothing of the request's body has been sent that is not at hand any more.
        untouched: bool,
    },
    /// The attempt has failed.
    Failed(Failed),
    /// The attempt has ended like this, which is no failure.
    Ended(Ending),
}

/// How long a server has owed a response.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered {
    /// The deadline has passed.
    pub expired: bool,
    /// The deadline passed while the edge itself did not run, which is no fault of the server.
    pub late: bool,
    /// Since all of the request has been sent; none while some is yet to go.
    pub waited: Option<Duration>,
    /// How long it may take; zero for ever.
    pub limit: Duration,
    /// Nothing of the request's body has been sent that is not at hand any more.
    pub untouched: bool,
    /// Why it fails where the deadline is the end.
    pub reason: Reason,
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// What went wrong.
    pub reason: Reason,
    /// How far it had come.
    pub progress: Progress,
}

/// How far an attempt had come when it failed.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each of its own protocol step"
)]
pub struct Progress {
    /// The server had as many connections as allowed.
    pub crowded: bool,
    /// Its connection had carried requests before.
    pub reused: bool,
    /// The server left the connection, or may have left it, before this request; or the connection
    /// was closed for the response to another.
    pub left: bool,
    /// The server can have acted on it.
    pub sent: bool,
    /// Some of its body has been sent that is not at hand any more.
    pub touched: bool,
    /// Some of a response has come.
    pub heard: bool,
    /// Some of a response has reached the client.
    pub committed: bool,
}

/// Why an attempt, or the request as a whole, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How the request ends where nothing more is tried.
    pub ending: Ending,
    /// What went wrong.
    pub reason: Reason,
}

impl Progress {
    /// Nothing has happened yet.
    pub const NOTHING: Self = Self {
        crowded: false,
        reused: false,
        left: false,
        sent: false,
        touched: false,
        heard: false,
        committed: false,
    };
}

impl Failure {
    /// A failure before anything was sent anywhere.
    #[must_use]
    pub const fn new(reason: Reason) -> Self {
        Self { ending: reason.ending(), reason }
    }
}

/// What is to be done about a request now.
#[derive(Debug)]
#[must_use]
pub enum Action {
    /// Nothing: it has ended, or goes on as it does.
    None,
    /// Make room in the queue by displacing a request of a lower class: [`Event::Room`].
    Displace,
    /// Wait in the queue.
    Join {
        /// Its place in the queue.
        place: QueuePlace,
        /// The time for [`Event::Overdue`].
        until: Instant,
    },
    /// It goes on waiting as the first, for something to change, or for this instant.
    Wait(Option<Instant>),
    /// It is sent to the server of [`Machine::permit`](super::Machine::permit).
    Send,
    /// It is sent to the same server once more, over another connection.
    Resend,
    /// Wait this long for the response; zero is for ever.
    Await(Duration),
    /// The attempt fails for this reason: [`Event::Failed`].
    GiveUp(Reason),
    /// The response goes to the client.
    Forward,
    /// The response is thrown away, which is a failure of its server
    /// ([`Machine::take_untold`](super::Machine::take_untold)): [`Event::Ended`], then it is sent
    /// elsewhere.
    Discard,
    /// It has failed: [`Machine::failure`](super::Machine::failure).
    End,
}
