//! What a generator would record of a run against a simulated server.

use loadline_core::{
    time::Duration,
    units::{Count, Rate},
};
use loadline_load::search::Measured;
use loadline_measure::{
    objective::Objective,
    record::{Arrivals, LoadModel, LoadRecord, Moment, Outcomes, Spreads},
    statistics::Times,
};

use super::server::{Ended, Ending};

/// Gathers the ends of requests, which come in the order of time, but for what was refused.
pub(crate) struct Observer {
    from: f64,
    interval: f64,
    times: Times,
    moments: Vec<Moment>,
    /// The times of the moment that is open, in seconds.
    open: Vec<f64>,
    late_after: f64,
    planned: Vec<u64>,
    outcomes: Outcomes,
}

impl Observer {
    /// Of a run that begins then and lasts so long.
    pub(crate) fn new(from: f64, lasts: f64, objective: &Objective) -> Self {
        Self {
            from,
            // As the moments of a run are.
            interval: if lasts <= 20.0 { 0.1 } else { 1.0 },
            times: Times::new(3),
            moments: Vec::new(),
            open: Vec::new(),
            late_after: objective.late_after().map_or(f64::INFINITY, Duration::as_secs_f64),
            planned: Vec::new(),
            outcomes: Outcomes::default(),
        }
    }

    pub(crate) fn add(&mut self, request: Ended) {
        let due = self.index(request.came);
        if due >= self.planned.len() {
            self.planned.resize(due + 1, 0);
        }
        self.planned[due] += 1;
        let index = self.index(request.at).max(self.moments.len().saturating_sub(1));
        while self.moments.len() <= index {
            self.close();
            let at = seconds(self.interval * (self.moments.len() + 1) as f64);
            self.moments.push(Moment { at, ..Moment::default() });
        }
        let moment = &mut self.moments[index].outcomes;
        for outcomes in [moment, &mut self.outcomes] {
            match request.ending {
                Ending::Ok => outcomes.ok += 1,
                Ending::Refused => outcomes.server_error += 1,
                Ending::CutOff => outcomes.cut_off += 1,
            }
        }
        if request.ending == Ending::Ok {
            let time = (request.at - request.came).max(0.0);
            self.open.push(time);
            self.times.record(seconds(time));
        }
    }

    fn index(&self, at: f64) -> usize {
        ((at - self.from) / self.interval).max(0.0) as usize
    }

    /// Puts the times of the open moment into it.
    fn close(&mut self) {
        let (Some(moment), false) = (self.moments.last_mut(), self.open.is_empty()) else { return };
        self.open.sort_unstable_by(f64::total_cmp);
        let count = self.open.len();
        let rank = |share: f64| ((share * count as f64).ceil() as usize).clamp(1, count) - 1;
        moment.mean = seconds(self.open.iter().sum::<f64>() / count as f64);
        moment.p50 = seconds(self.open[rank(0.5)]);
        moment.p99 = seconds(self.open[rank(0.99)]);
        moment.max = seconds(self.open[count - 1]);
        let in_time = self.open.partition_point(|time| *time < self.late_after);
        moment.late = Some((count - in_time) as u64);
        self.open.clear();
    }

    /// What a search is told of it.
    pub(crate) fn measured(mut self, ended: f64, objective: &Objective) -> Measured {
        self.close();
        for (moment, planned) in self.moments.iter_mut().zip(&self.planned) {
            moment.planned = *planned;
        }
        let elapsed = seconds(ended - self.from);
        let spread = self.times.spread();
        let mut record = LoadRecord {
            // Not even in a closed loop does an objective of these servers compare with it.
            model: LoadModel::Open {
                rate: Rate::default(),
                arrivals: Arrivals::Poisson,
                seed: 0,
                stages: Vec::new(),
            },
            elapsed,
            planned: self.outcomes.total(),
            outcomes: self.outcomes,
            achieved: Count::new(self.outcomes.ok) / elapsed,
            response: self.times.latency(),
            spreads: Spreads { response: spread, ..Spreads::default() },
            moments: self.moments,
            ..LoadRecord::default()
        };
        record.objective = Some(objective.judge(&record));
        Measured::of(&record, objective)
    }
}

pub(crate) fn seconds(time: f64) -> Duration {
    Duration::from_nanos((time * 1e9) as u64)
}
