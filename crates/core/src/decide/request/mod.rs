//! One request from its arrival to its one ending, without I/O.
//!
//! Drivers - HTTP/1, HTTP/2, HTTP/3, TCP and TLS connections, mirroring, the simulator, tests -
//! report events to the [`Machine`] and carry out its actions. Decided here, once for all of them:
//! which servers are tried, how long a request waits, what is retried, which failures count against
//! a server, and the ending.
//!
//! ```text
//! Arrived --> Asking --> Waiting --> Sent --ended--> Over
//!    |  room     | a place  | room    | ^
//!    +-----------|----------|---------+ | failed, answered 5xx: another server
//!    | none      | none     | none    '-'
//!    '-----------'----------'---------> Over
//! ```
//!
//! A request is sent again if the server cannot have acted on it (nothing of it was sent), or if
//! acting twice is the same as acting once (an idempotent method, a buffered body) - and in either
//! case only while nothing of a response has reached the client, the attempts of the service are
//! not used up and its retry budget has something left.

mod event;
mod failed;
mod waiting;

use alloc::{boxed::Box, vec::Vec};
use core::mem;

pub use event::{Action, At, Event, Failed, Failure, Kind, Progress, Subject, Unanswered};

use crate::{
    decide::{
        controller::Input,
        ending::Ending,
        ledger::ServerId,
        permit::Permit,
        plan::{Decision, PickContext, Refusal, ServicePlan},
        reason::Reason,
    },
    time::{Duration, Instant},
};

/// A request on its way. Ending or dropping it gives back its permits and its place in the queue.
#[derive(Debug)]
pub struct Machine {
    subject: Subject,
    state: State,
    /// Servers that failed this request.
    tried: Vec<ServerId>,
    retries: u32,
    /// How long the server may answer nobody before it is suspected to hang; zero for ever.
    patience: Duration,
    /// Whether it was sent to this server before, over a kept connection that had been closed.
    resent: bool,
    /// What the next attempt was charged before it has a server.
    charge: Charge,
    /// Whether this request counts as a suspicion that the server hangs.
    suspects: bool,
    /// Why the last attempt failed, or why there is none.
    failure: Option<Failure>,
    /// Whether that is yet to be counted and told of.
    untold: bool,
    /// Rare, and much larger than a request.
    report: Option<Box<Input>>,
}

/// Where a request stands.
#[derive(Debug)]
enum State {
    /// Nothing is decided yet.
    Arrived,
    /// The queue is full: does somebody of a lower class give way?
    Asking,
    /// It stands in the queue.
    Waiting {
        /// Start of the wait, as if it had not been sent meanwhile.
        since: Instant,
        /// Until when it may keep others from servers that failed it; none if it does not.
        holds_up: Option<Instant>,
    },
    /// It was sent to the server of this permit.
    Sent(Permit),
    /// The same, and its response is given up for a place at another server: rare, so that the
    /// second permit takes no room in every request.
    Moving { from: Permit, to: Box<Permit> },
    /// It has ended.
    Over,
}

/// What an attempt is charged before a server is chosen for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Charge {
    #[default]
    Nothing,
    /// The attempt is counted.
    Counted,
    /// It is counted, and taken out of the retry budget.
    Paid,
}

impl Machine {
    /// A request that has just come.
    #[must_use]
    pub const fn new(subject: Subject) -> Self {
        Self {
            subject,
            state: State::Arrived,
            tried: Vec::new(),
            retries: 0,
            patience: Duration::ZERO,
            resent: false,
            charge: Charge::Nothing,
            suspects: false,
            failure: None,
            untold: false,
            report: None,
        }
    }

    /// Takes what has happened and says what is to be done now. What cannot happen in this state is
    /// ignored: [`Action::None`].
    pub fn handle(&mut self, at: &At<'_>, event: Event) -> Action {
        match (&self.state, event) {
            (State::Arrived, Event::Arrived) => {
                at.plan.into_iter().for_each(ServicePlan::count_request);
                self.pick(at)
            }
            (State::Asking, Event::Room(place)) => self.room(at, place),
            (State::Waiting { .. }, Event::First) => self.first(at),
            (State::Waiting { .. }, Event::Displaced) => self.over_capacity(at, Reason::QueueFull),
            (State::Waiting { .. }, Event::Overdue) => self.over_capacity(at, Reason::QueueTimeout),
            (State::Waiting { .. }, Event::ClientGone) => self.end(at, Reason::ClientGone),
            (State::Sent(permit), Event::Connected) => {
                permit.connected(at.now);
                Action::Forward
            }
            (State::Sent(_), Event::Unanswered(silence)) => self.unanswered(at, &silence),
            (State::Sent(_), Event::Head { status, untouched }) => self.head(at, status, untouched),
            (State::Sent(_) | State::Moving { .. }, Event::Failed(failed)) => {
                self.failed(at, &failed)
            }
            (State::Sent(_) | State::Moving { .. }, Event::Ended(ending)) => self.ended(at, ending),
            _ => Action::None,
        }
    }

    /// What the controller is to be told, if anything, since it was last asked.
    pub fn poll_report(&mut self) -> Option<Input> {
        self.report.take().map(|report| *report)
    }

    /// The permit of the server that it was sent to; none while it has none.
    #[must_use]
    pub const fn permit(&self) -> Option<&Permit> {
        match &self.state {
            State::Sent(permit) | State::Moving { from: permit, .. } => Some(permit),
            State::Arrived | State::Asking | State::Waiting { .. } | State::Over => None,
        }
    }

    /// All permits that it holds: two while it moves from one server to another.
    pub fn permits(&self) -> impl Iterator<Item = &Permit> {
        let further = match &self.state {
            State::Moving { to, .. } => Some(&**to),
            _ => None,
        };
        self.permit().into_iter().chain(further)
    }

    /// How long the server may answer nobody before it is suspected to hang; zero for ever.
    #[must_use]
    pub const fn patience(&self) -> Duration {
        self.patience
    }

    /// How often it was sent to a further server.
    #[must_use]
    pub const fn retries(&self) -> u32 {
        self.retries
    }

    /// Why the last attempt failed; why there was none where it was never sent.
    #[must_use]
    pub const fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Why an attempt has failed, or why there is none, where that is to be counted and told of:
    /// once for each. That a server had no connection to spare is no failure of a request that goes
    /// on.
    pub fn take_untold(&mut self) -> Option<Failure> {
        let is_untold = mem::take(&mut self.untold);
        self.failure.filter(|_| is_untold)
    }

    /// Gives up its permits and its place in the queue, as a drop does.
    pub fn abandon(&mut self) {
        self.state = State::Over;
    }

    /// Chooses a server, or what else is done where none has room.
    fn pick(&mut self, at: &At<'_>) -> Action {
        let Some(plan) = at.plan else { return self.end(at, Reason::NoServer) };
        let ask = self.ask(at);
        // Nobody waits for a copy, so it takes nobody's place.
        let decision = if self.is_copy() { plan.pick_spare(&ask) } else { plan.pick(&ask) };
        match decision {
            Decision::Send(permit) => self.send(at, permit),
            Decision::Queue(place) => {
                plan.state().note_no_room(self.subject.class, at.now);
                self.join(at, place)
            }
            Decision::Refuse(Refusal::QueueFull) => self.queue_full(at, plan),
            Decision::Refuse(Refusal::Full) if plan.is_full_by_found_limits() => {
                self.end(at, Reason::FoundLimit)
            }
            Decision::Refuse(why) => self.end(at, why.reason()),
        }
    }

    fn ask(&self, at: &At<'_>) -> PickContext<'_> {
        let Subject { key, stick, .. } = self.subject;
        PickContext { now: at.now, key, draw: at.draw, tried: &self.tried, stick }
    }

    fn is_copy(&self) -> bool {
        self.subject.kind == Kind::Copy
    }

    fn send(&mut self, at: &At<'_>, mut permit: Permit) -> Action {
        if self.was_only_crowded() {
            at.plan.into_iter().for_each(|plan| plan.goes_past_crowded(&mut permit));
        }
        let rules = at.plan.and_then(|plan| plan.ejection);
        self.patience = rules.map_or(Duration::ZERO, |rules| permit.patience(rules.silence));
        (self.resent, self.suspects, self.charge) = (false, false, Charge::Nothing);
        self.state = State::Sent(permit);
        Action::Send
    }

    /// Whether it came to servers, and found no connection to spare at all of them: what fails or
    /// is answered with a 5xx is charged before it goes elsewhere.
    fn was_only_crowded(&self) -> bool {
        self.retries == 0 && !self.tried.is_empty()
    }

    /// Ends for this reason, or for that for which the last attempt failed.
    fn end(&mut self, at: &At<'_>, reason: Reason) -> Action {
        self.state = State::Over;
        self.take_back_charge(at);
        let is_new = self.failure.is_none() || self.found_no_connection();
        let failure = self.failure.get_or_insert(Failure::new(reason));
        self.untold |= is_new && failure.ending.is_failure();
        Action::End
    }

    /// The head of a response has come.
    fn head(&mut self, at: &At<'_>, status: u16, untouched: bool) -> Action {
        let State::Sent(permit) = &self.state else { return Action::None };
        if status < 500 {
            permit.answered(at.now);
            let rules = at.plan.and_then(|plan| plan.ejection);
            // Where nobody looks for hangs nothing is to be known of slow requests.
            if rules.is_some_and(|rules| rules.silence > Duration::ZERO) {
                permit.learn_longest(at.now, self.patience);
            }
            if permit.answered_well(at.now, at.lag) {
                self.report = Some(Box::new(Input::Limit { server: permit.server() }));
            }
            if status == SWITCHING_PROTOCOLS {
                // A tunnel has no other response, and may stay open for days.
                permit.end_errors();
            }
            return Action::Forward;
        }
        if permit.answered_5xx(at.now) {
            self.report = Some(Box::new(Input::Errs { server: permit.server() }));
        }
        if untouched && self.subject.idempotent {
            self.go_elsewhere(at, status)
        } else {
            Action::Forward
        }
    }

    /// Moves to a server other than the one that answered with this 5xx, if one has room. That is a
    /// failure of the server, but none in a row: 5xx are compared with those of other servers.
    fn go_elsewhere(&mut self, at: &At<'_>, status: u16) -> Action {
        let State::Sent(from) = &self.state else { return Action::None };
        self.tried.push(from.server());
        let ask = PickContext { stick: None, ..self.ask(at) };
        let found = at.plan.and_then(|plan| plan.retry_5xx(self.retries + 1, &ask));
        let Some(to) = found else {
            self.tried.pop();
            return Action::Forward;
        };
        self.charge(Charge::Paid);
        (self.failure, self.untold) = (Some(Failure::new(Reason::answered(status))), true);
        if let State::Sent(from) = mem::replace(&mut self.state, State::Over) {
            from.count_failure();
            self.state = State::Moving { from, to: Box::new(to) };
        }
        Action::Discard
    }

    /// The attempt has ended without a failure.
    fn ended(&mut self, at: &At<'_>, ending: Ending) -> Action {
        match mem::replace(&mut self.state, State::Over) {
            State::Moving { to, .. } => self.send(at, *to),
            State::Sent(permit) => {
                // How long a tunnel stays open says nothing about how long requests take.
                if ending == Ending::Complete || self.subject.kind == Kind::Stream {
                    permit.finish(at.now);
                } else {
                    permit.end_errors();
                }
                Action::None
            }
            _ => Action::None,
        }
    }
}

impl Refusal {
    /// Why a request fails that is refused like this.
    const fn reason(self) -> Reason {
        match self {
            Self::NoServer => Reason::NoServer,
            Self::Full => Reason::Full,
            Self::QueueFull => Reason::QueueFull,
        }
    }
}

/// A message is a tunnel from here on (RFC 9110, 15.2.2).
const SWITCHING_PROTOCOLS: u16 = 101;

/// The shorter of two limits, of which zero is none.
#[must_use]
pub fn shorter(one: Duration, other: Duration) -> Duration {
    match (one, other) {
        (Duration::ZERO, limit) | (limit, Duration::ZERO) => limit,
        (one, other) => one.min(other),
    }
}
