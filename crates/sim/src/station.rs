//! A server: cores, what waits for them, and what goes wrong with it.
//!
//! Faults are known before the run, so the end of a request is known when it begins. Where requests
//! share the cores it changes with each that comes, and is told by the station's next departure.

use std::{collections::VecDeque, sync::Arc};

use loadline_core::{
    decide::probe_pool::ProbeResult,
    time::{Duration, Instant},
};

use crate::{
    random::Random,
    scenario::{Discipline, ServerModel},
    sharing::Sharing,
    slab::Handle,
    speed::Speed,
    watch::Watch,
};

/// A server of the simulation: within a cache line, for each request touches another.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    model: Arc<ServerModel>,
    /// How many seconds it takes for a request at its best.
    pub(crate) best_pace: f64,
    /// When its first core is free, and the others.
    first: Instant,
    others: Box<[Instant]>,
    rare: Option<Box<Rare>>,
}

/// What few servers have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    pub(crate) speed: Speed,
    pub(crate) outages: Vec<Outage>,
    /// Share of responses with 500, from and until when.
    pub(crate) errors: Vec<(Instant, Option<Instant>, f64)>,
    /// Start times of waiting requests; kept only if the queue is limited.
    starts: VecDeque<Instant>,
    pub(crate) sharing: Option<Sharing>,
    /// Its load, if it is probed.
    pub(crate) watch: Option<Watch>,
    /// The last outage that it has come back from.
    restarted: Option<Instant>,
}

/// A time in which a server does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) begin: Instant,
    pub(crate) end: Option<Instant>,
    pub(crate) kind: OutageKind,
}

/// How a server does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// Its program has ended: connections are reset, and refused from then on.
    Down,
    /// Nothing reaches it and nothing comes back.
    Unreachable,
}

/// The reply of a server to a request that has just reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Its response leaves at this instant, with this status.
    Responds(Instant, u16),
    /// When its response leaves is told by the next departure of the station.
    Shares,
    /// Its connection is reset at this instant.
    Resets(Instant),
    /// The connection is refused.
    Refuses,
    /// Nothing, ever.
    Silent,
}

impl Station {
    pub(crate) fn new(model: &Arc<ServerModel>) -> Self {
        let cores = model.cores as usize;
        let mut station = Self {
            model: model.clone(),
            best_pace: model.time.mean().as_secs_f64(),
            first: Instant::ZERO,
            others: vec![Instant::ZERO; cores.saturating_sub(1)].into(),
            rare: None,
        };
        if let Some(pauses) = model.pauses {
            station.rare_mut().speed.pause(pauses);
        }
        if model.discipline == Discipline::ProcessorSharing {
            station.rare_mut().sharing = Some(Sharing::new(model.cores));
        }
        station
    }

    pub(crate) fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// What shares its cores, where requests do.
    pub(crate) fn sharing(&self) -> Option<&Sharing> {
        self.rare().and_then(|rare| rare.sharing.as_ref())
    }

    /// Keeps what probes ask for from now on.
    pub(crate) fn watch(&mut self) {
        let cores = self.model.cores;
        self.rare_mut().watch.get_or_insert_with(|| Watch::new(cores));
    }

    /// Starts slowly: from a third of its speed to all of it, in eight steps.
    pub(crate) fn warm_up(&mut self, begin: Instant) {
        let step = self.model.warm_up / u64::from(WARM_UP_STEPS);
        if step == Duration::ZERO {
            return;
        }
        for n in 0..WARM_UP_STEPS {
            let factor = (1.0 + 2.0 * f64::from(n) / f64::from(WARM_UP_STEPS)) / 3.0;
            let begin = begin + step * u64::from(n);
            self.rare_mut().speed.multiply(begin, Some(begin + step), factor);
        }
    }

    /// Takes a request in whose work is drawn from `work`, and whether it fails from `errors`.
    pub(crate) fn serve(
        &mut self,
        now: Instant,
        (work, errors): (&mut Random, &mut Random),
        request: Handle,
    ) -> Reply {
        if let Some(reply) = self.refusal(now) {
            return reply;
        }
        self.restart(now);
        let time = self.model.time.draw(work);
        if let Some(limit) = self.model.queue
            && self.waiting(now) >= limit
            && self.is_busy(now)
        {
            return Reply::Responds(now, 503);
        }
        if let Some(Rare { sharing: Some(sharing), watch, speed, .. }) = self.rare.as_deref_mut() {
            sharing.join(now, time, request, speed);
            watch.iter_mut().for_each(|watch| watch.join(now, request));
            return Reply::Shares;
        }
        let Some((start, end)) = self.occupy(now, time) else { return Reply::Silent };
        if let Some(watch) = self.rare.as_mut().and_then(|rare| rare.watch.as_mut()) {
            watch.come(now, end);
        }
        if self.model.queue.is_some() && start > now {
            self.rare_mut().starts.push_back(start);
        }
        self.cut_short(now, end, errors)
    }

    /// Its answer to a probe; none if it is out or cannot be probed.
    pub(crate) fn answer(&mut self, now: Instant) -> Option<ProbeResult> {
        if self.outage(now).is_some() {
            return None;
        }
        self.restart(now);
        self.rare.as_mut()?.watch.as_mut().map(|watch| watch.answer(now))
    }

    /// When each core is free, where each has a request of its own.
    fn cores(&self) -> impl Iterator<Item = Instant> {
        [self.first].into_iter().chain(self.others.iter().copied())
    }

    /// How long a request would wait that came now.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let has_queue = self.sharing().is_none() && self.restarted(now).is_none();
        let first = self.cores().min().filter(|_| has_queue);
        first.map_or(Duration::ZERO, |free| free.since(now))
    }

    /// Whether a request that came now would find all cores busy.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        match self.sharing() {
            Some(sharing) => sharing.len() >= self.model.cores as usize,
            None => self.restarted(now).is_none() && self.cores().all(|free| free > now),
        }
    }

    /// How many seconds it would take for a request now, if it were alone.
    pub(crate) fn pace(&self, now: Instant) -> f64 {
        self.best_pace / self.rare().map_or(1.0, |rare| rare.speed.at(now))
    }

    /// When work that takes so long is done, if it begins then; none where never.
    pub(crate) fn end(&self, begin: Instant, work: Duration) -> Option<Instant> {
        self.rare().map_or(Some(begin + work), |rare| rare.speed.end(begin, work))
    }

    fn outages(&self) -> &[Outage] {
        self.rare().map_or(&[], |rare| &rare.outages)
    }

    /// The outage it is in, if any.
    pub(crate) fn outage(&self, now: Instant) -> Option<&Outage> {
        self.outages().iter().find(|outage| outage.holds(now))
    }

    /// The status of a response that leaves at `now`.
    pub(crate) fn status(&self, now: Instant, random: &mut Random) -> u16 {
        let errors = self.rare().map_or(&[][..], |rare| &rare.errors);
        if errors.is_empty() {
            return 200;
        }
        let holds = |(begin, end, _): &&(Instant, Option<Instant>, f64)| {
            *begin <= now && end.is_none_or(|end| now < end)
        };
        let share = errors.iter().filter(holds).map(|(.., share)| share);
        let good = share.fold(1.0, |good, share| good * (1.0 - share));
        if random.uniform() < good { 200 } else { 500 }
    }

    /// The share of its cores that is busy, 0 to 1.
    pub(crate) fn utilization(&self, now: Instant) -> f64 {
        let cores = f64::from(self.model.cores);
        match self.sharing() {
            Some(sharing) => (sharing.len() as f64 / cores).min(1.0),
            None => self.cores().filter(|free| *free > now).count() as f64 / cores,
        }
    }

    fn refusal(&self, now: Instant) -> Option<Reply> {
        self.outage(now).map(|outage| match outage.kind {
            OutageKind::Down => Reply::Refuses,
            OutageKind::Unreachable => Reply::Silent,
        })
    }

    /// Forgets the work it had before its last outage.
    fn restart(&mut self, now: Instant) {
        let Some(last) = self.restarted(now) else { return };
        let rare = self.rare_mut();
        rare.restarted = Some(last);
        rare.starts.clear();
        rare.watch.iter_mut().for_each(Watch::clear);
        self.first = Instant::ZERO;
        self.others.fill(Instant::ZERO);
    }

    /// The end of its last outage, if work from before is still to be forgotten.
    fn restarted(&self, now: Instant) -> Option<Instant> {
        let rare = self.rare()?;
        let down = rare.outages.iter().filter(|outage| outage.kind == OutageKind::Down);
        let last = down.filter_map(|outage| outage.end).filter(|end| *end <= now).max();
        last.filter(|last| Some(*last) > rare.restarted)
    }

    fn waiting(&mut self, now: Instant) -> u32 {
        let Some(rare) = self.rare.as_deref_mut() else { return 0 };
        if let Some(sharing) = &rare.sharing {
            return (sharing.len() as u32).saturating_sub(self.model.cores);
        }
        while rare.starts.front().is_some_and(|start| *start <= now) {
            rare.starts.pop_front();
        }
        rare.starts.len() as u32
    }

    /// Gives the work to the core that is free first: when it begins and when it is done.
    fn occupy(&mut self, now: Instant, time: Duration) -> Option<(Instant, Instant)> {
        let start = self.cores().min()?.max(now);
        let end = self.end(start, time)?;
        let core = [&mut self.first].into_iter().chain(&mut self.others).min()?;
        *core = end;
        Some((start, end))
    }

    /// The response, unless an outage comes first.
    fn cut_short(&self, now: Instant, end: Instant, errors: &mut Random) -> Reply {
        let within = |outage: &&Outage| now < outage.begin && outage.begin < end;
        let down = self.outages().iter().filter(|outage| outage.kind == OutageKind::Down);
        let reset = down.filter(within).map(|outage| outage.begin).min();
        let leaves = reset.unwrap_or(end);
        let is_silent =
            |outage: &Outage| outage.kind == OutageKind::Unreachable && outage.holds(leaves);
        match reset {
            // It leaves while nothing comes back.
            _ if self.outages().iter().any(is_silent) => Reply::Silent,
            Some(at) => Reply::Resets(at),
            None => Reply::Responds(end, self.status(end, errors)),
        }
    }
}

impl Outage {
    fn holds(&self, now: Instant) -> bool {
        self.begin <= now && self.end.is_none_or(|end| now < end)
    }
}

/// Fine enough that no step is more than a tenth of the speed.
const WARM_UP_STEPS: u32 = 8;
