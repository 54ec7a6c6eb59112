//! Where requests come from.

use loadline_core::{
    fleet::Class,
    time::{Duration, Instant},
    units::Rate,
};
use loadline_spanned::{At, Span};

use super::Reader;
use crate::{
    arrivals::{Arrivals, Clock, Spacing, Stage},
    random::Random,
    scenario::{ClientRetry, Source},
    traffic::file::{SourceEntry, StageEntry},
};

impl Reader<'_> {
    pub(super) fn source(
        &mut self,
        at: &At<SourceEntry>,
        regions: &mut Vec<String>,
    ) -> Option<Source> {
        let source = &at.value;
        let service = self.service(&at.span, source.service.as_ref())?;
        let region = self.region(source.edge.as_ref());
        let region = region.unwrap_or_else(|| self.fleet.edge.region.clone());
        let edge = regions.iter().position(|known| *known == region).unwrap_or_else(|| {
            regions.push(region.clone());
            regions.len() - 1
        });
        let times = source.retries.as_ref().map_or(0, |at| at.value);
        let after = self.positive(source.retry_after.as_ref()).unwrap_or(RETRY_AFTER);
        let of_service = self.fleet.services[service].class;
        let class = source.class.as_ref().and_then(|at| self.word(at, &CLASSES));
        if let Some(at) = source.clients.as_ref().filter(|at| at.value == 0) {
            let help = "write clients = 1";
            self.error(&at.span, "a source has at least one client".to_owned(), help);
        }
        let clients = source.clients.as_ref().map_or(CLIENTS, |at| at.value);
        let distance = source.distance.unwrap_or_default();
        let gives_up = self.positive(source.give_up.as_ref());
        let too_soon = source.give_up.as_ref().filter(|_| gives_up <= Some(distance));
        if let Some(at) = too_soon {
            let message = format!("nothing can be sent: `distance` is {distance}");
            self.error(&at.span, message, "let clients wait for longer than `distance`");
        }
        Some(Source {
            name: source.name.clone().unwrap_or(region),
            edge,
            service,
            arrivals: self.arrivals(at, service)?,
            class: class.unwrap_or(of_service),
            clients,
            distance,
            gives_up,
            retry: ClientRetry { times, after },
        })
    }

    /// Sees to it that the first request and the last stage of each source come before the end. Of
    /// a rate that `is_multiplied` later it is not known when the first request comes.
    pub(super) fn begin_in_time(
        &mut self,
        entries: &[At<SourceEntry>],
        sources: &[Source],
        is_multiplied: bool,
    ) {
        // Where one cannot be read it is not known which is which.
        if entries.len() != sources.len() {
            return;
        }
        for (at, source) in entries.iter().zip(sources) {
            let SourceEntry { times, log, .. } = &at.value;
            let span = times.as_ref().map(|at| &at.span).or(log.as_ref().map(|at| &at.span));
            let begins = first(&source.arrivals, is_multiplied).is_none_or(|first| {
                let complaint = format!("its first request would come at {first}");
                self.begins(span.unwrap_or(&at.span), first, &complaint)
            });
            if begins {
                self.stages_begin(&at.value.stages);
            }
        }
    }

    /// Sees to it that each stage begins before the end.
    fn stages_begin(&mut self, stages: &[At<StageEntry>]) {
        let mut begin = Duration::ZERO;
        for stage in stages {
            if !self.begins(&stage.span, begin, "it never begins") {
                return;
            }
            begin = begin + stage.value.lasts;
        }
    }

    /// The index of the service that a table is about.
    pub(super) fn service(&mut self, span: &Span, said: Option<&At<String>>) -> Option<usize> {
        let services = &self.fleet.services;
        let names: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
        let Some(said) = said else {
            if services.len() != 1 {
                let message = format!("the configuration has {} services", services.len());
                let help =
                    format!("say which one is asked: `service = ...`, of {}", names.join(", "));
                self.error(span, message, help);
            }
            return (services.len() == 1).then_some(0);
        };
        let index = names.iter().position(|name| *name == said.value);
        self.name("service", Some(said), &names);
        index
    }

    fn arrivals(&mut self, at: &At<SourceEntry>, service: usize) -> Option<Arrivals> {
        let SourceEntry { rate, stages, users, think, times, log, log_service, .. } = &at.value;
        let ways =
            [rate.is_some(), !stages.is_empty(), users.is_some(), times.is_some(), log.is_some()];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            let message = "expected one of `rate`, `stages`, `users`, `times` and `log`".to_owned();
            self.error(&at.span, message, "say in one way when requests come: rate = \"100/s\"");
            return None;
        }
        self.fits_way(&at.value);
        if let Some(users) = users {
            self.comes(users.value > 0, &users.span, "40");
            self.at_most(USERS_MAX, users.value, &users.span);
            let think = think.as_ref().map_or(Duration::ZERO, |at| at.value);
            return Some(Arrivals::Closed { users: users.value, think, requests: None });
        }
        if let Some(times) = times {
            return self.listed(times);
        }
        if let Some(log) = log {
            return self.logged_arrivals(service, log, log_service.as_ref());
        }
        let spacing = self.spacing(&at.value)?;
        let stages: Vec<Stage> = match rate {
            Some(rate) => {
                self.some_rate(rate);
                vec![Stage::constant(rate.value)]
            }
            None => self.stages(stages),
        };
        Some(Arrivals::Open { spacing, stages: stages.into() })
    }

    /// Keys that other ways of saying when requests come have.
    fn fits_way(&mut self, source: &SourceEntry) {
        let SourceEntry { rate, stages, users, log, arrivals, burst, think, .. } = source;
        let is_open = rate.is_some() || !stages.is_empty();
        let bursts = is_open && arrivals.as_ref().is_some_and(|at| at.value == "bursts");
        let spaced = arrivals.as_ref().filter(|_| !is_open);
        self.needs(("arrivals", spaced.map(|at| &at.span)), "`rate` or `stages`");
        let burst = burst.as_ref().filter(|_| !bursts && spaced.is_none());
        self.needs(("burst", burst.map(|at| &at.span)), "arrivals = \"bursts\"");
        let think = think.as_ref().filter(|_| users.is_none());
        self.needs(("think", think.map(|at| &at.span)), "`users`");
        let log_service = source.log_service.as_ref().filter(|_| log.is_none());
        self.needs(("log_service", log_service.map(|at| &at.span)), "`log`");
        let retries = source.retries.as_ref().map_or(0, |at| at.value);
        let retry_after = source.retry_after.as_ref().filter(|_| retries == 0);
        self.needs(("retry_after", retry_after.map(|at| &at.span)), "`retries`");
    }

    fn listed(&mut self, times: &At<Vec<Duration>>) -> Option<Arrivals> {
        let complaint = match &times.value[..] {
            [] => "no request comes",
            times if !times.is_sorted() => "the times are not in order",
            _ => return Some(Arrivals::Listed(times.value.clone().into())),
        };
        let help = "times since the start, in order: [\"0s\", \"1500ms\", \"2s\"]";
        self.error(&times.span, complaint.to_owned(), help);
        None
    }

    fn spacing(&mut self, source: &SourceEntry) -> Option<Spacing> {
        let size = source.burst.as_ref().map_or(1, |at| at.value);
        let words = [
            ("constant", Spacing::Constant),
            ("poisson", Spacing::Poisson),
            ("bursts", Spacing::Bursts(size)),
        ];
        let Some(at) = &source.arrivals else { return Some(Spacing::Poisson) };
        let spacing = self.word(at, &words)?;
        source.burst.iter().for_each(|at| self.at_most(BURST_MAX, at.value, &at.span));
        if matches!(spacing, Spacing::Bursts(_)) && size < 2 {
            let help = "add how many come at the same instant: burst = 20";
            self.error(&at.span, "bursts of one request are none".to_owned(), help);
        }
        Some(spacing)
    }

    fn some_rate(&mut self, rate: &At<Rate>) {
        self.comes(rate.value > Rate::default(), &rate.span, "\"100/s\"");
        self.at_most(RATE_MAX, rate.value, &rate.span);
    }

    /// Sees to it that a request comes.
    fn comes(&mut self, comes: bool, span: &Span, like: &str) {
        if !comes {
            let help = format!("write it like {like}, or leave the source out");
            self.error(span, "no request comes".to_owned(), help);
        }
    }

    fn stages(&mut self, entries: &[At<StageEntry>]) -> Vec<Stage> {
        let stages: Vec<Stage> = entries.iter().map(|stage| self.stage(stage)).collect();
        let comes = stages.iter().any(|stage| stage.from.max(stage.to) > Rate::default());
        if let Some(first) = entries.first() {
            self.comes(comes, &first.span, "{ rate = \"100/s\", for = \"1m\" }");
        }
        stages
    }

    fn stage(&mut self, at: &At<StageEntry>) -> Stage {
        let StageEntry { rate, to, lasts } = at.value;
        self.at_most(RATE_MAX, rate.max(to.unwrap_or(rate)), &at.span);
        if lasts == Duration::ZERO {
            self.error(&at.span, "the stage lasts 0s".to_owned(), "write it like for = \"30s\"");
        }
        Stage { from: rate, to: to.unwrap_or(rate), lasts }
    }
}

/// From when on requests come, or may where they come by chance; none where none does.
fn first(arrivals: &Arrivals, is_multiplied: bool) -> Option<Duration> {
    match arrivals {
        Arrivals::Listed(times) => times.first().copied(),
        Arrivals::Open { spacing: Spacing::Constant, stages } if !is_multiplied => {
            let mut clock = Clock::new(Spacing::Constant, stages, Duration::MAX, &[]);
            let first = clock.next(&mut Random::stream(0, 0))?;
            Some(first.since(Instant::ZERO))
        }
        Arrivals::Open { stages, .. } => {
            let comes = |stage: &Stage| stage.from.max(stage.to) > Rate::default();
            let first = stages.iter().position(comes)?;
            let before = stages.iter().take(first).map(|stage| stage.lasts);
            Some(before.fold(Duration::ZERO, |sum, lasts| sum + lasts))
        }
        Arrivals::Closed { .. } => Some(Duration::ZERO),
    }
}

const CLASSES: [(&str, Class); 3] =
    [("high", Class::High), ("normal", Class::Normal), ("low", Class::Low)];

/// A second of it takes ten to run.
const RATE_MAX: Rate = Rate::per_sec(10_000_000);

/// Each may have a request under way, which takes some hundred bytes.
const USERS_MAX: u32 = 1_000_000;

/// As many.
const BURST_MAX: u32 = 1_000_000;

/// Enough that policies which hash have something to spread.
const CLIENTS: u32 = 1_000;

/// What many clients wait before they try once more.
const RETRY_AFTER: Duration = Duration::from_millis(100);
