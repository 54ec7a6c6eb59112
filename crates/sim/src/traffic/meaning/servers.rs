//! What servers are like.

use std::sync::Arc;

use loadline_core::{time::Duration, units::Ratio};
use loadline_spanned::{At, Span};

use super::Reader;
use crate::{
    scenario::{Antagonist, Discipline, Selector, ServerModel},
    service_time::ServiceTime,
    speed::Pauses,
    traffic::file::ServerEntry,
};

/// How service times lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distribution {
    Constant,
    Exponential,
    Lognormal,
    Pareto,
    TwoKinds,
    Measured,
}

impl Reader<'_> {
    pub(super) fn server(&mut self, at: &At<ServerEntry>) -> Option<(Selector, Arc<ServerModel>)> {
        let ServerEntry { region, service, group, address, .. } = &at.value;
        let of = [region.as_ref(), service.as_ref(), group.as_ref(), address.as_ref()];
        let selector = self.selector(of);
        self.selects_a_server(&selector, &at.span);
        let server = &at.value;
        let cores = server.cores.as_ref().map_or(1, |at| at.value);
        if let Some(at) = server.cores.as_ref().filter(|at| at.value == 0) {
            self.error(&at.span, "a server has at least one core".to_owned(), "write cores = 1");
        }
        server.cores.iter().for_each(|at| self.at_most(CORES_MAX, at.value, &at.span));
        let discipline = server.discipline.as_ref().and_then(|at| self.word(at, &DISCIPLINES));
        let model = ServerModel {
            time: self.service_time(at)?,
            cores: cores.max(1),
            discipline: discipline.unwrap_or(Discipline::FirstCome),
            queue: server.queue.as_ref().map(|at| at.value),
            pauses: self.pauses(at),
            antagonist: self.antagonist(at),
            warm_up: server.warm_up.as_ref().map_or(Duration::ZERO, |at| at.value),
        };
        Some((selector, Arc::new(model)))
    }

    fn service_time(&mut self, at: &At<ServerEntry>) -> Option<ServiceTime> {
        let server = &at.value;
        let mean = self.positive(server.time.as_ref()).unwrap_or(MEAN);
        let said = server.distribution.as_ref();
        let distribution = match said {
            Some(said) => self.word(said, &DISTRIBUTIONS)?,
            None => Distribution::Exponential,
        };
        self.fits_distribution(server, distribution);
        Some(match distribution {
            Distribution::Constant => ServiceTime::Constant(mean),
            Distribution::Exponential => ServiceTime::Exponential { mean },
            Distribution::Lognormal => {
                let said = server.variation.as_ref();
                let variation = said.map_or(Some(1.0), |at| self.above(0.0, at))?;
                said.iter().for_each(|at| self.at_most(VARIATION_MAX, at.value, &at.span));
                ServiceTime::Lognormal { mean, variation }
            }
            Distribution::Pareto => {
                let shape = server.shape.as_ref();
                let shape = shape.map_or(Some(2.5), |at| self.above(1.0, at))?;
                ServiceTime::Pareto { mean, shape }
            }
            Distribution::TwoKinds => self.two_kinds(at, mean)?,
            Distribution::Measured => self.measured(at)?,
        })
    }

    /// Keys that other distributions have.
    fn fits_distribution(&mut self, server: &ServerEntry, distribution: Distribution) {
        let ServerEntry { variation, shape, long, long_share, times, log, run, .. } = server;
        let keys = [
            ("variation", span(variation), Distribution::Lognormal),
            ("shape", span(shape), Distribution::Pareto),
            ("long", span(long), Distribution::TwoKinds),
            ("long_share", span(long_share), Distribution::TwoKinds),
            ("times", span(times), Distribution::Measured),
            ("log", span(log), Distribution::Measured),
            ("run", span(run), Distribution::Measured),
        ];
        for (key, said, of) in keys {
            let word = DISTRIBUTIONS.iter().find(|(_, it)| *it == of).map_or("", |(word, _)| word);
            let without = format!("distribution = \"{word}\"");
            self.needs((key, said.filter(|_| distribution != of)), &without);
        }
        let no_log = server.log_service.as_ref().filter(|_| log.is_none());
        self.needs(("log_service", no_log.map(|at| &at.span)), "`log`");
        if let Some(at) = server.time.as_ref().filter(|_| distribution == Distribution::Measured) {
            let message = "`time` has no effect with distribution = \"measured\"".to_owned();
            self.error(&at.span, message, "times are those that were measured; leave it out");
        }
    }

    fn two_kinds(&mut self, at: &At<ServerEntry>, short: Duration) -> Option<ServiceTime> {
        let (Some(long), Some(share)) = (&at.value.long, &at.value.long_share) else {
            let help = "add long = \"1s\" and long_share = \"5%\"";
            self.error(&at.span, "`two-kinds` needs `long` and `long_share`".to_owned(), help);
            return None;
        };
        if share.value > Ratio::ONE {
            self.error(&share.span, "expected at most 100%".to_owned(), "write it like \"5%\"");
        }
        Some(ServiceTime::TwoKinds { short, long: long.value, long_share: share.value.as_f64() })
    }

    fn measured(&mut self, at: &At<ServerEntry>) -> Option<ServiceTime> {
        let ServerEntry { times, log, log_service, run, .. } = &at.value;
        let times: Arc<[Duration]> = match (times, log, run) {
            (Some(times), None, None) if !times.value.is_empty() => times.value.clone().into(),
            (None, Some(log), None) => self.logged_times(&at.value, log, log_service.as_ref())?,
            (None, None, Some(run)) => self.recorded_times(run)?,
            _ => {
                let message = "`measured` needs one of `times`, `log` and `run`".to_owned();
                self.error(&at.span, message, "add times = [\"12ms\", \"15ms\", \"80ms\"]");
                return None;
            }
        };
        let said = span(&at.value.times).or(span(log)).or(span(run));
        if times.iter().all(|time| *time == Duration::ZERO) {
            let help = "times above 0s: [\"12ms\", \"15ms\", \"80ms\"]";
            self.error(said.unwrap_or(&at.span), "no request takes any time".to_owned(), help);
        }
        Some(ServiceTime::Empirical(times))
    }

    fn antagonist(&mut self, at: &At<ServerEntry>) -> Option<Antagonist> {
        let every = self.positive(at.value.antagonist_every.as_ref());
        let alone = span(&at.value.antagonist_every).filter(|_| at.value.antagonist.is_none());
        self.needs(("antagonist_every", alone), "`antagonist`");
        let share = at.value.antagonist.as_ref()?;
        if share.value >= Ratio::ONE {
            let help = "write it like \"60%\"";
            self.error(&share.span, "the server would stand still: below 100%".to_owned(), help);
            return None;
        }
        let every = every.unwrap_or(Duration::from_secs(1));
        if every < self.lasts.get() / MOST_SHARES {
            let said = at.value.antagonist_every.as_ref();
            let message = format!("more than {MOST_SHARES} shares in one run");
            let help = "a longer `antagonist_every` will do";
            self.error(said.map_or(&share.span, |it| &it.span), message, help);
        }
        Some(Antagonist { most: share.value.as_f64(), every })
    }

    fn pauses(&mut self, at: &At<ServerEntry>) -> Option<Pauses> {
        let alone = span(&at.value.pause_every).filter(|_| at.value.pause.is_none());
        self.needs(("pause_every", alone), "`pause`");
        let lasts = at.value.pause.as_ref()?;
        let Some(every) = &at.value.pause_every else {
            let help = "add how often it stands still: pause_every = \"7s\"";
            self.error(&lasts.span, "`pause` needs `pause_every`".to_owned(), help);
            return None;
        };
        if every.value <= lasts.value {
            let help = "`pause_every` is longer than `pause`";
            self.error(&every.span, "the server would never work".to_owned(), help);
            return None;
        }
        if every.value < PAUSE_EVERY_MIN {
            let message = format!("expected at least {PAUSE_EVERY_MIN}");
            self.error(&every.span, message, "what is shorter makes the server slower: `time`");
        }
        Some(Pauses { every: every.value, lasts: lasts.value })
    }
}

/// Where a key is, if it is there.
fn span<T>(key: &Option<At<T>>) -> Option<&Span> {
    key.as_ref().map(|at| &at.span)
}

const DISTRIBUTIONS: [(&str, Distribution); 6] = [
    ("constant", Distribution::Constant),
    ("exponential", Distribution::Exponential),
    ("lognormal", Distribution::Lognormal),
    ("pareto", Distribution::Pareto),
    ("two-kinds", Distribution::TwoKinds),
    ("measured", Distribution::Measured),
];

const DISCIPLINES: [(&str, Discipline); 2] =
    [("first-come", Discipline::FirstCome), ("processor-sharing", Discipline::ProcessorSharing)];

/// Each has a time of its own at which it is free.
const CORES_MAX: u32 = 100_000;

/// Beyond this nearly all times are none, and the mean is that of a few.
const VARIATION_MAX: f64 = 100.0;

/// All pauses while a request is worked on are gone through, one by one.
const PAUSE_EVERY_MIN: Duration = Duration::from_micros(100);

/// Each server keeps all that it will have.
const MOST_SHARES: u64 = 100_000;

/// As [`ServerModel::default`].
const MEAN: Duration = Duration::from_millis(10);
