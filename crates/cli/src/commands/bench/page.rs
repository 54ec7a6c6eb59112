//! The result of a run as a page for a terminal: 80 columns, 45 lines at most.

mod addresses;
mod timeline;
mod verdict;

pub(crate) use addresses::one_of_several;

use std::{collections::BTreeMap, fmt::Write as _};

use loadline_core::{time::Duration, units::Ratio};
use loadline_measure::record::{Arrivals, Latency, LoadModel, LoadRecord, Percentiles};
use loadline_measure::statistics::bars;
use loadline_report::{millis, per_second, percent};

use crate::commands::size;

/// The page, with its line ends. The rows in time and the bars of the response times stand in it
/// where they have room.
pub(crate) fn write(record: &LoadRecord) -> String {
    let mut page = String::new();
    wrapped(&mut page, "", &record.target);
    line(&mut page, format_args!("{}", pattern(record)));
    if let Some(told) = one_of_several(record) {
        wrapped(&mut page, "", &told);
    }
    if record.interrupted {
        page += "interrupted: only what was due until then is counted\n";
    }
    outcomes(&mut page, record);
    latencies(&mut page, record);
    rates(&mut page, record);
    let mut end = String::new();
    end.push('\n');
    verdict::objective(&mut end, record);
    verdict::validity(&mut end, record);
    if page.lines().count() + end.lines().count() > HEIGHT {
        page = page.replace(LEGEND, "");
    }
    let mut room = HEIGHT.saturating_sub(page.lines().count() + end.lines().count());
    let [mut rows, mut bars] = [String::new(), String::new()];
    timeline::write(&mut rows, record);
    spread(&mut bars, record);
    for part in [&mut rows, &mut bars] {
        match room.checked_sub(part.lines().count()) {
            Some(left) => room = left,
            None => part.clear(),
        }
    }
    page + &bars + &rows + &end
}

fn pattern(record: &LoadRecord) -> String {
    let pattern = match &record.model {
        LoadModel::Closed { users: 1, think } => format!("closed loop, 1 user{}", pause(*think)),
        LoadModel::Closed { users, think } => {
            format!("closed loop, {users} users{}", pause(*think))
        }
        LoadModel::Open { rate, arrivals, seed, stages } => {
            let arrivals = match arrivals {
                Arrivals::Constant => "at even distances".to_owned(),
                Arrivals::Listed => "as listed".to_owned(),
                Arrivals::Uniform => format!("uniform, seed {seed}"),
                Arrivals::Poisson => format!("Poisson, seed {seed}"),
            };
            match stages.len() {
                0 => format!("open loop, {rate} {arrivals}"),
                1 => format!("open loop, 1 stage, {rate} in the mean, {arrivals}"),
                count => format!("open loop, {count} stages, {rate} in the mean, {arrivals}"),
            }
        }
    };
    let elapsed = record.elapsed.as_secs_f64();
    // Nothing is known of the protocol where no connection came about.
    let comma = if record.protocol.is_empty() { "" } else { ", " };
    format!("{pattern}{comma}{}, {elapsed:.2} s", record.protocol)
}

fn pause(think: Duration) -> String {
    if think == Duration::ZERO { String::new() } else { format!(" thinking {think}") }
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
    counts(page, "reason", &record.reasons);
}

/// A share that is neither nothing nor all is not printed as one of them.
fn share(part: u64, whole: u64) -> String {
    match Ratio::part(part, whole).as_ppm() {
        0..500 if part > 0 => "<0.1 %".to_owned(),
        999_500.. if part < whole => ">99.9 %".to_owned(),
        ppm => percent(Ratio::ppm(ppm)),
    }
}

/// The most frequent values, on a line or two.
pub(crate) fn counts<K: std::fmt::Display>(
    page: &mut String,
    name: &str,
    counts: &BTreeMap<K, u64>,
) {
    let mut most: Vec<_> = counts.iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let named = most.iter().take(MOST_VALUES).map(|(value, count)| format!("{value}: {count}"));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if most.len() > MOST_VALUES {
        let _ = write!(text, ", and {} more", most.len() - MOST_VALUES);
    }
    if !most.is_empty() {
        wrapped(page, &format!("  {name} "), &text);
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
    let phases = &record.phases;
    for (name, latency) in [
        ("dns", &phases.dns),
        ("connect", &phases.connect),
        ("tls", &phases.tls),
        ("first byte", &phases.first_byte),
        ("body", &phases.body),
    ] {
        if latency.count > 0 {
            line(page, format_args!("    {name:<10}{}", figures(latency)));
        }
    }
    page.push_str(LEGEND);
    if record.outcomes.failed() > 0 && record.response.count > 0 {
        of_all(page, record);
    }
}

/// What objectives are judged by, beside the times of the successful alone.
fn of_all(page: &mut String, record: &LoadRecord) {
    let Some(all) = record.response_of_all() else { return };
    let Percentiles { p50, p90, p95, p99, max, .. } = all;
    let times = [p50, p90, p95, p99, max].map(|time| match time {
        Duration::MAX => format!("{:>9}", "never"),
        time => format!("{:>9}", millis(time)),
    });
    line(page, format_args!("  {:<30}{}", "of all, a failure as never", times.concat()));
}

fn figures(latency: &Latency) -> String {
    let Latency { min, mean, p50, p90, p95, p99, max, .. } = *latency;
    if latency.count == 0 {
        return format!("{:>9}", "none");
    }
    [min, mean, p50, p90, p95, p99, max].map(|time| format!("{:>9}", millis(time))).concat()
}

fn rates(page: &mut String, record: &LoadRecord) {
    let achieved = per_second(record.achieved_rate());
    let planned = match record.model {
        LoadModel::Open { rate, .. } => format!(" of {} planned", per_second(rate)),
        LoadModel::Closed { .. } => String::new(),
    };
    line(page, format_args!("\nRate    {achieved} answered ok{planned}"));
    let bytes_per_s = record.bytes_read as f64 / record.elapsed.as_secs_f64().max(1e-9);
    let (total, rate) = (size(record.bytes_read as f64), size(bytes_per_s));
    let stale = match record.stale {
        0 => String::new(),
        count => format!(", {count} kept ones found closed"),
    };
    let opened = record.connections;
    line(page, format_args!("Read    {total}, {rate}/s; {opened} connections opened{stale}"));
}

/// The histogram of response times.
fn spread(page: &mut String, record: &LoadRecord) {
    let bars = bars(&record.response, &record.spreads.response);
    let Some(most) = bars.iter().map(|bar| bar.count).max() else { return };
    // Times close together are told apart by more digits.
    let alike = bars.windows(2).any(|pair| millis(pair[0].up_to) == millis(pair[1].up_to));
    line(page, format_args!("\nResponse times up to"));
    for bar in &bars {
        let length = (bar.count * BAR_WIDTH).div_ceil(most.max(1)) as usize;
        let drawn = "#".repeat(length);
        let space = if length == 0 { "" } else { " " };
        let bound = if alike { finer(bar.up_to) } else { millis(bar.up_to) };
        line(page, format_args!("  {bound:>9} |{drawn}{space}{}", bar.count));
    }
}

/// Five digits that matter.
fn finer(time: Duration) -> String {
    match time.as_millis_f64() {
        ms if ms < 10.0 => format!("{ms:.4} ms"),
        ms if ms < 1_000.0 => format!("{ms:.2} ms"),
        ms => format!("{ms:.0} ms"),
    }
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}

/// Words after `start`, continued below the first of them where a line is full. A word longer
/// than a line is broken.
fn wrapped(page: &mut String, start: &str, text: &str) {
    let indent = start.chars().count().min(WIDTH / 2);
    let mut column = start.chars().count();
    page.push_str(start);
    let mut first = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !first && column + 1 + length > WIDTH {
            let _ = write!(page, "\n{:indent$}", "");
            (column, first) = (indent, true);
        }
        if !first {
            page.push(' ');
            column += 1;
        }
        for letter in word.chars() {
            if column == WIDTH {
                let _ = write!(page, "\n{:indent$}", "");
                column = indent;
            }
            page.push(letter);
            column += 1;
        }
        first = false;
    }
    page.push('\n');
}

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Left out where the page would be too high with it.
const LEGEND: &str = "  response: planned to answered; service: sent to answered; lag: before it\n";

/// Lines of the page.
const HEIGHT: usize = 45;

/// Leaves room for the time and the count in 80 columns.
const BAR_WIDTH: u64 = 50;

/// Values of a header that are named; a run can meet thousands.
const MOST_VALUES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::units::Rate;
    use loadline_measure::record::{
        Bin, Criterion, Fault, Generator, Moment, ObjectiveRecord, Outcomes, Phases, Spread,
        Spreads, Stage,
    };

    fn sample() -> LoadRecord {
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
        LoadRecord {
            target: "http://localhost:8080/".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            model: LoadModel::Open {
                rate: Rate::per_sec(10),
                arrivals: Arrivals::Constant,
                seed: 1,
                stages: Vec::new(),
            },
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
            connections: 12,
            generator: Generator { cpu_share: 0.08, sent_share: 1.0, faults: Vec::new() },
            ..LoadRecord::default()
        }
    }

    /// Everything that can take a line does.
    fn longest() -> LoadRecord {
        let ms = Duration::from_millis;
        let mut record = sample();
        record.target = (0..4).map(|i| format!("http://server-{i}.example.org/a ")).collect();
        record.interrupted = true;
        record.outcomes = Outcomes {
            ok: 491,
            client_error: 1,
            server_error: 1,
            connect_refused: 1,
            connect_timeout: 1,
            timeout: 1,
            reset: 1,
            bad_answer: 1,
            dropped: 1,
            cut_off: 1,
        };
        record.by_header = (0..1_000).map(|i| (format!("region-{i}/9001"), i)).collect();
        let phase = record.service.clone();
        record.phases = Phases {
            dns: phase.clone(),
            connect: phase.clone(),
            tls: phase.clone(),
            first_byte: phase.clone(),
            body: phase,
        };
        let moment = |second| Moment {
            at: Duration::from_secs(second),
            outcomes: Outcomes { ok: 9, reset: 1, ..Outcomes::default() },
            p99: ms(900),
            ..Moment::default()
        };
        record.moments = (1..=50).map(moment).collect();
        record.generator.faults = vec![Fault {
            what: "only 91.2 % of the requests went out within 5 ms of their planned instant"
                .to_owned(),
            advice: "plan a lower rate, or share it between two machines; the generator used \
                     100 % of a core"
                .to_owned(),
        }];
        let criterion = |text: &str, met| Criterion {
            text: text.to_owned(),
            measured: "900 ms".to_owned(),
            met,
            confidence: "not sure: at least 290 ms with 95 % confidence".to_owned(),
        };
        record.objective = Some(ObjectiveRecord {
            text: "p99<300ms, p50<1s".to_owned(),
            criteria: vec![criterion("p99<300ms", false), criterion("p50<1s", true)],
        });
        record
    }

    #[test]
    fn the_page_says_what_happened_and_its_sum() {
        let page = write(&sample());
        for part in [
            "open loop, 10/s at even distances, HTTP/1.1, 50.00 s",
            "ok                     497   99.4 %",
            "timeout                  1    0.2 %",
            "sum                    500  of 500 planned",
            "status 200: 497, 503: 2",
            "header eu/1: 499",
            "kB/s; 12 connections opened, 3 kept ones found closed",
            "response      38.0 ms  40.0 ms  39.0 ms  45.0 ms  50.0 ms   900 ms 11076 ms",
            "lag              none",
            "9.94/s answered ok of 10/s planned",
            "9.4 MB, 188.0 kB/s",
            "11076 ms |# 7",
            "valid: 100.0 % of the rate sent, lag p99 0.00 ms, CPU 8 % of a core",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(!page.contains("cut off"), "a class that did not occur takes no line");
        assert!(!page.contains("Objective"), "none was given");
    }

    #[test]
    fn the_page_says_why_a_run_is_not_to_be_trusted_and_what_was_breached() {
        let page = write(&longest());
        for part in [
            "INVALID: 100.0 % of the rate sent",
            "  - only 91.2 % of the requests",
            "    change: plan a lower rate",
            "  BREACHED  p99<300ms         900 ms; not sure: at least 290 ms",
            "  met       p50<1s            900 ms",
            "and 996 more",
            "    tls         38.0 ms",
            "  dropped                  1    0.2 %",
            "interrupted",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
    }

    #[test]
    fn the_plan_of_a_run_is_told() {
        let mut record = sample();
        let ramp =
            Stage { from: Rate::default(), to: Rate::per_sec(50), lasts: Duration::from_secs(50) };
        for (model, told) in [
            (LoadModel::Closed { users: 1, think: Duration::ZERO }, "closed loop, 1 user, "),
            (
                LoadModel::Closed { users: 4, think: Duration::from_secs(1) },
                "closed loop, 4 users thinking 1s, ",
            ),
            (
                LoadModel::Open {
                    rate: Rate::per_sec(25),
                    arrivals: Arrivals::Poisson,
                    seed: 7,
                    stages: vec![ramp, ramp],
                },
                "open loop, 2 stages, 25/s in the mean, Poisson, seed 7, ",
            ),
        ] {
            record.model = model;
            let page = write(&record);
            assert!(page.contains(told), "{told:?} is not in\n{page}");
        }
    }

    /// Three requests per minute.
    #[test]
    fn a_small_rate_is_told_with_the_digits_that_matter() {
        let mut record = sample();
        record.model = LoadModel::Open {
            rate: Rate::milli_per_sec(50),
            arrivals: Arrivals::Constant,
            seed: 1,
            stages: Vec::new(),
        };
        record.outcomes = Outcomes { ok: 2, ..Outcomes::default() };
        let page = write(&record);
        assert!(page.contains("Rate    0.04/s answered ok of 0.05/s planned"), "{page}");
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
        let mut usual = longest();
        usual.outcomes = sample().outcomes;
        usual.generator.faults.clear();
        assert!(write(&usual).contains("In time"), "there is room for the rows");
        for page in [write(&sample()), write(&usual), write(&longest())] {
            for line in page.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
            let lines = page.lines().count();
            assert!(lines <= HEIGHT, "{lines} lines:\n{page}");
        }
    }

    #[test]
    fn words_that_do_not_fit_go_to_the_next_line_below_the_first() {
        let mut page = String::new();
        wrapped(&mut page, "  - ", &["word"; 20].join(" "));
        wrapped(&mut page, "", &"x".repeat(100));
        let lines: Vec<_> = page.lines().collect();
        assert_eq!(lines.len(), 4, "{page}");
        assert!(lines[1].starts_with("    word"), "{page}");
        assert!(lines.iter().all(|line| line.len() <= 80), "{page}");
    }
}
