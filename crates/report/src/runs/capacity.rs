//! A capacity search: the curve with the load line, the trials that found it, and the ladder.

use loadline_core::time::Duration;
use loadline_measure::record::{
    Bound, CapacityRecord, IntervalMethod, Latency, LoadLine, Purpose, Rung, Scalability, Trial,
    Verdict,
};

use super::{part, picture, text};
use crate::{
    figures::{digits, millis, per_second, utc},
    page::{Block, Section},
    plot::{
        PlotError, Tone,
        lines::{Along, Chart, Kind, Line, Lines},
        panel::Stroke,
    },
    table::{Align, Cell, Table},
};

pub(super) fn section(name: &str, record: &CapacityRecord) -> Result<Section, PlotError> {
    let mut blocks = words(record);
    blocks.push(picture(curve(record).draw()?));
    if !record.tried.is_empty() {
        blocks.push(Block::Table(tried(record)));
    }
    blocks.push(Block::Details(trials(&record.trials)));
    if !record.rungs.is_empty() {
        blocks.push(picture(ladder(record).draw()?));
        blocks.push(Block::Details(rungs(&record.rungs)));
    }
    Ok(part(format!("Capacity {name}"), blocks))
}

fn words(record: &CapacityRecord) -> Vec<Block> {
    let ended = match record.verdict {
        Verdict::Found => "The load line was found and confirmed.",
        Verdict::AtLeast => "The highest load that was tried still meets the objective.",
        Verdict::NoLoadMeets => "Not even the lowest load meets the objective.",
        Verdict::Unconfirmed => "The objective held over the confirming runs of no load.",
        Verdict::OutOfTime => "The time was over before a load was confirmed.",
        Verdict::GeneratorInvalid => "The generator ran out before the service did.",
        Verdict::Interrupted => "The search was interrupted.",
    };
    let began = match record.started_unix_ms {
        0 => String::new(),
        at => format!(", {}", utc(at)),
    };
    let asked = format!("{} under {}{began}. {ended}", record.target, record.objective);
    let mut blocks = vec![match record.verdict {
        Verdict::Found | Verdict::AtLeast => text(asked),
        _ => Block::Warning(asked),
    }];
    blocks.extend(record.found.as_ref().map(|line| text(load_line(line))));
    blocks.extend(record.refused.as_ref().and_then(refused).map(text));
    blocks.extend(record.notes.iter().map(|note| text(&**note)));
    blocks
}

fn load_line(line: &LoadLine) -> String {
    let interval = &line.interval;
    let method = match interval.method {
        IntervalMethod::Regression95 => "95 % interval",
        IntervalMethod::Bracket => "between the highest accepted and the lowest refused load:",
    };
    format!(
        "Load line {}, {method} {} to {}; {} with {:.0} % headroom.",
        per_second(line.rate),
        per_second(interval.low),
        per_second(interval.high),
        per_second(line.max_rate),
        line.headroom_share * 100.0,
    )
}

fn refused(bound: &Bound) -> Option<String> {
    let breached = bound.criteria.iter().filter(|criterion| !criterion.met);
    let told: Vec<_> = breached.map(|one| format!("{} ({})", one.text, one.measured)).collect();
    let rate = per_second(bound.rate);
    let told = told.join(", ");
    let why = || format!("Lowest refused load: {rate}, since it breached {told}.");
    (!told.is_empty()).then(why)
}

fn curve(record: &CapacityRecord) -> Lines {
    let drawn = |response: &Latency, of: fn(&Latency) -> Duration| match response.count {
        0 => f64::NAN,
        _ => of(response).as_millis_f64(),
    };
    let points = |of: fn(&Latency) -> Duration| -> Vec<(f64, f64)> {
        let longest = |rate| {
            let sound = record.trials.iter().filter(|trial| trial.faults.is_empty());
            sound.filter(|trial| trial.rate == rate).max_by_key(|trial| trial.lasts)
        };
        let mut rates: Vec<_> = record.trials.iter().map(|trial| trial.rate).collect();
        rates.sort();
        rates.dedup();
        let trials = rates.into_iter().filter_map(longest);
        trials.map(|it| (it.rate.as_per_sec_f64(), drawn(&it.response, of))).collect()
    };
    let line = |name: &str, tone, stroke, of| Line {
        name: name.into(),
        tone,
        stroke,
        points: points(of),
        dots: true,
    };
    let lines = vec![
        line("p99", Tone::Run(3), Stroke::Thin, |response| response.p99),
        line("mean", Tone::Run(0), Stroke::Thick, |response| response.mean),
    ];
    Lines {
        title: format!("Response time against rate: {}", record.target),
        description: "The trials stand in the table below.".into(),
        x_title: "requests per second, planned".into(),
        x: Along::Even,
        charts: vec![Chart { title: "response time, ms".into(), lines, kind: Kind::Even }],
        marks: marks(record),
    }
}

/// The load line, what stays below it, and the nearest load that was refused.
fn marks(record: &CapacityRecord) -> Vec<(f64, String)> {
    let found = record.found.as_ref();
    let marks = [
        found.map(|line| (line.rate, format!("load line {}", per_second(line.rate)))),
        record
            .refused
            .as_ref()
            .map(|bound| (bound.rate, format!("refused {}", per_second(bound.rate)))),
        found.map(|line| (line.max_rate, format!("max_rate {}", per_second(line.max_rate)))),
    ];
    marks.into_iter().flatten().map(|(rate, text)| (rate.as_per_sec_f64(), text)).collect()
}

/// How often each rate passed.
fn tried(record: &CapacityRecord) -> Table {
    let headings =
        ["rate", "long trials", "met the objective", "lasted", "spent of what it allows"];
    let mut table = Table::new("Long trials, counted together at each rate", &headings);
    for tried in &record.tried {
        let spent = tried.spent_share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0));
        let held = tried.spent_share.is_some_and(|share| share <= 1.0);
        table.push([
            per_second(tried.rate).into(),
            tried.trials.to_string().into(),
            tried.passed.to_string().into(),
            format!("{} s", digits(tried.lasted.as_secs_f64())).into(),
            if held { Cell::Good(spent) } else { Cell::Bad(spent) },
        ]);
    }
    table
}

fn trials(trials: &[Trial]) -> Table {
    let headings = ["rate", "for", "lasted", "achieved", "mean", "p99", "objective", "valid"];
    let mut table = Table::new("Trials, in the order they were made", &headings);
    table.columns[1].align = Align::Left;
    for trial in trials {
        let purpose = match trial.purpose {
            Purpose::Bracket => "bracket",
            Purpose::Curve => "curve",
            Purpose::Bisection => "bisection",
            Purpose::Confirmation => "confirmation",
        };
        let valid = trial.faults.is_empty();
        table.push([
            per_second(trial.rate).into(),
            purpose.into(),
            format!("{} s", digits(trial.lasts.as_secs_f64())).into(),
            per_second(trial.achieved).into(),
            time(&trial.response, trial.response.mean),
            time(&trial.response, trial.response.p99),
            if trial.met { Cell::Good("met".into()) } else { Cell::Bad("breached".into()) },
            if valid { "yes".into() } else { Cell::Bad("INVALID".into()) },
        ]);
    }
    table
}

/// One of these times; there is none where nothing was answered.
pub(super) fn time(of: &Latency, time: Duration) -> Cell {
    if of.count == 0 { "-".into() } else { millis(time).into() }
}

fn rungs(rungs: &[Rung]) -> Table {
    let headings = ["users", "throughput", "mean", "p99", "off Little's law", "objective"];
    let mut table = Table::new("The closed ladder", &headings);
    for rung in rungs {
        let off = format!("{} %", digits(rung.little_error * 100.0));
        table.push([
            rung.users.to_string().into(),
            per_second(rung.throughput).into(),
            time(&rung.response, rung.response.mean),
            time(&rung.response, rung.response.p99),
            if rung.suspect { Cell::Bad(off) } else { off.into() },
            if rung.met { Cell::Good("met".into()) } else { Cell::Bad("breached".into()) },
        ]);
    }
    table
}

/// Throughput against users, with the scalability law through it.
fn ladder(record: &CapacityRecord) -> Lines {
    let point = |rung: &Rung| (f64::from(rung.users), rung.throughput.as_per_sec_f64());
    let measured: Vec<_> = record.rungs.iter().map(point).collect();
    let most = measured.iter().map(|point| point.0).fold(1.0, f64::max);
    let described = |(users, rate): &(f64, f64)| format!("{}/s with {users}", digits(*rate));
    let description = measured.iter().map(described).collect::<Vec<_>>().join(", ");
    let line = |name: &str, tone, points, dots| Line {
        name: name.into(),
        tone,
        stroke: Stroke::Thin,
        points,
        dots,
    };
    let mut lines = vec![line("measured", Tone::Cool, measured, true)];
    if let Some(law) = &record.scalability {
        let points =
            (0..=STEPS).map(|step| 1.0 + (most - 1.0) * f64::from(step) / f64::from(STEPS));
        let points = points.map(|users| (users, throughput(law, users))).collect();
        lines.push(line("scalability law", Tone::Warm, points, false));
    }
    Lines {
        title: "Throughput against users".into(),
        description: format!("Throughput: {description} users."),
        x_title: "users at a time".into(),
        x: Along::Even,
        charts: vec![Chart { title: "requests/s".into(), lines, kind: Kind::Even }],
        marks: Vec::new(),
    }
}

/// X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), Gunther 1993.
fn throughput(law: &Scalability, users: f64) -> f64 {
    let Scalability { gamma_per_s, alpha, beta, .. } = law;
    gamma_per_s * users / (1.0 + alpha * (users - 1.0) + beta * users * (users - 1.0))
}

/// Points of the law's curve.
const STEPS: u32 = 60;

#[cfg(test)]
mod tests {
    use loadline_core::units::Rate;
    use loadline_measure::record::{Arrivals, Criterion, Series};

    use super::*;

    fn trial(rate: u64, answered: u64) -> Trial {
        let time = Duration::from_millis(if answered > 0 { 5 } else { 0 });
        Trial {
            purpose: Purpose::Bracket,
            rate: Rate::per_sec(rate),
            lasts: Duration::from_secs(1),
            seed: 1,
            achieved: Rate::per_sec(answered),
            response: Latency { count: answered, mean: time, p99: time, ..Latency::default() },
            met: answered > 0,
            pressure: None,
            criteria: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn search(trials: Vec<Trial>) -> CapacityRecord {
        CapacityRecord {
            target: "http://a.example/".into(),
            started_unix_ms: 0,
            objective: "p99<300ms".into(),
            arrivals: Arrivals::Poisson,
            seed: 1,
            verdict: Verdict::NoLoadMeets,
            found: None,
            accepted: None,
            refused: None,
            tried: Vec::new(),
            cycle: None,
            rungs: Vec::new(),
            scalability: None,
            trials,
            knee: None,
            curve: Series { name: String::new(), points: Vec::new() },
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_load_at_which_nothing_was_answered_has_no_point_on_the_curve() {
        let curve = curve(&search(vec![trial(10, 10), trial(20, 0)]));
        for line in &curve.charts[0].lines {
            assert_eq!(line.points[0], (10.0, 5.0), "{}", line.name);
            assert!(line.points[1].1.is_nan(), "{}: {:?}", line.name, line.points);
        }
    }

    /// There may be no load line, and loads in between that met the objective.
    #[test]
    fn the_lowest_refused_load_is_told_as_that_and_not_as_just_above_the_load_line() {
        let criterion = Criterion {
            text: "p99<300ms".into(),
            measured: "310 ms".into(),
            met: false,
            ..Criterion::default()
        };
        let bound = Bound {
            rate: Rate::per_sec(873),
            met: Duration::ZERO,
            breached: Duration::from_secs(8),
            criteria: vec![criterion],
        };
        let told = refused(&bound).unwrap();
        assert_eq!(told, "Lowest refused load: 873/s, since it breached p99<300ms (310 ms).");
    }
}
