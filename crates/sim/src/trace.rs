//! What happens in a run, fact by fact: for whoever explains a run, or checks it.
//!
//! A run that is [traced](crate::Simulation::traced) keeps the facts of each step until they are
//! [taken](crate::Simulation::facts). They are in the order in which they happened, also those of
//! the same instant.

use std::sync::Arc;

use loadline_core::{
    decide::{
        controller::Notice,
        plan::{Plan, ServicePlan},
        reason::Reason,
        service_plans::ServicePlans,
    },
    time::Instant,
};

/// Something that has happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// When.
    pub at: Instant,
    /// What.
    pub what: What,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Something to the request of this number: from 1, in the order in which clients first want
    /// them.
    Request(u64, Step),
    /// A health check has ended at the edge of this index.
    Checked {
        /// Where.
        edge: u32,
        /// Of which server.
        server: Place,
        /// Whether it passed.
        passed: bool,
    },
    /// An edge has noticed something about a server or a group.
    Noticed {
        /// Index of the edge.
        edge: u32,
        /// What the edge has noticed.
        notice: Notice,
    },
    /// Another plan of a service is in force at an edge.
    Planned {
        /// Index of the edge.
        edge: u32,
        /// Index of the service.
        service: u32,
        /// The groups that can be given requests, in the order in which they are filled, each with
        /// those of its servers that can.
        groups: Vec<(u16, Vec<u16>)>,
    },
}

/// What happens to a request. Between [`Step::Asks`] and [`Step::Refused`], [`Step::GivesUp`] or
/// the [`Step::Response`] that is passed on, it is at an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its client sends it to an edge; once more where it failed before.
    Asks {
        /// Index of the source.
        source: u32,
        /// Index of the edge; none where no edge can be reached.
        edge: Option<u32>,
        /// How often the client has sent it before.
        tries: u32,
    },
    /// It is answered from the cache of its edge.
    Hit,
    /// It waits for what another request fetches for the cache of its edge. The [`Step::Response`]
    /// that follows is that of the other one.
    Joined,
    /// It waits in the queue of its service, until then at the longest.
    Queued(Instant),
    /// One of a higher class has taken its place in the queue.
    Displaced,
    /// It is sent to a server.
    Sent {
        /// To which.
        server: Place,
        /// Whether that left a nearer group out.
        overflow: bool,
    },
    /// A response with this status has come from its server. One that is not passed on is followed
    /// by another [`Step::Sent`].
    Response(u16),
    /// It got no response from its server, for this reason.
    Failed(Reason),
    /// The edge fails it with this status and, if it is known, for this reason.
    Refused(u16, Option<Reason>),
    /// Its edge is lost with its region.
    Lost,
    /// Its client waits no longer.
    GivesUp,
    /// Its client will send it once more.
    Retries,
    /// Its client is done with it. Each request is at an end once, or cut off by that of the run.
    Over(Outcome),
}

/// How a request has ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a response that is no 5xx.
    Served,
    /// With this status.
    Status(u16),
    /// Its client has waited for long enough.
    GaveUp,
    /// There was no edge that it could reach.
    Unreachable,
}

/// A server, by its indices in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Of the service.
    pub service: u32,
    /// Of the group in its service.
    pub group: u16,
    /// Of the server in its group.
    pub server: u16,
}

/// The facts that nobody has taken yet; nothing where nobody wants them.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    facts: Vec<Fact>,
    /// What is in force, by edge.
    plans: Vec<ServicePlans>,
}

impl Trace {
    /// A trace of a run with this many edges.
    pub(crate) fn of(edges: usize) -> Self {
        let plans = vec![ServicePlans::default(); edges];
        Self(Some(Box::new(Facts { facts: Vec::new(), plans })))
    }

    pub(crate) fn note(&mut self, at: Instant, what: impl FnOnce() -> What) {
        if let Some(trace) = &mut self.0 {
            trace.facts.push(Fact { at, what: what() });
        }
    }

    /// Another plan is in force at an edge.
    pub(crate) fn planned(&mut self, at: Instant, edge: usize, plan: &Plan) {
        let Some(trace) = &mut self.0 else { return };
        let before = std::mem::replace(&mut trace.plans[edge], plan.services.clone());
        for service in plan.services.changed_since(&before) {
            let groups = plan.services.get(service).map(in_use).unwrap_or_default();
            let what = What::Planned { edge: edge as u32, service: service as u32, groups };
            trace.facts.push(Fact { at, what });
        }
    }

    /// All until now.
    pub(crate) fn take(&mut self) -> Vec<Fact> {
        self.0.as_mut().map(|trace| std::mem::take(&mut trace.facts)).unwrap_or_default()
    }
}

fn in_use(plan: &Arc<ServicePlan>) -> Vec<(u16, Vec<u16>)> {
    let groups = plan.groups.iter();
    groups
        .map(|group| (group.index, group.servers.iter().map(|server| server.index).collect()))
        .collect()
}
