//! What a search found, on a page that fits a terminal.

use std::fmt::Write as _;

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::{
    Arrivals, Bound, CapacityRecord, Criterion, IntervalMethod, LoadLine, Rung, Scalability,
    TestedRate, Verdict,
};
use loadline_report::{Cell, Table, digits, millis, per_second};

use super::plot;

/// The page, with its line ends.
pub(super) fn write(record: &CapacityRecord) -> String {
    let arrivals = match record.arrivals {
        Arrivals::Constant => "arrivals at even distances".to_owned(),
        Arrivals::Poisson => format!("Poisson arrivals, seed {}", record.seed),
        Arrivals::Uniform => format!("uniform arrivals, seed {}", record.seed),
        Arrivals::Listed => "listed arrivals".to_owned(),
    };
    let mut page = format!(
        "capacity of {}\nobjective {}; open loop, {arrivals}\n\n",
        record.target, record.objective
    );
    for (label, text) in lines(record) {
        page += &wrapped(label, INDENT, &text);
    }
    if !record.tried.is_empty() {
        let _ = write!(page, "\n{}", tried(record));
    }
    let _ = write!(page, "\n{}", ladder(&record.rungs));
    let line = record.found.as_ref().map(|line| line.rate);
    let curve = plot::draw(&record.curve.points, line);
    if !curve.is_empty() {
        let load_line = if line.is_some() { ", | the load line" } else { "" };
        let _ = write!(page, "\nResponse time against rate: o mean, * p99{load_line}\n{curve}");
    }
    if let Some(found) = &record.found {
        let share = 100.0 * found.headroom_share;
        let _ =
            write!(page, "\nTo keep {share:.0} % free, write into the group\n  {}\n", paste(found));
    }
    if !record.notes.is_empty() {
        page += "\n";
    }
    for note in &record.notes {
        page += &wrapped("note:", 6, note);
    }
    page
}

/// A label and its text in lines that fit the page, every line of the text set in by `indent`.
fn wrapped(label: &str, indent: usize, text: &str) -> String {
    let mut lines = vec![format!("{label:<indent$}")];
    let mut empty = true;
    for word in text.split(' ') {
        let width = lines.last().map_or(0, |line| line.chars().count());
        if !empty && width + 1 + word.chars().count() > WIDTH {
            lines.push(" ".repeat(indent));
            empty = true;
        }
        if let Some(line) = lines.last_mut() {
            let space = if empty { "" } else { " " };
            *line += space;
            *line += word;
        }
        empty = false;
    }
    lines.join("\n") + "\n"
}

/// The line of a configuration.
fn paste(found: &LoadLine) -> String {
    format!("max_rate = \"{}\"", found.max_rate)
}

fn lines(record: &CapacityRecord) -> Vec<(&'static str, String)> {
    let mut lines = vec![("load line", verdict(record))];
    if let Some(found) = &record.found {
        lines.push(("", interval(found)));
    }
    if let Some(at) = record.found.as_ref().and_then(|line| at_rate(record, line.confirmed)) {
        let share = at.spent_share.map_or(String::new(), |share| {
            format!("; together they spent {:.0} % of what it allows", 100.0 * share)
        });
        let (passed, trials) = (at.passed, at.trials);
        let (lasted, rate) = (seconds(at.lasted), per_second(at.rate));
        let runs =
            format!("{passed} of {trials} long trials at {rate} met it, {lasted} s in all{share}");
        lines.push(("confirmed", runs));
    }
    if let Some(bound) = record.accepted.as_ref().filter(|_| record.found.is_none()) {
        lines.push(("accepted", told(bound)));
    }
    if let Some(bound) = &record.refused {
        lines.push(("refused", told(bound)));
    }
    if let Some(knee) = &record.knee {
        let (from, to) = (per_second(knee.from), per_second(knee.to));
        let rate = per_second(knee.rate);
        lines.push(("knee", format!("{rate}, a hint: of the range from {from} to {to}")));
    }
    if let Some(law) = &record.scalability {
        lines.push(("scalability", scalability(law)));
        lines.push(("", peak(law)));
    }
    lines
}

fn verdict(record: &CapacityRecord) -> String {
    let rate = |bound: &Option<Bound>| {
        bound.as_ref().map_or("nothing".to_owned(), |bound| per_second(bound.rate))
    };
    match (record.verdict, &record.found) {
        (_, Some(found)) => per_second(found.rate),
        (Verdict::AtLeast, None) => {
            format!("at least {}, the highest rate that was allowed", rate(&record.accepted))
        }
        (Verdict::NoLoadMeets, None) => {
            let alone = record.rungs.first().filter(|rung| rung.users == 1 && !rung.met);
            let too = alone.map_or("", |_| "; one user alone breaches it, too");
            format!("none: not even {} meets the objective{too}", rate(&record.refused))
        }
        (Verdict::GeneratorInvalid, None) => {
            format!("unknown: the generator ran out first; accepted was {}", rate(&record.accepted))
        }
        (Verdict::Interrupted, None) => {
            format!("unknown: interrupted; accepted was {}", rate(&record.accepted))
        }
        (Verdict::OutOfTime, None) => {
            format!("not confirmed: the time was over; accepted was {}", rate(&record.accepted))
        }
        (Verdict::Unconfirmed | Verdict::Found, None) => {
            "not confirmed: the service does not keep to one line".to_owned()
        }
    }
}

fn interval(found: &LoadLine) -> String {
    let interval = &found.interval;
    let (low, high) = (per_second(interval.low), per_second(interval.high));
    let trials = interval.trials;
    match interval.method {
        IntervalMethod::Regression95 => format!(
            "{low} to {high} with 95 % confidence, by regression over {trials} trials near it"
        ),
        IntervalMethod::Bracket => {
            format!("{low} to {high}, the bracket and more; {trials} trials show no trend")
        }
    }
}

fn told(bound: &Bound) -> String {
    format!(
        "{}: {} ({} of {} s breached)",
        per_second(bound.rate),
        criteria(&bound.criteria),
        seconds(bound.breached),
        seconds(bound.met + bound.breached),
    )
}

/// Whole seconds; tenths below ten of them, for trials may last less than one.
fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let decimals = usize::from(seconds > 0.0 && seconds < 9.95);
    format!("{seconds:.decimals$}")
}

fn criteria(criteria: &[Criterion]) -> String {
    let one = |criterion: &Criterion| {
        let measured = criterion.measured.split(" (").next().unwrap_or_default();
        format!("{} is {measured}", criterion.text)
    };
    criteria.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn scalability(law: &Scalability) -> String {
    format!(
        "one user {}/s, contention {:.1} %, coherence {:.3} %, residual {:.1} %, {} rungs",
        digits(law.gamma_per_s),
        100.0 * law.alpha,
        100.0 * law.beta,
        100.0 * law.residual_share,
        law.rungs,
    )
}

fn peak(law: &Scalability) -> String {
    let extrapolated = if law.extrapolated { ", extrapolated: do not count on it" } else { "" };
    match (law.peak_per_s, law.peak_users) {
        (Some(peak), Some(users)) => {
            format!("at most {}/s, with {users:.0} users{extrapolated}", digits(peak))
        }
        (Some(peak), None) => format!("levels off at {}/s{extrapolated}", digits(peak)),
        (None, _) => "no ceiling in sight: throughput grew with the users".to_owned(),
    }
}

fn at_rate(record: &CapacityRecord, rate: Rate) -> Option<&TestedRate> {
    record.tried.iter().find(|tried| tried.rate == rate)
}

/// How often each rate passed, of those nearest to the load line.
fn tried(record: &CapacityRecord) -> Table {
    let headings = ["rate", "trials", "met", "for", "spent of the objective"];
    let mut table = Table::new("Long trials, counted together at each rate", &headings);
    let line = record.found.as_ref().map(|line| line.confirmed);
    let middle = line.or(record.accepted.as_ref().map(|bound| bound.rate)).unwrap_or_default();
    let at = record.tried.iter().filter(|tried| tried.rate < middle).count();
    let from = at.saturating_sub(ROWS / 2).min(record.tried.len().saturating_sub(ROWS));
    for tried in record.tried.iter().skip(from).take(ROWS) {
        let share = tried.spent_share;
        let spent = share.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share));
        let mark = if line == Some(tried.rate) { " <" } else { "" };
        table.push([
            Cell::Text(per_second(tried.rate)),
            Cell::Text(tried.trials.to_string()),
            Cell::Text(tried.passed.to_string()),
            Cell::Text(format!("{} s", seconds(tried.lasted))),
            if share.is_some_and(|share| share <= 1.0) {
                Cell::Good(spent + mark)
            } else {
                Cell::Bad(spent + mark)
            },
        ]);
    }
    table
}

fn ladder(rungs: &[Rung]) -> Table {
    let headings = ["users", "throughput", "mean", "p99", "X R / N", "objective"];
    let mut table = Table::new("Closed loop, users without think time", &headings);
    for rung in rungs {
        let little = format!("{:.2}", 1.0 + rung.little_error);
        let time = |time: Duration| match rung.response.count {
            0 => Cell::Text("-".into()),
            _ => Cell::Text(millis(time)),
        };
        table.push([
            Cell::Text(rung.users.to_string()),
            Cell::Text(per_second(rung.throughput)),
            time(rung.response.mean),
            time(rung.response.p99),
            if rung.suspect { Cell::Bad(little) } else { Cell::Text(little) },
            if rung.met { Cell::Good("met".into()) } else { Cell::Bad("breached".into()) },
        ]);
    }
    table
}

/// Rates of the table of long trials.
const ROWS: usize = 12;

/// Where the text behind a label begins.
const INDENT: usize = 14;

/// Columns of the page.
const WIDTH: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_measure::record::Latency;

    #[test]
    fn a_rung_in_which_nothing_was_answered_has_no_times() {
        let rung = |count| Rung {
            users: 1,
            throughput: Rate::default(),
            response: Latency { count, mean: Duration::from_millis(38), ..Latency::default() },
            met: false,
            little_error: -1.0,
            suspect: true,
        };
        let table = ladder(&[rung(0)]).to_string();
        assert!(!table.contains(" ms"), "{table}");
        assert!(ladder(&[rung(1)]).to_string().contains("38.0 ms"));
    }

    #[test]
    fn trials_of_half_a_second_did_not_last_none() {
        let half = Duration::from_millis(500);
        let bound = Bound {
            rate: Rate::per_sec(10),
            met: Duration::ZERO,
            breached: half,
            criteria: Vec::new(),
        };
        assert!(told(&bound).contains("(0.5 of 0.5 s breached)"), "{}", told(&bound));
        let bound = Bound { met: half * 40, breached: Duration::ZERO, ..bound };
        assert!(told(&bound).contains("(0 of 20 s breached)"), "{}", told(&bound));
        assert_eq!(seconds(Duration::from_millis(9_960)), "10");
    }

    #[test]
    fn a_long_text_is_set_in_under_its_beginning() {
        let text = ["word"; 30].join(" ");
        let lines = wrapped("refused", INDENT, &text);
        assert_eq!(lines.lines().count(), 3);
        assert!(lines.lines().all(|line| line.len() <= WIDTH), "{lines}");
        assert!(lines.starts_with("refused       word word"), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("              word")));
        assert_eq!(wrapped("note:", 6, "short"), "note: short\n");
    }
}
