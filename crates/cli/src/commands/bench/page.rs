//! The result of a run as a page for a terminal of 80 columns.

use std::fmt::Write as _;

use loadline_core::{
    record::{Arrivals, Latency, LoadModel, LoadRecord},
    units::{Bytes, Ratio},
};
use loadline_load::{LoadPlan, bars};
use loadline_report::{millis, percent};

/// The page, with its line ends.
pub(super) fn write(plan: &LoadPlan, record: &LoadRecord) -> String {
    let mut page = format!("{}\n{}\n", record.target, pattern(plan, record));
    if record.interrupted {
        page += "interrupted: only what was due until then is counted\n";
    }
    outcomes(&mut page, record);
    latencies(&mut page, record);
    rates(&mut page, record);
    spread(&mut page, record);
    page
}

fn pattern(plan: &LoadPlan, record: &LoadRecord) -> String {
    let pattern = match &record.model {
        LoadModel::Closed { users: 1, .. } => "closed loop, 1 user".to_owned(),
        LoadModel::Closed { users, .. } => format!("closed loop, {users} users"),
        LoadModel::Open { rate, arrivals, seed, .. } => match arrivals {
            Arrivals::Constant => format!("open loop, {rate} at even distances"),
            Arrivals::Listed => format!("open loop, {rate} listed"),
            Arrivals::Uniform => format!("open loop, {rate} uniform, seed {seed}"),
            Arrivals::Poisson => format!("open loop, {rate} Poisson, seed {seed}"),
        },
    };
    let connections = if plan.keepalive { "kept connections" } else { "a connection each" };
    format!("{pattern}, {connections}, {:.2} s", record.elapsed.as_secs_f64())
}

/// The classes that occurred, and their sum beside the plan.
fn outcomes(page: &mut String, record: &LoadRecord) {
    line(page, format_args!("\nOutcomes"));
    for (name, count) in record.outcomes.classes() {
        if count > 0 {
            let share = share(count, record.planned);
            line(page, format_args!("  {name:<16}{count:>10}  {share:>7}"));
        }
    }
    let total = record.outcomes.total();
    line(page, format_args!("  {:<16}{total:>10}  of {} planned", "sum", record.planned));
    counts(page, "status", &record.statuses);
    counts(page, "header", &record.by_header);
    if record.stale > 0 {
        line(
            page,
            format_args!("  {} kept connections were stale; sent again on new ones", record.stale),
        );
    }
}

/// A share that is neither nothing nor all is not printed as one of them.
fn share(part: u64, whole: u64) -> String {
    match Ratio::part(part, whole).as_ppm() {
        0..500 if part > 0 => "<0.1 %".to_owned(),
        999_500.. if part < whole => ">99.9 %".to_owned(),
        ppm => percent(Ratio::ppm(ppm)),
    }
}

fn counts<K: std::fmt::Display>(
    page: &mut String,
    name: &str,
    counts: &std::collections::BTreeMap<K, u64>,
) {
    for (value, count) in counts {
        line(page, format_args!("  {name} {value}: {count}"));
    }
}

fn latencies(page: &mut String, record: &LoadRecord) {
    let heads = ["min", "avg", "p50", "p90", "p95", "p99", "max"];
    let heads = heads.map(|head| format!("{head:>9}")).concat();
    line(page, format_args!("\n{:<14}{heads}", "Latency"));
    for (name, latency) in
        [("response", &record.response), ("service", &record.service), ("lag", &record.lag)]
    {
        line(page, format_args!("  {name:<12}{}", figures(latency)));
    }
    line(page, format_args!("  response = planned to answered, service = sent to answered,"));
    line(page, format_args!("  lag = planned to sent: how late the generator itself was"));
}

fn figures(latency: &Latency) -> String {
    let Latency { min, mean, p50, p90, p95, p99, max, .. } = *latency;
    if latency.count == 0 {
        return format!("{:>9}", "none");
    }
    [min, mean, p50, p90, p95, p99, max].map(|time| format!("{:>9}", millis(time))).concat()
}

fn rates(page: &mut String, record: &LoadRecord) {
    let achieved = record.achieved_rate().as_per_sec_f64();
    let planned = match record.model {
        LoadModel::Open { rate, .. } => format!(" of {rate} planned"),
        LoadModel::Closed { .. } => String::new(),
    };
    line(page, format_args!("\nRate    {achieved:.1}/s answered ok{planned}"));
    let per_second = record.bytes_read as f64 / record.elapsed.as_secs_f64().max(1e-9);
    let (total, rate) = (size(record.bytes_read as f64), size(per_second));
    line(page, format_args!("Read    {total}, {rate}/s"));
}

/// A size with three digits that matter.
fn size(bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes / unit),
        None => format!("{}", Bytes::new(bytes as u64)),
    }
}

/// The histogram of response times.
fn spread(page: &mut String, record: &LoadRecord) {
    let bars = bars(&record.response, &record.spreads.response);
    let Some(most) = bars.iter().map(|bar| bar.count).max() else { return };
    line(page, format_args!("\nResponse times up to"));
    for bar in &bars {
        let length = (bar.count * BAR_WIDTH).div_ceil(most.max(1)) as usize;
        let drawn = "#".repeat(length);
        let space = if length == 0 { "" } else { " " };
        line(page, format_args!("  {:>9} |{drawn}{space}{}", millis(bar.up_to), bar.count));
    }
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}

/// Leaves room for the time and the count in 80 columns.
const BAR_WIDTH: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::record::{Bin, Spread, Spreads};
    use loadline_core::{record::Outcomes, time::Duration, units::Rate};
    use loadline_load::Until;

    fn sample() -> (LoadPlan, LoadRecord) {
        let rate = Rate::per_sec(10);
        let plan = LoadPlan::open("localhost:8080", rate, Until::Requests(500)).unwrap();
        let ms = Duration::from_millis;
        let latency = Latency {
            count: 497,
            min: ms(38),
            mean: ms(40),
            p50: ms(39),
            p90: ms(45),
            p95: ms(50),
            p99: ms(900),
            max: ms(11_076),
            ..Latency::default()
        };
        let bin = |time, count| Bin { up_to: ms(time), count };
        let response = Spread(vec![bin(38, 1), bin(39, 489), bin(11_076, 7)]);
        let outcomes = Outcomes { ok: 497, server_error: 2, timeout: 1, ..Outcomes::default() };
        let record = LoadRecord {
            target: plan.targets[0].0.to_string(),
            model: plan.model(),
            elapsed: Duration::from_secs(50),
            planned: 500,
            outcomes,
            service: latency.clone(),
            response: latency,
            bytes_read: 9_400_000,
            statuses: [(200, 497), (503, 2)].into(),
            by_header: [("eu/1".to_owned(), 499)].into(),
            spreads: Spreads { response, ..Spreads::default() },
            stale: 3,
            ..LoadRecord::default()
        };
        (plan, record)
    }

    #[test]
    fn the_page_says_what_happened_and_its_sum() {
        let (plan, measured) = sample();
        let page = write(&plan, &measured);
        for part in [
            "open loop, 10/s at even distances, kept connections, 50.00 s",
            "ok                     497   99.4 %",
            "timeout                  1    0.2 %",
            "sum                    500  of 500 planned",
            "status 503: 2",
            "header eu/1: 499",
            "3 kept connections were stale",
            "response      38.0 ms  40.0 ms  39.0 ms  45.0 ms  50.0 ms   900 ms 11076 ms",
            "lag              none",
            "9.9/s answered ok of 10/s planned",
            "9.4 MB, 188.0 kB/s",
            "11076 ms |# 7",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(!page.contains("cut off"), "a class that did not occur takes no line");
    }

    #[test]
    fn one_failure_in_a_million_is_not_rounded_away() {
        assert_eq!(share(999_999, 1_000_000), ">99.9 %");
        assert_eq!(share(1, 1_000_000), "<0.1 %");
        assert_eq!(share(7, 7), "100 %");
        assert_eq!(share(1, 8), "12.5 %");
    }

    #[test]
    fn the_page_fits_a_terminal() {
        let (plan, measured) = sample();
        let page = write(&plan, &measured);
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(page.lines().count() <= 40);
    }
}
