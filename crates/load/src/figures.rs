//! What a run counted. The figures of parts of a plan add up to those of the whole: counts by
//! addition, times because their histograms have the same bounds. Nothing is averaged.
//!
//! Times are offsets from the start of the plan, so that they mean the same on every machine.

use std::collections::{BTreeMap, BTreeSet};

use loadline_core::{time::Duration, units::Count};
use loadline_measure::{
    record::{Generator, HostAddress, Latency, LoadModel, LoadRecord, Outcomes, Phases, Spreads},
    statistics::Times,
};
use serde::{Deserialize, Serialize};

use crate::{
    health::{self, Signs},
    moments::{self, Moments},
    outcome::{Outcome, Shortage},
    phases::PhaseTimes,
    plan::LoadPlan,
    tally::WholeResponse,
};

/// What a run, or a part of one, counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) started_unix_ms: u64,
    pub(crate) planned: u64,
    pub(crate) outcomes: Outcomes,
    response: Times,
    service: Times,
    lag: Times,
    phases: PhaseFigures,
    moments: Moments,
    bytes_read: u64,
    head_bytes: u64,
    statuses: BTreeMap<u16, u64>,
    by_header: BTreeMap<String, u64>,
    reasons: BTreeMap<String, u64>,
    pub(crate) stale: u64,
    /// Connections that were opened.
    pub(crate) connections: u64,
    /// What was spoken over the connection opened last.
    pub(crate) protocol: String,
    /// Where requests go.
    pub(crate) addresses: BTreeSet<HostAddress>,
    /// How often the generator itself was out of something.
    pub(crate) shortages: BTreeMap<Shortage, u64>,
    /// The latest planned instant or end of a response.
    latest: Duration,
    /// The latest end of a request, whatever became of it.
    last_ended: Duration,
    /// How long the plan lasts, if that is known.
    #[serde(skip)]
    lasts: Option<Duration>,
    /// The latest planned instant.
    last_planned: Duration,
    /// The latest send.
    last_sent: Duration,
    /// Requests that were neither sent nor should have been: dropped by the user's own limit, or
    /// cut off before their turn.
    pub(crate) not_owed: u64,
    /// What the generator used of its core, if that is known.
    pub(crate) cpu_share: Option<f64>,
    /// Whether it was ended before its plan was.
    pub(crate) interrupted: bool,
}

/// The times of each phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PhaseFigures {
    dns: Times,
    connect: Times,
    tls: Times,
    first_byte: Times,
    body: Times,
}

impl Figures {
    /// None yet, of a plan that lasts so long, if that is known.
    pub(crate) fn new(lasts: Option<Duration>) -> Self {
        let [response, service, lag] = [(); 3].map(|()| Times::new(DIGITS));
        Self {
            started_unix_ms: 0,
            planned: 0,
            outcomes: Outcomes::default(),
            response,
            service,
            lag,
            phases: PhaseFigures::new(),
            moments: Moments::new(lasts),
            bytes_read: 0,
            head_bytes: 0,
            statuses: BTreeMap::new(),
            by_header: BTreeMap::new(),
            reasons: BTreeMap::new(),
            stale: 0,
            connections: 0,
            protocol: String::new(),
            addresses: BTreeSet::new(),
            shortages: BTreeMap::new(),
            latest: Duration::ZERO,
            last_ended: Duration::ZERO,
            lasts,
            last_planned: Duration::ZERO,
            last_sent: Duration::ZERO,
            not_owed: 0,
            cpu_share: None,
            interrupted: false,
        }
    }

    /// Those of a run that was ended before it began.
    pub(crate) fn interrupted(lasts: Option<Duration>) -> Self {
        Self { interrupted: true, ..Self::new(lasts) }
    }

    /// Counts a request due at this offset.
    pub(crate) fn plan(&mut self, due: Duration) {
        self.planned += 1;
        self.latest = self.latest.max(due);
        self.last_planned = self.last_planned.max(due);
        self.moments.plan(due);
    }

    /// Counts that a request goes out, with which so many are in flight.
    pub(crate) fn send(&mut self, in_flight: u64) {
        self.moments.send(in_flight);
    }

    /// Counts the end of a request, in the run and in its moment.
    pub(crate) fn count(&mut self, ended: Duration, outcome: Outcome, bytes: u64) {
        outcome.count_in(&mut self.outcomes);
        self.bytes_read += bytes;
        self.moments.end(ended, outcome, bytes);
        self.last_ended = self.last_ended.max(ended);
    }

    /// Notes that the run went on until then, though no longer than its plan lasts.
    pub(crate) fn go_on(&mut self, until: Duration) {
        let until = self.lasts.map_or(until, |lasts| until.min(lasts));
        self.latest = self.latest.max(until);
    }

    /// Counts the send of the request that was ended last: at `sent`, this late.
    pub(crate) fn count_send(&mut self, lag: Duration, sent: Duration) {
        self.lag.record(lag);
        self.last_sent = self.last_sent.max(sent);
        self.moments.sent(sent);
    }

    /// Enters the times of a successful request.
    pub(crate) fn count_times(
        &mut self,
        response: Duration,
        service: Duration,
        phases: &PhaseTimes,
    ) {
        self.response.record(response);
        self.moments.record(response);
        self.service.record(service);
        self.phases.record(phases);
    }

    /// Counts a whole response that ended at this offset.
    pub(crate) fn count_answer(&mut self, ended: Duration, answer: WholeResponse) {
        self.latest = self.latest.max(ended);
        self.head_bytes += answer.head_bytes;
        *self.statuses.entry(answer.status).or_default() += 1;
        let Some(value) = answer.counted else { return };
        *self.by_header.entry(value).or_default() += 1;
    }

    /// Notes why TLS connections did not come about.
    pub(crate) fn count_reasons(&mut self, reason: String, count: u64) {
        count_reason(&mut self.reasons, reason, count);
    }

    /// Adds those of another part of the same plan.
    pub(crate) fn add(&mut self, other: Self) {
        if self.started_unix_ms == 0 {
            self.started_unix_ms = other.started_unix_ms;
        }
        self.planned += other.planned;
        self.outcomes = moments::add(self.outcomes, other.outcomes);
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.lag.add(&other.lag);
        self.phases.add(&other.phases);
        self.moments.add(other.moments);
        self.bytes_read += other.bytes_read;
        self.head_bytes += other.head_bytes;
        sum(&mut self.statuses, other.statuses);
        sum(&mut self.by_header, other.by_header);
        sum(&mut self.shortages, other.shortages);
        for (reason, count) in other.reasons {
            self.count_reasons(reason, count);
        }
        self.stale += other.stale;
        self.connections += other.connections;
        if !other.protocol.is_empty() {
            self.protocol = other.protocol;
        }
        self.addresses.extend(other.addresses);
        self.latest = self.latest.max(other.latest);
        self.last_ended = self.last_ended.max(other.last_ended);
        self.last_planned = self.last_planned.max(other.last_planned);
        self.last_sent = self.last_sent.max(other.last_sent);
        self.not_owed += other.not_owed;
        self.interrupted |= other.interrupted;
    }

    /// The record of a run of `plan` that counted these.
    pub(crate) fn record(mut self, plan: &LoadPlan) -> LoadRecord {
        let elapsed = self.elapsed(plan);
        let mut record = LoadRecord {
            target: plan.asked(),
            started_unix_ms: self.started_unix_ms,
            model: plan.model(),
            plan: Some(Box::new(plan.beside_model())),
            elapsed,
            achieved: Count::new(self.outcomes.ok) / elapsed,
            planned: self.planned,
            outcomes: self.outcomes,
            response: self.response.latency(),
            service: self.service.latency(),
            lag: self.lag.latency(),
            spreads: Spreads {
                response: self.response.spread(),
                service: self.service.spread(),
                lag: self.lag.spread(),
            },
            phases: self.phases.phases(),
            moments: self.moments.moments(plan.late_after),
            bytes_read: self.bytes_read,
            head_bytes: self.head_bytes,
            generator: self.generator(&plan.model()),
            protocol: self.protocol,
            addresses: self.addresses.into_iter().collect(),
            statuses: self.statuses,
            by_header: self.by_header,
            reasons: self.reasons,
            connections: self.connections,
            stale: self.stale,
            interrupted: self.interrupted,
            ..LoadRecord::default()
        };
        record.response_of_all = record.response_of_all();
        record
    }

    /// Where the run ends in its figures. After its plan it goes on for responses alone: a time-out
    /// at its end makes the rate no lower. The plan of users who send a number of requests goes on
    /// until the last of them has ended. A run is not over before its plan is: the pause after its
    /// last request is a part of it.
    fn elapsed(&self, plan: &LoadPlan) -> Duration {
        let in_plan = self.lasts.map_or(self.last_ended, |lasts| self.last_ended.min(lasts));
        let last = self.latest.max(in_plan);
        if self.interrupted {
            return last;
        }
        (last + plan.last_pause()).max(plan.ends().unwrap_or_default())
    }

    /// How late requests went out.
    pub(crate) fn lag(&self) -> Latency {
        self.lag.latency()
    }

    /// How the generator did.
    pub(crate) fn generator(&self, model: &LoadModel) -> Generator {
        let short_of = |shortage| self.shortages.get(&shortage).copied().unwrap_or_default();
        health::judge(&Signs {
            open: matches!(model, LoadModel::Open { .. }),
            owed: self.planned - self.not_owed,
            sent: self.lag.count(),
            planned_for: self.last_planned,
            sent_for: self.last_sent,
            cpu_share: self.cpu_share,
            lag: self.lag.quantile(0.99),
            response: self.response.quantile(0.99),
            no_port: short_of(Shortage::Ports),
            no_descriptor: short_of(Shortage::Descriptors),
            no_memory: short_of(Shortage::Memory),
        })
    }
}

impl PhaseFigures {
    fn new() -> Self {
        let [dns, connect, tls, first_byte, body] = [(); 5].map(|()| Times::new(DIGITS));
        Self { dns, connect, tls, first_byte, body }
    }

    fn record(&mut self, times: &PhaseTimes) {
        let PhaseTimes { queued: _, dns, connect, tls, first_byte, body } = *times;
        for (figures, time) in [
            (&mut self.dns, dns),
            (&mut self.connect, connect),
            (&mut self.tls, tls),
            (&mut self.first_byte, first_byte),
            (&mut self.body, body),
        ] {
            if let Some(time) = time {
                figures.record(time);
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.dns.add(&other.dns);
        self.connect.add(&other.connect);
        self.tls.add(&other.tls);
        self.first_byte.add(&other.first_byte);
        self.body.add(&other.body);
    }

    fn phases(&self) -> Phases {
        Phases {
            dns: self.dns.latency(),
            connect: self.connect.latency(),
            tls: self.tls.latency(),
            first_byte: self.first_byte.latency(),
            body: self.body.latency(),
        }
    }
}

/// Counts so many failures for this reason, unless there are many reasons already.
pub(crate) fn count_reason(reasons: &mut BTreeMap<String, u64>, reason: String, count: u64) {
    if reasons.len() < REASONS_MAX || reasons.contains_key(&reason) {
        *reasons.entry(reason).or_default() += count;
    }
}

/// Adds counts key by key.
fn sum<K: Ord>(counts: &mut BTreeMap<K, u64>, others: BTreeMap<K, u64>) {
    for (key, count) in others {
        *counts.entry(key).or_default() += count;
    }
}

/// Percentiles of a record are within 0.1 %.
const DIGITS: u8 = 3;

/// Different reasons that are kept; a server has one or two.
const REASONS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Until;
    use proptest::prelude::*;

    /// A request: when it is due, how late it is sent, how long it takes, what becomes of it, and
    /// which of three generators sends it.
    type Sent = (u64, u64, u64, bool, usize);

    /// What a generator counts of those requests that are its own.
    fn counted(fates: &[Sent], own: impl Fn(usize) -> bool) -> Figures {
        let mut figures = Figures::new(None);
        let ms = Duration::from_millis;
        // In the order of time: a plan, or an end of a request.
        let own = fates.iter().filter(|fate| own(fate.4));
        let mut events: Vec<_> =
            own.flat_map(|fate| [(fate.0, None), (fate.0 + fate.1 + fate.2, Some(fate))]).collect();
        events.sort_by_key(|(at, _)| *at);
        for (at, end) in events {
            let Some((_, lag, takes, ok, _)) = end else {
                figures.plan(ms(at));
                continue;
            };
            let status = if *ok { 200 } else { 503 };
            figures.count(ms(at), Outcome::of_status(status), *takes);
            figures.count_send(ms(*lag), ms(at - takes));
            if *ok {
                let first_byte = Some(ms(*takes));
                let phases = PhaseTimes { first_byte, ..PhaseTimes::default() };
                figures.count_times(ms(lag + takes), ms(*takes), &phases);
            }
            let counted = Some(format!("server {}", takes % 3));
            let phases = PhaseTimes::default();
            let answer = WholeResponse { status, bytes: 9, head_bytes: 5, counted, phases };
            figures.count_answer(ms(at), answer);
        }
        figures
    }

    proptest! {
        /// Three generators that count a part each, and send their figures to a leader, say
        /// exactly what one would that counted all. Percentiles of moments are within 1 % and may
        /// differ by that; the most in flight may be less than the sum.
        #[test]
        fn the_figures_of_parts_add_up_to_those_of_one_generator(
            fates in prop::collection::vec(
                (0u64..3_000_000, 0u64..50, 0u64..40_000, any::<bool>(), 0usize..3), 1..60
            ),
        ) {
            let plan = LoadPlan::closed("localhost", 3, Until::Requests(9)).unwrap();
            let mut sum = Figures::new(None);
            for part in 0..3 {
                let figures = counted(&fates, |of| of == part);
                let sent = serde_json::to_string(&figures).unwrap();
                sum.add(serde_json::from_str(&sent).unwrap());
            }
            let (mut sum, mut whole) = (sum.record(&plan), counted(&fates, |_| true).record(&plan));
            for (of_parts, of_all) in sum.moments.iter().zip(&whole.moments) {
                prop_assert!(of_parts.most_in_flight >= of_all.most_in_flight);
            }
            for moment in sum.moments.iter_mut().chain(&mut whole.moments) {
                (moment.p50, moment.p99) = (Duration::ZERO, Duration::ZERO);
                moment.most_in_flight = None;
            }
            prop_assert_eq!(sum, whole);
        }
    }
}
