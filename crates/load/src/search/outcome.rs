//! What a search has found, as a record.

use std::collections::BTreeMap;

use loadline_core::units::{Rate, Ratio};
use loadline_measure::record::{
    Bound, CapacityRecord, Fault, Interval, IntervalMethod, Latency, LoadLine, Series, TestedRate,
    Trial, Verdict,
};

use super::{Search, knee, rates::scale, runs, runs::Bounds, scalability};

/// The record of `search` as it stands, ended by `verdict`.
pub(super) fn record(search: &Search, verdict: Verdict) -> CapacityRecord {
    let config = &search.config;
    let bounds = search.bounds();
    let found = (verdict == Verdict::Found).then(|| search.trials.last()).flatten();
    let curve = curve(&search.trials);
    let near = found.map_or(Rate::milli_per_sec(u64::MAX), |line| scale(line.rate, NEAR));
    let bend: Vec<_> = curve.iter().filter(|(rate, _)| *rate <= near).cloned().collect();
    CapacityRecord {
        target: config.target.clone(),
        started_unix_ms: 0,
        objective: config.objective.clone(),
        arrivals: config.arrivals,
        seed: config.seed,
        verdict,
        found: found.map(|confirmed| load_line(search, confirmed.rate)),
        accepted: bounds.lower.map(|rate| bound(search, rate, true)),
        refused: bounds.upper.map(|rate| bound(search, rate, false)),
        tried: tried(search),
        cycle: search.cycle,
        rungs: search.ladder.rungs.clone(),
        scalability: scalability::fit(&search.ladder.rungs),
        trials: search.trials.clone(),
        knee: found.and_then(|_| knee::find(&bend)),
        curve: Series { name: config.objective.clone(), points: curve },
        notes: notes(search),
    }
}

/// How often each rate passed of those that long trials were made at, and what all trials at it
/// spent together.
fn tried(search: &Search) -> Vec<TestedRate> {
    let long = search.config.last_trial / 2;
    let mut rates: BTreeMap<Rate, Vec<&Trial>> = BTreeMap::new();
    for trial in search.trials.iter().filter(|it| it.faults.is_empty() && it.lasts >= long) {
        rates.entry(trial.rate).or_default().push(trial);
    }
    let runs = search.counted().long(long);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let of = |(rate, trials): (Rate, Vec<&Trial>)| {
        let same = runs.iter().copied().filter(|run| run.rate == rate);
        let pressure = runs::pressure(same);
        TestedRate {
            rate,
            trials: count(trials.len()),
            passed: count(trials.iter().filter(|trial| trial.met).count()),
            lasted: trials.iter().map(|trial| trial.lasts).sum(),
            spent_share: pressure.is_finite().then_some(pressure),
        }
    };
    rates.into_iter().map(of).collect()
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

/// The interval of the regression, or where there is none that of all runs near the bounds, each if
/// spending grew by the least power there is; with the bounds and the confirmed load in it, and a
/// width more to either side: what a power of the rate misses of the true curve.
fn interval(search: &Search, rate: Rate) -> Interval {
    let Bounds { lower, upper } = search.bounds();
    let line = search.line();
    if std::env::var("DBG").is_ok() { eprintln!("{line:?}"); }
    let (low, high) = line.map_or_else(
        || (lower.unwrap_or(rate), upper.unwrap_or(rate)),
        |line| (line.low, line.high),
    );
    let method = match line {
        Some(_) => IntervalMethod::Regression95,
        None => IntervalMethod::Bracket,
    };
    let trials = line.map_or(search.long_runs().len(), |line| line.runs);
    let curved = search.width() * CURVED;
    Interval {
        low: scale(low.min(rate), 1.0 - curved),
        high: scale(high.max(rate), 1.0 + curved),
        method,
        trials: u32::try_from(trials).unwrap_or(u32::MAX),
    }
}

fn bound(search: &Search, rate: Rate, met: bool) -> Bound {
    let at = || search.trials.iter().filter(|trial| trial.rate == rate && trial.faults.is_empty());
    let lasted = |met| at().filter(|trial| trial.met == met).map(|trial| trial.lasts).sum();
    let last = at().rev().find(|trial| trial.met == met);
    let criteria = last.map_or_else(Vec::new, |trial| trial.criteria.clone());
    Bound { rate, met: lasted(true), breached: lasted(false), criteria }
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

fn notes(search: &Search) -> Vec<String> {
    let mut notes = search.notes.clone();
    let suspect: Vec<_> = search.ladder.rungs.iter().filter(|rung| rung.suspect).collect();
    for rung in suspect {
        let error = 100.0 * rung.little_error;
        let users = rung.users;
        notes.push(format!("{users} users: Little's law is off by {error:.0} %, not in the fit"));
    }
    notes.extend(slow_cycle(search));
    notes.extend(invalid(search));
    notes.extend(few(search));
    notes
}

/// What cycle the trials were made for, or were too short for.
fn slow_cycle(search: &Search) -> Option<String> {
    let (cycle, trial) = search.cycle()?;
    let (cycle, trial) = (cycle.as_secs_f64(), trial.as_secs_f64());
    if trial <= search.config.last_trial.as_secs_f64() && cycle * ENOUGH <= trial {
        return None;
    }
    let more = if cycle * ENOUGH > trial { "; give it more time (--within)" } else { "" };
    Some(format!(
        "late answers come in bursts about {cycle:.1} s apart: trials lasted {trial:.0} s, over \
         {:.1} of them{more}",
        trial / cycle
    ))
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

/// Trials over fewer cycles are too short for them.
const ENOUGH: f64 = 3.0;

/// How far above the load line a point may lie and still belong to the bend of the curve: further
/// up the time measured is the length of the trial.
const NEAR: f64 = 1.1;

/// What a power of the rate misses of the true curve, in widths.
const CURVED: f64 = 0.125;

/// The largest of 299 is at or above the 99th percentile with 95 % confidence.
const FEW: u64 = 299;
