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

/// A server of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    model: Arc<ServerModel>,
    /// How many seconds it takes for a request at its best.
    pub(crate) best_pace: f64,
    pub(crate) speed: Speed,
    pub(crate) outages: Vec<Outage>,
    /// From when to when which share of its responses is a 500.
    pub(crate) errors: Vec<(Instant, Option<Instant>, f64)>,
    /// When each core is free.
    free: Vec<Instant>,
    /// When those begin that wait; kept only where so many may wait.
    starts: VecDeque<Instant>,
    pub(crate) sharing: Option<Box<Sharing>>,
    /// What it tells where it is probed.
    pub(crate) watch: Option<Box<Watch>>,
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

/// What a server does about a request that has just reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Its response leaves then, with this status.
    Responds(Instant, u16),
    /// When its response leaves is told by the next departure of the station.
    Shares,
    /// Its connection is reset then.
    Resets(Instant),
    /// The connection is refused.
    Refuses,
    /// Nothing, ever.
    Silent,
}

impl Station {
    pub(crate) fn new(model: &Arc<ServerModel>) -> Self {
        let mut speed = Speed::default();
        model.pauses.into_iter().for_each(|pauses| speed.pause(pauses));
        let shares = model.discipline == Discipline::ProcessorSharing;
        let cores = if shares { 0 } else { model.cores as usize };
        let mut station = Self {
            model: model.clone(),
            best_pace: model.time.mean().as_secs_f64(),
            speed,
            outages: Vec::new(),
            errors: Vec::new(),
            free: vec![Instant::ZERO; cores],
            starts: VecDeque::new(),
            sharing: shares.then(|| Box::new(Sharing::new(model.cores))),
            watch: None,
            restarted: None,
        };
        station.warm_up(Instant::ZERO);
        station
    }

    /// Keeps what probes ask for from now on.
    pub(crate) fn watch(&mut self) {
        let cores = self.model.cores;
        self.watch.get_or_insert_with(|| Box::new(Watch::new(cores)));
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
            self.speed.multiply(begin, Some(begin + step), factor);
        }
    }

    /// Takes a request in whose work is drawn from `work`.
    pub(crate) fn serve(&mut self, now: Instant, work: &mut Random, request: Handle) -> Reply {
        if !self.outages.is_empty() {
            if let Some(reply) = self.refusal(now) {
                return reply;
            }
            self.restart(now);
        }
        let time = self.model.time.draw(work);
        if let Some(limit) = self.model.queue
            && self.waiting(now) >= limit
        {
            return Reply::Responds(now, 503);
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.join(now, time, request, &self.speed);
            self.watch.iter_mut().for_each(|watch| watch.join(now, request));
            return Reply::Shares;
        }
        let Some((start, end)) = self.occupy(now, time) else { return Reply::Silent };
        self.watch.iter_mut().for_each(|watch| watch.come(now, end));
        if self.model.queue.is_some() && start > now {
            self.starts.push_back(start);
        }
        self.cut_short(now, end, work)
    }

    /// What it answers a probe; nothing where it is out, or cannot be probed.
    pub(crate) fn answer(&mut self, now: Instant) -> Option<ProbeResult> {
        if self.outage(now).is_some() {
            return None;
        }
        self.restart(now);
        self.watch.as_mut().map(|watch| watch.answer(now))
    }

    /// How long a request would wait that came now.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let first = self.free.iter().min().copied();
        first.map_or(Duration::ZERO, |free| free.since(now))
    }

    /// Whether a request that came now would find all cores busy.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        match &self.sharing {
            Some(sharing) => sharing.len() >= self.model.cores as usize,
            None => self.free.iter().all(|free| *free > now),
        }
    }

    /// How many seconds it would take for a request now, if it were alone.
    pub(crate) fn pace(&self, now: Instant) -> f64 {
        self.best_pace / self.speed.at(now)
    }

    /// Whether it is out, and how.
    pub(crate) fn outage(&self, now: Instant) -> Option<&Outage> {
        self.outages.iter().find(|outage| outage.holds(now))
    }

    /// The status of a response that leaves at `now`.
    pub(crate) fn status(&self, now: Instant, work: &mut Random) -> u16 {
        if self.errors.is_empty() {
            return 200;
        }
        let holds = |(begin, end, _): &&(Instant, Option<Instant>, f64)| {
            *begin <= now && end.is_none_or(|end| now < end)
        };
        let share = self.errors.iter().filter(holds).map(|(.., share)| share);
        let good = share.fold(1.0, |good, share| good * (1.0 - share));
        if work.uniform() < good { 200 } else { 500 }
    }

    /// The share of its cores that is busy, 0 to 1.
    pub(crate) fn utilization(&self, now: Instant) -> f64 {
        let cores = f64::from(self.model.cores);
        match &self.sharing {
            Some(sharing) => (sharing.len() as f64 / cores).min(1.0),
            None => self.free.iter().filter(|free| **free > now).count() as f64 / cores,
        }
    }

    fn refusal(&self, now: Instant) -> Option<Reply> {
        self.outage(now).map(|outage| match outage.kind {
            OutageKind::Down => Reply::Refuses,
            OutageKind::Unreachable => Reply::Silent,
        })
    }

    /// Forgets what it had to do before the last time that it was down.
    fn restart(&mut self, now: Instant) {
        let down = self.outages.iter().filter(|outage| outage.kind == OutageKind::Down);
        let last = down.filter_map(|outage| outage.end).filter(|end| *end <= now).max();
        if last > self.restarted {
            self.restarted = last;
            self.free.fill(Instant::ZERO);
            self.starts.clear();
            self.watch.iter_mut().for_each(|watch| watch.clear());
        }
    }

    fn waiting(&mut self, now: Instant) -> u32 {
        if let Some(sharing) = &self.sharing {
            return (sharing.len() as u32).saturating_sub(self.model.cores);
        }
        while self.starts.front().is_some_and(|start| *start <= now) {
            self.starts.pop_front();
        }
        self.starts.len() as u32
    }

    /// Gives the work to the core that is free first: when it begins and when it is done.
    fn occupy(&mut self, now: Instant, time: Duration) -> Option<(Instant, Instant)> {
        let core = self.free.iter_mut().min()?;
        let start = (*core).max(now);
        let end = self.speed.end(start, time)?;
        *core = end;
        Some((start, end))
    }

    /// The response, unless an outage comes first.
    fn cut_short(&self, now: Instant, end: Instant, work: &mut Random) -> Reply {
        let cut = self.outages.iter().filter(|outage| now < outage.begin && outage.begin < end);
        match cut.min_by_key(|outage| outage.begin) {
            None => Reply::Responds(end, self.status(end, work)),
            Some(Outage { begin, kind: OutageKind::Down, .. }) => Reply::Resets(*begin),
            // The response leaves while nothing comes back.
            Some(outage) if outage.holds(end) => Reply::Silent,
            Some(_) => Reply::Responds(end, self.status(end, work)),
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
