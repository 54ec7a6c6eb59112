//! What must be true of the figures: one verdict for each promise, told of the row that comes
//! nearest to breaking it.

use loadline_measure::record::StudyVerdict;

use super::{Measured, Regions, Row, allowed, simulate::Arrivals};

pub(super) fn all(measured: &Measured) -> Vec<StudyVerdict> {
    let mut verdicts = Vec::new();
    for arrivals in Arrivals::ALL {
        let rows = || measured.rows.iter().filter(move |row| row.arrivals == arrivals);
        verdicts.push(used(arrivals, rows().filter(|row| row.demand >= JUDGED_FROM)));
        verdicts.push(windows(arrivals, rows()));
        verdicts.push(no_slower(arrivals, "average", rows(), |run| run.mean));
        verdicts.push(no_slower(arrivals, "p99", rows(), |run| run.p99));
    }
    verdicts.extend(measured.regions.iter().flat_map(regions));
    verdicts
}

/// Whether a row keeps all promises that are made for it.
pub(super) fn holds(row: &Row) -> bool {
    let used = row.demand < JUDGED_FROM || row.now.used >= USED;
    let fast = row.now.mean <= row.before.mean.scale(NO_SLOWER)
        && row.now.p99 <= row.before.p99.scale(NO_SLOWER);
    used && fast && row.now.burst <= allowed(row.budget) + ROUNDING
}

fn name(arrivals: Arrivals, what: &str, worst: Option<&Row>) -> String {
    let at = worst.map(|row| format!(", {} at {}", row.budget, times(row.demand)));
    format!("{}: {what}{}", arrivals.name(), at.unwrap_or_default())
}

/// `1.1 times`.
pub(super) fn times(hundredths: u64) -> String {
    format!("{} times", hundredths as f64 / 100.0)
}

fn used<'a>(arrivals: Arrivals, rows: impl Iterator<Item = &'a Row>) -> StudyVerdict {
    let worst = rows.min_by(|a, b| a.now.used.total_cmp(&b.now.used));
    let least = worst.map_or(0.0, |row| row.now.used);
    let measured = format!("{:.1} %", least * 100.0);
    let target = format!("at least {:.0} % of every budget", USED * 100.0);
    StudyVerdict::new(name(arrivals, "least used", worst), measured, target, least >= USED)
}

fn windows<'a>(arrivals: Arrivals, rows: impl Iterator<Item = &'a Row>) -> StudyVerdict {
    let part = |row: &Row| row.now.burst / allowed(row.budget);
    let worst = rows.max_by(|a, b| part(a).total_cmp(&part(b)));
    let (burst, most) = worst.map_or((0.0, 0.0), |row| (row.now.burst, allowed(row.budget)));
    let pass = worst.is_some() && burst <= most + ROUNDING;
    let target = format!("at most {most:.0} beyond the rate in any window");
    StudyVerdict::new(name(arrivals, "worst window", worst), format!("{burst:.1}"), target, pass)
}

fn no_slower<'a>(
    arrivals: Arrivals,
    what: &str,
    rows: impl Iterator<Item = &'a Row>,
    time: fn(&super::Run) -> super::Duration,
) -> StudyVerdict {
    let ratio = |row: &Row| time(&row.now).as_secs_f64() / time(&row.before).as_secs_f64();
    let worst = rows.max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let most = worst.map_or(f64::INFINITY, ratio);
    let target = format!("at most {NO_SLOWER} of what it was");
    let what = format!("{what} to what it was");
    StudyVerdict::new(name(arrivals, &what, worst), format!("{most:.3}"), target, most <= NO_SLOWER)
}

fn regions(regions: &Regions) -> Vec<StudyVerdict> {
    let Regions { arrivals, per_sec, now, .. } = regions;
    // What near leaves over, less its first burst, is all that the second can have.
    let left_over = (per_sec * super::REGIONS_FOR).saturating_sub(280);
    let of = [280, left_over.min(520)];
    let targets = [270, (left_over - FIRST_BURST).min(505)];
    let verdict = |(n, at_least): (usize, u64)| {
        let least = now.iter().map(|given| given[n]).min().unwrap_or(0);
        let which = ["near", "the second"][n];
        let runs = now.len();
        let name = format!(
            "three regions, {} {per_sec}/s: {which} of {runs} runs, least",
            arrivals.name()
        );
        let target = format!("at least {at_least} of {}", of[n]);
        StudyVerdict::new(name, least.to_string(), target, least >= at_least)
    };
    (0..).zip(targets).map(verdict).collect()
}

/// The part of a budget that is used where a tenth more is wanted.
const USED: f64 = 0.98;
const JUDGED_FROM: u64 = 110;
/// Times within half a percent are the same.
const NO_SLOWER: f64 = 1.005;
/// Instants are whole nanoseconds.
const ROUNDING: f64 = 1e-3;
/// What near takes beyond its rate when it starts.
const FIRST_BURST: u64 = 12;
