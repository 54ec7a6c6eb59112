//! What a search has found, as a record.

use std::collections::BTreeMap;

use loadline_core::units::{Rate, Ratio};
use loadline_measure::record::{
    Bound, CapacityRecord, Fault, Interval, IntervalMethod, Latency, LoadLine, Series, TestedRate,
    Trial, Verdict,
};

use super::{
    Search, knee,
    rates::{self, scale},
    runs::{Run, pressure},
    scalability,
};

/// The record of `search` as it stands, ended by `verdict`.
pub(super) fn record(search: &Search, verdict: Verdict) -> CapacityRecord {
    let config = &search.config;
    let bounds = search.bounds();
    let confirmed = (verdict == Verdict::Found).then(|| search.trials.last()).flatten();
    let found = confirmed.map(|trial| load_line(search, trial.rate));
    let curve = curve(&search.trials);
    let line = found.as_ref().map(|line| line.rate);
    let none = verdict == Verdict::NoLoadMeets;
    let refused = if none {
        lowest_refused(search)
    } else {
        let upper = bounds.upper.map(|upper| upper.max(line.unwrap_or(upper)));
        upper.and_then(|upper| nearest(search, false, |rate| rate >= upper))
    };
    // Of trials at loads none of which meets it some hold by luck.
    let lower = bounds.lower.filter(|_| !none);
    let near = line.map_or(Rate::milli_per_sec(u64::MAX), |line| scale(line, NEAR));
    let bend: Vec<_> = curve.iter().filter(|(rate, _)| *rate <= near).cloned().collect();
    CapacityRecord {
        target: config.target.clone(),
        started_unix_ms: 0,
        objective: config.objective.clone(),
        arrivals: config.arrivals,
        seed: config.seed,
        verdict,
        accepted: lower.and_then(|lower| nearest(search, true, |rate| rate <= lower)),
        refused,
        tried: tried(search),
        cycle: search.cycle,
        rungs: search.ladder.rungs.clone(),
        scalability: scalability::fit(search.ladder.free()),
        trials: search.trials.clone(),
        knee: line.and_then(|_| knee::find(&bend)),
        found,
        curve: Series { name: config.objective.clone(), points: curve },
        notes: notes(search),
    }
}

/// The rates of long trials: how often each passed, and what all trials at it spent together.
fn tried(search: &Search) -> Vec<TestedRate> {
    let long = search.long_trial() / 2;
    let mut rates: BTreeMap<Rate, Vec<&Trial>> = BTreeMap::new();
    for trial in search.trials.iter().filter(|it| it.faults.is_empty() && it.lasts >= long) {
        rates.entry(trial.rate).or_default().push(trial);
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let of = |(rate, trials): (Rate, Vec<&Trial>)| {
        let same = search.runs.iter().filter(|run| run.rate == rate && run.lasts >= long);
        let spent = pressure(same);
        TestedRate {
            rate,
            trials: count(trials.len()),
            passed: count(trials.iter().filter(|trial| trial.met).count()),
            lasted: trials.iter().map(|trial| trial.lasts).sum(),
            spent_share: spent.is_finite().then_some(spent),
        }
    };
    rates.into_iter().map(of).collect()
}

/// The line through all long trials, which a confirmed load lies a little below: where trials are
/// too few to say where they cross, not more above it than the search is to find.
fn load_line(search: &Search, confirmed: Rate) -> LoadLine {
    let headroom = search.config.headroom.min(Ratio::ONE).as_f64();
    let line = search.crossing(&search.long_runs()).map_or(confirmed, |line| line.at);
    let highest = scale(confirmed, 1.0 + FAR * search.precision());
    let rate = rates::nearest(line, search.precision() / 8.0).min(highest).max(confirmed);
    LoadLine {
        rate,
        confirmed,
        interval: interval(search, rate),
        headroom_share: headroom,
        max_rate: scale(rate, 1.0 - headroom),
    }
}

/// The interval of the regression, with the bounds and the confirmed load in it, and the precision
/// more to either side: what a power of the rate misses of the true curve, and bursts that few
/// trials have not seen. Where there is none, the bounds.
fn interval(search: &Search, rate: Rate) -> Interval {
    let (long, bounds, more) = (search.long_runs(), search.bounds(), search.precision());
    let lower = bounds.lower.map_or(rate, |lower| lower.min(rate));
    let upper = bounds.upper.map_or(rate, |upper| upper.max(rate));
    let (ends, method, trials) = match search.crossing(&long) {
        Some(line) => {
            let wider = if search.is_known() { 1.0 } else { UNKNOWN };
            let end = |to: Rate| {
                scale(line.at, (to.as_per_sec_f64() / line.at.as_per_sec_f64()).powf(wider))
            };
            let ends = (end(line.low).min(lower), end(line.high).max(upper));
            (ends, IntervalMethod::Regression95, line.runs)
        }
        None => ((lower, upper), IntervalMethod::Bracket, long.len()),
    };
    Interval {
        low: scale(ends.0, 1.0 - more),
        high: scale(ends.1, 1.0 + more),
        method,
        trials: u32::try_from(trials).unwrap_or(u32::MAX),
    }
}

/// The rate nearest to the line on one side, among those whose own trials agree: neighbours count
/// together in a bound, and one of them alone may disagree.
fn nearest(search: &Search, met: bool, beyond: impl Fn(Rate) -> bool) -> Option<Bound> {
    let mut spent: BTreeMap<Rate, Vec<&Run>> = BTreeMap::new();
    for run in search.runs.iter().filter(|run| beyond(run.rate)) {
        spent.entry(run.rate).or_default().push(run);
    }
    let says = |(_, runs): &(&Rate, &Vec<&Run>)| (pressure(runs.iter().copied()) <= 1.0) == met;
    let found = if met { spent.iter().rfind(says) } else { spent.iter().find(says) };
    found.map(|(rate, _)| bound(search, *rate, met))
}

/// The lowest rate of long trials that breached the objective, or of any where none were long.
fn lowest_refused(search: &Search) -> Option<Bound> {
    let long: Vec<Rate> = search.long_runs().iter().map(|run| run.rate).collect();
    nearest(search, false, |rate| long.contains(&rate)).or_else(|| nearest(search, false, |_| true))
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
    let answered = search.ladder.free().iter().filter(|rung| rung.response.count > 0);
    for rung in answered.filter(|rung| rung.suspect) {
        let error = 100.0 * rung.little_error;
        let off = format!("Little's law is off by {error:.0} %, not in the fit");
        notes.push(format!("{}: {off}", counted(rung.users)));
    }
    if let Some(users) = search.ladder.held() {
        let (users, highest) = (counted(users), search.config.highest);
        let held = format!("all that --max-rate allows, {highest}; the ladder ends there");
        notes.push(format!("{users}: {held}"));
    }
    notes.extend(slow_cycle(search));
    notes.extend(invalid(search));
    notes.extend(few(search));
    notes
}

/// So many users, in words.
fn counted(users: u32) -> String {
    let plural = if users == 1 { "" } else { "s" };
    format!("{users} user{plural}")
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
    let most = sizes.max().filter(|most| (1..FEW).contains(most))?;
    Some(format!(
        "no trial held more than {most} requests: a p99 of so few is the slowest of them; make \
         trials longer (--trial)"
    ))
}

/// An error that could not be made small enough is less sure itself: the interval is so much wider.
const UNKNOWN: f64 = 2.0;

/// Trials over fewer cycles are too short for them.
const ENOUGH: f64 = 3.0;

/// A load line is at most so many precisions above what was confirmed.
const FAR: f64 = 2.0;

/// How far above the load line a point may lie and still belong to the bend of the curve: further
/// up the time measured is the length of the trial.
const NEAR: f64 = 1.1;

/// The largest of 299 is at or above the 99th percentile with 95 % confidence.
const FEW: u64 = 299;
