//! What a search has found, as a record.

use std::collections::BTreeMap;

use loadline_core::{
    record::{
        Bound, CapacityRecord, Fault, Interval, IntervalMethod, Latency, LoadLine, Purpose, Series,
        Trial, Verdict,
    },
    units::{Rate, Ratio},
};

use super::{
    Search,
    bisect::scale,
    estimate::{self, Point},
    knee, scalability,
};

/// The record of `search` as it stands, ended by `verdict`.
pub(super) fn record(search: &Search, verdict: Verdict) -> CapacityRecord {
    let config = &search.config;
    let strict = search.goals.iter().rev().map(|goal| search.loads.bounds(goal));
    let bounds = strict.into_iter().find(|it| it.lower.is_some() || it.upper.is_some());
    let bounds = bounds.unwrap_or_default();
    let found = (verdict == Verdict::Found).then(|| search.trials.last()).flatten();
    let curve = curve(&search.trials);
    let near = found.map_or(Rate::milli_per_sec(u64::MAX), |line| scale(line.rate, NEAR));
    let bend: Vec<_> = curve.iter().filter(|(rate, _)| *rate <= near).cloned().collect();
    CapacityRecord {
        target: config.target.clone(),
        objective: config.objective.clone(),
        arrivals: config.arrivals,
        seed: config.seed,
        verdict,
        found: found.map(|confirmed| load_line(search, confirmed.rate)),
        accepted: bounds.lower.map(|rate| bound(search, rate, true)),
        refused: bounds.upper.map(|rate| bound(search, rate, false)),
        rungs: search.ladder.rungs.clone(),
        scalability: scalability::fit(&search.ladder.rungs),
        trials: search.trials.clone(),
        knee: found.and_then(|_| knee::find(&bend)),
        curve: Series { name: config.objective.clone(), points: curve },
        notes: notes(search, verdict),
    }
}

/// The load to confirm: where the line through the trials crosses the limit, kept within the
/// bounds; the accepted load where there is no such line.
pub(super) fn best_guess(search: &Search, lower: Rate, upper: Rate) -> Rate {
    let points = points(search, lower, upper);
    estimate::crossing(&points).map_or(lower, |line| line.at.clamp(lower, upper))
}

fn load_line(search: &Search, rate: Rate) -> LoadLine {
    let headroom = search.config.headroom.min(Ratio::ONE).as_f64();
    LoadLine {
        rate,
        interval: interval(search, rate),
        headroom_share: headroom,
        max_rate: scale(rate, 1.0 - headroom),
    }
}

/// The interval of the regression, widened to the bracket and the confirmed load: trials that were
/// chosen by what came before them agree more than independent ones would.
fn interval(search: &Search, rate: Rate) -> Interval {
    let bounds = search.loads.bounds(&search.goals[2]);
    let (lower, upper) = (bounds.lower.unwrap_or(rate), bounds.upper.unwrap_or(rate));
    let points = points(search, lower, upper);
    let (low, high, method) = match estimate::crossing(&points) {
        Some(line) => (line.low, line.high, IntervalMethod::Regression95),
        None => {
            let width = search.goals[2].width;
            (scale(lower, 1.0 - width), scale(upper, 1.0 + width), IntervalMethod::Bracket)
        }
    };
    let trials = u32::try_from(points.len()).unwrap_or(u32::MAX);
    let (low, high) = (low.min(lower).min(rate), high.max(upper).max(rate));
    Interval { low, high, method, trials }
}

/// The valid, long trials round the bracket whose pressure is known.
fn points(search: &Search, lower: Rate, upper: Rate) -> Vec<Point> {
    let least = search.goals[1].duration;
    let range = scale(lower, 1.0 - ROUND)..=scale(upper, 1.0 + ROUND);
    let usable = |trial: &&Trial| {
        trial.faults.is_empty() && trial.lasts >= least && range.contains(&trial.rate)
    };
    let point = |trial: &Trial| {
        let pressure = trial.pressure.filter(|pressure| *pressure > 0.0)?;
        Some(Point { rate: trial.rate, pressure, weight: trial.lasts.as_secs_f64() })
    };
    search.trials.iter().filter(usable).filter_map(point).collect()
}

fn bound(search: &Search, rate: Rate, met: bool) -> Bound {
    let (good, bad) = search.loads.times(rate);
    let decided =
        |trial: &&Trial| trial.rate == rate && trial.met == met && trial.faults.is_empty();
    let last = search.trials.iter().rev().find(decided);
    let criteria = last.map_or_else(Vec::new, |trial| trial.criteria.clone());
    Bound { rate, met: good, breached: bad, criteria }
}

/// The longest valid trial of each rate, in the order of the rates.
fn curve(trials: &[Trial]) -> Vec<(Rate, Latency)> {
    let mut longest: BTreeMap<Rate, &Trial> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.faults.is_empty() && trial.response.count > 0) {
        let best = longest.entry(trial.rate).or_insert(trial);
        if trial.lasts > best.lasts {
            *best = trial;
        }
    }
    longest.into_iter().map(|(rate, trial)| (rate, trial.response.clone())).collect()
}

fn notes(search: &Search, verdict: Verdict) -> Vec<String> {
    let mut notes = search.notes.clone();
    let suspect: Vec<_> = search.ladder.rungs.iter().filter(|rung| rung.suspect).collect();
    for rung in suspect {
        let error = 100.0 * rung.little_error;
        let users = rung.users;
        notes.push(format!("{users} users: Little's law is off by {error:.0} %, not in the fit"));
    }
    for rate in search.loads.inverted(&search.goals[0]) {
        notes.push(format!("{rate} was accepted although a lower load was refused"));
    }
    notes.extend(invalid(search));
    let confirming = search.trials.iter().filter(|it| it.purpose == Purpose::Confirmation);
    let breached = confirming.filter(|trial| trial.faults.is_empty() && !trial.met).count();
    if breached > 0 && verdict == Verdict::Found {
        notes.push(format!("{breached} confirming runs at higher loads breached the objective"));
    }
    notes.extend(few(search));
    notes
}

/// How many runs the generator spoiled, and by what the last of them.
fn invalid(search: &Search) -> Option<String> {
    let runs = || search.trials.iter().filter(|trial| !trial.faults.is_empty());
    let (last, count) = (runs().next_back()?, runs().count());
    let Fault { what, advice } = last.faults.first()?;
    let rate = last.rate;
    Some(format!("invalid trials: {count}, the last at {rate}, where {what}; {advice}"))
}

/// A word where trials were so small that a high percentile is no more than the slowest request.
fn few(search: &Search) -> Option<String> {
    let sizes = search.trials.iter().map(|trial| trial.response.count);
    let most = sizes.max().filter(|most| *most < FEW)?;
    Some(format!(
        "no trial held more than {most} requests: a p99 of so few is the slowest of them; make \
         trials longer (--trial)"
    ))
}

/// How far above the load line a point may lie and still belong to the bend of the curve: further
/// up the time measured is the length of the trial.
const NEAR: f64 = 1.1;

/// Trials within this share of the bracket count for the interval.
const ROUND: f64 = 0.1;

/// The largest of 299 is at or above the 99th percentile with 95 % confidence.
const FEW: u64 = 299;
