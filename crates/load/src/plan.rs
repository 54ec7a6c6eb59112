//! What a run should do: where to, how many, when, and with which request.

use loadline_core::{time::Duration, units::Rate};
use loadline_http1::BuildError;
use loadline_measure::record::{Arrivals, LoadModel, LoadPlanRecord};
use serde::{Deserialize, Serialize};

use crate::{
    target::Target,
    timetable::Timetable,
    transport::{Protocol, Transport},
};

/// A load run, planned. Made by [`LoadPlan::closed`] or [`LoadPlan::open`] with the defaults of
/// every other field, which can be set afterwards.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Where requests go, each with its weight; at least one.
    pub targets: Vec<(Target, u32)>,
    /// How they travel.
    pub transport: Transport,
    /// When they go.
    pub pattern: Pattern,
    /// What the users of a closed loop send together at most; no limit.
    pub max_rate: Option<Rate>,
    /// How long one request may take from its send to the end of its response; 30 s, as siege has
    /// it (httperf waits for ever). Counted by the millisecond.
    pub timeout: Duration,
    /// Whether a connection is used again after a response; yes.
    pub keepalive: bool,
    /// The method; GET.
    pub method: String,
    /// Further fields of the request. `Host`, `User-Agent` and `Accept` replace loadline's own.
    pub headers: Vec<(String, String)>,
    /// The body of each request; none.
    pub body: Vec<u8>,
    /// Responses are counted by the value of this response field; none.
    pub count_by: Option<String>,
    /// Each moment of the record counts the responses that took this time or longer; none.
    pub late_after: Option<Duration>,
    /// Which part of all this is sent from here; the whole.
    pub share: Share,
}

/// One generator's share of a plan. Requests, users and limits are dealt out one by one, so that
/// the shares together are the plan, instant by instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Index of the generator, from 0.
    pub(crate) number: u32,
    /// How many there are, at least one.
    pub(crate) of: u32,
}

impl Default for Share {
    /// The whole.
    fn default() -> Self {
        Self { number: 0, of: 1 }
    }
}

impl Share {
    /// How many of `all` are dealt to this share.
    pub(crate) const fn dealt(self, all: u32) -> u32 {
        all / self.of + (self.number < all % self.of) as u32
    }

    /// Those of `all` that are dealt to it, in their order.
    pub(crate) fn of_all<T>(self, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        all.skip(self.number as usize).step_by(self.of as usize)
    }
}

/// When requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A closed loop: each user sends its next request after the response to the last.
    Closed {
        /// Users at a time, at least one.
        users: u32,
        /// What a user waits between a response and its next request, always the same. The request
        /// is planned for the end of this time. With N users, a response time R and this time Z
        /// the rate is N / (R + Z) (the interactive response time law, Denning and Buzen 1978).
        think: Duration,
        /// When each user stops; requests are counted per user.
        until: Until,
    },
    /// Requests at planned instants, whatever the responses do.
    Open {
        /// When each is due.
        timetable: Timetable,
        /// When the plan ends, if its timetable does not end before; requests are counted in all.
        until: Until,
        /// A request that is due while so many are under way is dropped, and counted so.
        max_in_flight: Option<u32>,
    },
}

/// Where a plan ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// After so many requests, at least one.
    Requests(u64),
    /// Before this time has passed; requests under way then may still finish.
    Elapsed(Duration),
}

/// Why a plan cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The URL cannot be used.
    #[error("`{url}` cannot be loaded: {why}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
        /// Where in it, in bytes.
        at: usize,
    },
    /// What is to be pinged is no host.
    #[error("`{host}` is no host: {instead}")]
    Host {
        /// As it was given.
        host: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// A URL of HTTP/3 without TLS, which there is not.
    #[error("HTTP/3 is always encrypted, and `{url}` is not: write https://")]
    Insecure {
        /// The URL as it was given.
        url: String,
    },
    /// A number that must be above zero is zero.
    #[error("{what} must be above zero")]
    Zero {
        /// Which number.
        what: &'static str,
    },
    /// More users than a machine has room for.
    #[error("{users} users are more than one run can have, which is {USERS_MAX}")]
    TooManyUsers {
        /// As many as were asked for.
        users: u32,
    },
    /// The request cannot be written.
    #[error("the request cannot be sent")]
    Request(#[from] BuildError),
    /// A method whose response is no response.
    #[error("CONNECT opens a tunnel, which is not a request to measure")]
    Connect,
    /// A field that loadline writes itself.
    #[error("the header `{name}` cannot be set: {instead}")]
    Reserved {
        /// Name of the header field.
        name: String,
        /// What to do instead.
        instead: &'static str,
    },
}

impl LoadPlan {
    /// `users` at a time against `url`, each until `until`.
    ///
    /// # Errors
    /// [`PlanError::Url`] where the URL cannot be used.
    pub fn closed(url: &str, users: u32, until: Until) -> Result<Self, PlanError> {
        let pattern = Pattern::Closed { users, think: Duration::ZERO, until };
        Ok(Self::new(url.parse()?, pattern))
    }

    /// Requests to `url` at even distances until `until`, without a limit in flight.
    ///
    /// # Errors
    /// [`PlanError::Url`] where the URL cannot be used.
    pub fn open(url: &str, rate: Rate, until: Until) -> Result<Self, PlanError> {
        let timetable = Timetable::steady(rate, Arrivals::Constant, 0);
        let pattern = Pattern::Open { timetable, until, max_in_flight: None };
        Ok(Self::new(url.parse()?, pattern))
    }

    /// The plan to send GET requests to `target` in this pattern.
    #[must_use]
    pub fn new(target: Target, pattern: Pattern) -> Self {
        Self {
            targets: vec![(target, 1)],
            transport: Transport::default(),
            pattern,
            max_rate: None,
            timeout: DEFAULT_TIMEOUT,
            keepalive: true,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            count_by: None,
            late_after: None,
            share: Share::default(),
        }
    }

    /// Where requests go, as it stands in a record: a URL, or several, with their weights where
    /// these differ. Of a long list it is the beginning.
    #[must_use]
    pub fn asked(&self) -> String {
        let weighted = self.targets.windows(2).any(|pair| pair[0].1 != pair[1].1);
        let shown = self.targets.iter().take(URLS_TOLD).map(|(target, weight)| match weighted {
            true => format!("{target} {weight}"),
            false => target.to_string(),
        });
        let text = shown.collect::<Vec<_>>().join(", ");
        match self.targets.len().saturating_sub(URLS_TOLD) {
            0 => text,
            more => format!("{text}, and {more} more"),
        }
    }

    /// The pattern as it stands in a record.
    #[must_use]
    pub fn model(&self) -> LoadModel {
        match &self.pattern {
            Pattern::Closed { users, think, .. } => {
                LoadModel::Closed { users: *users, think: *think }
            }
            Pattern::Open { timetable, until, .. } => LoadModel::Open {
                rate: timetable.mean_rate(*until),
                arrivals: timetable.arrivals(),
                seed: timetable.seed(),
                stages: timetable.parts().to_vec(),
            },
        }
    }

    /// What else stands in a record.
    pub(crate) fn beside_model(&self) -> LoadPlanRecord {
        let max_in_flight = match &self.pattern {
            Pattern::Closed { .. } => None,
            Pattern::Open { max_in_flight, .. } => *max_in_flight,
        };
        LoadPlanRecord {
            method: self.method.clone(),
            body_bytes: self.body.len() as u64,
            timeout: self.timeout,
            keepalive: self.keepalive,
            connections: self.transport.connections,
            max_in_flight,
        }
    }

    /// How long the plan takes, as far as that is known: a closed loop of a number of requests
    /// takes as long as its responses.
    #[must_use]
    pub fn lasts(&self) -> Option<Duration> {
        match &self.pattern {
            Pattern::Closed { until: Until::Requests(_), .. } => None,
            Pattern::Closed { until: Until::Elapsed(span), .. } => Some(*span),
            Pattern::Open { timetable, until, .. } => Some(timetable.lasts(*until)),
        }
    }

    /// When the plan is over, as far as that is known: with its time, or at even distances one
    /// after its last request.
    pub(crate) fn ends(&self) -> Option<Duration> {
        match &self.pattern {
            Pattern::Open { timetable, until: until @ Until::Requests(_), .. } => {
                let is_even = timetable.arrivals() == Arrivals::Constant;
                is_even.then(|| timetable.lasts(*until))
            }
            Pattern::Open { timetable, until, .. } => Some(timetable.lasts(*until)),
            Pattern::Closed { .. } => self.lasts(),
        }
    }

    /// What belongs to the plan after its last response: where users send a number of requests, the
    /// time that they think after the last as after the others.
    pub(crate) const fn last_pause(&self) -> Duration {
        match self.pattern {
            Pattern::Closed { think, until: Until::Requests(_), .. } => think,
            _ => Duration::ZERO,
        }
    }

    /// How long it takes at most, as far as that is known; random arrivals take longer for one seed
    /// in a million.
    pub(crate) fn lasts_at_most(&self) -> Option<Duration> {
        let lasts = self.lasts()?;
        let more = match &self.pattern {
            Pattern::Open { timetable, until: Until::Requests(requests), .. }
                if matches!(timetable.arrivals(), Arrivals::Poisson | Arrivals::Uniform) =>
            {
                // The last of n arrivals at the rate r comes after n / r, give or take sqrt(n) / r;
                // of few the tail is longer.
                let requests = *requests as f64;
                lasts.scale(5.0 / requests.sqrt() + 10.0 / requests)
            }
            _ => Duration::ZERO,
        };
        Some(lasts + more)
    }

    /// Whether every number is in its range, and every URL can be asked over the protocol.
    ///
    /// # Errors
    /// [`PlanError::Zero`] naming the first number that is not, [`PlanError::Insecure`] the URL.
    pub fn check(&self) -> Result<(), PlanError> {
        let mut targets = self.targets.iter().map(|(target, _)| target);
        if self.transport.protocol == Protocol::Http3
            && let Some(plain) = targets.find(|target| !target.is_secure())
        {
            return Err(PlanError::Insecure { url: plain.to_string() });
        }
        if let Pattern::Closed { users, .. } = self.pattern
            && users > USERS_MAX
        {
            return Err(PlanError::TooManyUsers { users });
        }
        let (size, planned, until, limit) = match &self.pattern {
            Pattern::Closed { users, until, .. } => {
                (("the number of users", *users == 0), 1, *until, None)
            }
            Pattern::Open { timetable, until, max_in_flight } => {
                let size = ("the planned rate", timetable.peak_rate() == Rate::default());
                (size, timetable.planned(*until), *until, *max_in_flight)
            }
        };
        let end = match until {
            Until::Requests(requests) => ("the number of requests", requests == 0),
            Until::Elapsed(span) => ("the duration", span == Duration::ZERO),
        };
        let timeout = ("the timeout", self.timeout < Duration::from_millis(1));
        let limit = ("the limit in flight", limit == Some(0));
        let planned = ("the number of requests that are due before the end", planned == 0);
        match [size, end, timeout, limit, planned].into_iter().find(|(_, zero)| *zero) {
            Some((what, _)) => Err(PlanError::Zero { what }),
            None => Ok(()),
        }
    }
}

/// Each is a task with a connection: together as many as Linux lets a process have descriptors.
const USERS_MAX: u32 = 1_048_576;

/// A record is to be read.
const URLS_TOLD: usize = 20;

/// The default of siege, so that results compare.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the arrivals, what several generators send together is what one would send:
        /// the same instants, each exactly once, and no part is larger than another by more than
        /// one request.
        #[test]
        fn the_parts_of_a_plan_are_the_plan(
            shape in prop_oneof![
                any::<u64>().prop_map(|seed| (Arrivals::Poisson, seed)),
                any::<u64>().prop_map(|seed| (Arrivals::Uniform, seed)),
                Just((Arrivals::Constant, 0)),
            ],
            staged: bool, parts in 1u32..9, requests in 1u64..400, users in 0u32..50,
        ) {
            let (arrivals, seed) = shape;
            let stages = crate::parse_stages("10/s:1s, ..200/s:2s").unwrap();
            let timetable = match staged {
                true => Timetable::stages(stages, arrivals, seed),
                false => Timetable::steady(Rate::per_sec(100), arrivals, seed),
            };
            let all = || timetable.instants(Until::Requests(requests));
            let shares = || (0..parts).map(|number| Share { number, of: parts });
            let dealt: Vec<Vec<_>> =
                shares().map(|share| share.of_all(all().enumerate()).collect()).collect();
            let lengths = dealt.iter().map(Vec::len);
            prop_assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1);
            let mut together: Vec<_> = dealt.concat();
            together.sort_unstable();
            prop_assert_eq!(together, all().enumerate().collect::<Vec<_>>());
            prop_assert_eq!(shares().map(|share| share.dealt(users)).sum::<u32>(), users);
        }
    }

    #[test]
    fn a_number_out_of_range_is_named() {
        let one = Until::Requests(1);
        let closed = |users, until| LoadPlan::closed("localhost", users, until).unwrap();
        assert_eq!(closed(1, one).check(), Ok(()));
        let open = LoadPlan::open("localhost", Rate::default(), one).unwrap();
        let mut late = open.clone();
        let Pattern::Open { timetable, until, .. } = &mut late.pattern else { unreachable!() };
        *timetable = Timetable::listed(vec![Duration::from_secs(5)]);
        *until = Until::Elapsed(Duration::from_secs(4));
        let mut hurried = closed(1, one);
        hurried.timeout = Duration::from_micros(999);
        for (plan, what) in [
            (closed(0, one), "users"),
            (closed(u32::MAX, one), "4294967295 users are more than one run can have"),
            (closed(1, Until::Requests(0)), "requests"),
            (closed(1, Until::Elapsed(Duration::ZERO)), "duration"),
            (open, "rate"),
            (late, "due before the end"),
            (hurried, "timeout"),
        ] {
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn random_arrivals_that_take_longer_than_the_mean_are_in_their_time() {
        for requests in [1, 4, 100] {
            let until = Until::Requests(requests);
            let mut plan = LoadPlan::open("localhost", Rate::per_sec(1), until).unwrap();
            for seed in 0..1_000 {
                let timetable = Timetable::steady(Rate::per_sec(1), Arrivals::Poisson, seed);
                let last = timetable.instants(until).last();
                plan.pattern = Pattern::Open { timetable, until, max_in_flight: None };
                assert!(last < plan.lasts_at_most(), "{last:?} of {requests}, seed {seed}");
            }
        }
    }

    #[test]
    fn a_run_of_several_urls_is_told_by_all_with_their_weights_where_they_differ() {
        let mut plan = LoadPlan::closed("a", 1, Until::Requests(1)).unwrap();
        assert_eq!(plan.asked(), "http://a/");
        plan.targets.push(("b".parse().unwrap(), 1));
        assert_eq!(plan.asked(), "http://a/, http://b/");
        plan.targets[0].1 = 3;
        assert_eq!(plan.asked(), "http://a/ 3, http://b/ 1");
        plan.targets = vec![("a".parse().unwrap(), 2); 1_000];
        let text = plan.asked();
        assert!(text.starts_with("http://a/, ") && text.ends_with(", and 980 more"), "{text}");
    }

    #[test]
    fn http3_is_asked_of_https_alone() {
        let plan = |url| {
            let mut plan = LoadPlan::closed(url, 1, Until::Requests(1)).unwrap();
            plan.transport.protocol = Protocol::Http3;
            plan.check()
        };
        assert_eq!(plan("https://localhost/"), Ok(()));
        assert!(plan("localhost/").unwrap_err().to_string().contains("write https://"));
    }
}
