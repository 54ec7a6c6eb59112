//! A server: cores, one queue before them, and what goes wrong with it.

use std::collections::VecDeque;

use loadline_core::time::{Duration, Instant};

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    /// When each core is free, in seconds.
    free: Vec<f64>,
    /// From when to when a core was busy, of late.
    busy: VecDeque<(f64, f64)>,
    weather: Weather,
    /// Connections that it may have.
    pub(crate) connections: u32,
    /// Where it works on many requests at a time, and not on each by itself.
    pub(crate) batches: Option<Batches>,
}

/// A server that begins a batch with all it has got, up to so many, and answers them together.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    /// Seconds of a batch, besides those of each request in it.
    pub(crate) long: f64,
    pub(crate) each: f64,
    pub(crate) most: usize,
    /// Requests for the next one.
    pub(crate) waiting: VecDeque<usize>,
    pub(crate) is_busy: bool,
}

impl Batches {
    pub(crate) fn new(long: f64, each: f64, most: usize) -> Self {
        Self { long, each, most, waiting: VecDeque::new(), is_busy: false }
    }

    /// Requests a second where each batch is as large as can be.
    pub(crate) fn capacity(&self) -> f64 {
        self.most as f64 / (self.long + self.each * self.most as f64)
    }

    /// Begins a batch: what is in it, and how many seconds it takes.
    pub(crate) fn begin(&mut self) -> (Vec<usize>, f64) {
        let many = self.waiting.len().min(self.most);
        self.is_busy = many > 0;
        (self.waiting.drain(..many).collect(), self.long + self.each * many as f64)
    }
}

/// What makes a server slower or faster than its cores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    /// It stands still for so many seconds at the end of every so many.
    pub(crate) pause: Option<(f64, f64)>,
    /// From these seconds to those it works, and answers nothing before the end.
    pub(crate) withholds: Option<(f64, f64)>,
    /// From these seconds on it is so many times as fast.
    pub(crate) speeds: Vec<(f64, f64)>,
    /// In its first seconds it becomes as fast as it is, from a third of that.
    pub(crate) warm_up: f64,
}

impl Station {
    pub(crate) fn new(cores: usize, weather: Weather) -> Self {
        let busy = VecDeque::new();
        Self { free: vec![0.0; cores], busy, weather, connections: u32::MAX, batches: None }
    }

    /// When a request is answered that comes at `now`, with so many seconds of work.
    pub(crate) fn serve(&mut self, now: Instant, (work, needs_core): (f64, bool)) -> Instant {
        let now = seconds(now);
        if !needs_core {
            return instant(now + work);
        }
        let core = self.free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        let begin = core.max(now);
        *core = self.weather.end(begin, work);
        self.busy.push_back((begin, *core));
        instant(self.weather.sent(*core))
    }

    /// The part of its cores that was busy in the last second.
    pub(crate) fn utilization(&mut self, now: Instant) -> f64 {
        let now = seconds(now);
        let from = now - 1.0;
        while self.busy.front().is_some_and(|(_, end)| *end < from) {
            self.busy.pop_front();
        }
        let within = |(begin, end): &(f64, f64)| (end.min(now) - begin.max(from)).max(0.0);
        self.busy.iter().map(within).sum::<f64>() / self.free.len() as f64
    }

    /// Keeps every core busy until then.
    pub(crate) fn pause_until(&mut self, until: f64) {
        self.free.iter_mut().for_each(|core| *core = core.max(until));
    }
}

impl Weather {
    fn end(&self, begin: f64, work: f64) -> f64 {
        let Some((long, every)) = self.pause else { return begin + work / self.speed(begin) };
        let into = begin % every;
        let begin = if into >= every - long { begin - into + every } else { begin };
        let end = begin + work / self.speed(begin);
        let pauses = ((end + long) / every).floor() - ((begin + long) / every).floor();
        end + pauses * long
    }

    /// When an answer is given that is ready by then.
    fn sent(&self, ready: f64) -> f64 {
        let withheld = self.withholds.filter(|(from, until)| (*from..*until).contains(&ready));
        withheld.map_or(ready, |(_, until)| until)
    }

    fn speed(&self, at: f64) -> f64 {
        let latest = self.speeds.iter().rev().find(|(from, _)| at >= *from);
        let speed = latest.map_or(1.0, |(_, speed)| *speed);
        let warm = if at < self.warm_up { (1.0 + 2.0 * at / self.warm_up) / 3.0 } else { 1.0 };
        speed * warm
    }
}

pub(crate) fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

pub(crate) fn instant(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_nanos((seconds * 1e9) as u64)
}
