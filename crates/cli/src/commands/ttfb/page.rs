//! The result of a series as a page for a terminal of 80 columns.

use std::fmt::Write as _;

use loadline_core::time::Duration;
use loadline_measure::record::{Latency, ProbeRecord, ProbeTarget};
use loadline_report::{Align, Table, bare_url};

use super::plot::{self, SHOWN, mark};
use crate::commands::{
    bench::page::counts,
    series::{failures, figure, shortened},
};

/// The page, with its line ends.
pub(super) fn write(record: &ProbeRecord) -> String {
    let mut page = heading(record);
    for (index, target) in record.targets.iter().enumerate() {
        page += &describe(index, target);
    }
    write!(page, "\n{}", table(record)).expect("writing to a string cannot fail");
    page += EXPLANATION;
    let picture = plot::draw(record);
    if !picture.is_empty() {
        let most = record.targets.iter().map(|target| target.samples.len()).max();
        let shown = most.unwrap_or_default().min(SHOWN);
        page += &format!("\nTime to first byte of the first {shown} requests, ms\n{picture}");
        page += if record.keepalive { "  N = on a new connection\n" } else { "" };
        page += if picture.contains('^') { "  ^ = above the axis\n" } else { "" };
    }
    page
}

fn heading(record: &ProbeRecord) -> String {
    let targets = match record.targets.len() {
        1 => String::new(),
        many => format!(" to each of {many} targets in turn"),
    };
    let connections = if record.keepalive { "kept connections" } else { "a new connection each" };
    let cut = if record.interrupted { ", interrupted" } else { "" };
    let seconds = record.elapsed.as_secs_f64();
    let planned = record.planned;
    format!("{planned} requests{targets}, {connections}, {seconds:.2} s{cut}\n")
}

/// A target with what was spoken and what became of its requests.
fn describe(index: usize, target: &ProbeTarget) -> String {
    let ProbeTarget { address, protocol, outcomes, connections, .. } = target;
    let mut parts = vec![protocol.clone(), address.clone(), format!("{} ok", outcomes.ok)];
    parts.push(match failures(&outcomes.clone()) {
        none if none.is_empty() => "0 failed".to_owned(),
        classes => classes,
    });
    parts.push(match connections {
        1 => "1 connection".to_owned(),
        many => format!("{many} connections"),
    });
    parts.retain(|part| !part.is_empty());
    let name = shortened(&target.target, 74);
    let mut text = format!("\n{} {name}\n  {}\n", mark(index), parts.join(", "));
    if let Some(note) = &target.note {
        text += &format!("  {}\n", shortened(note, 78));
    }
    counts(&mut text, "reason", &target.reasons);
    if let Some((slow, last)) = slow(target) {
        let all = target.time.count;
        text +=
            &format!("  {slow} of {all} took over 1.5 times the shortest; the last was {last}\n");
    }
    text
}

/// How many took over half as long again as the shortest, and the number of the last of them: the
/// mark of connections that are opened further on, until all are open. None where there are none
/// or where the difference is within what a machine's own scheduling makes.
fn slow(target: &ProbeTarget) -> Option<(usize, u64)> {
    let shortest = target.time.min;
    let bound = shortest.scale(1.5).max(shortest + Duration::from_millis(1));
    let slow = target.samples.iter().filter(|s| s.good_time().is_some_and(|time| time > bound));
    let numbers: Vec<_> = slow.map(|sample| sample.number).collect();
    Some((numbers.len(), *numbers.last()?))
}

/// Every phase, the targets below each other within it.
fn table(record: &ProbeRecord) -> Table {
    let headings = ["ms", "", "target", "count", "min", "median", "p95", "max"];
    let mut table = Table::new("Time to first byte and its parts, milliseconds", &headings);
    table.columns[1].align = Align::Left;
    table.columns[2].align = Align::Left;
    for (name, of) in PHASES {
        let went = |target: &&ProbeTarget| of(target).count > 0;
        if name != TTFB && !record.targets.iter().any(|target| went(&target)) {
            continue;
        }
        for (index, target) in record.targets.iter().enumerate() {
            let label = if index == 0 { name } else { "" };
            let short = shortened(bare_url(&target.target), TARGET_WIDTH);
            let head = [label.to_owned(), mark(index).to_string(), short];
            table.push(head.into_iter().chain(figures(of(target))).map(Into::into));
        }
    }
    table
}

/// Reads one distribution off a target.
type Part = fn(&ProbeTarget) -> &Latency;

const PHASES: [(&str, Part); 6] = [
    (TTFB, |target| &target.time),
    ("  DNS", |target| &target.phases.dns),
    ("  connect", |target| &target.phases.connect),
    ("  TLS", |target| &target.phases.tls),
    ("  first byte", |target| &target.phases.first_byte),
    ("body", |target| &target.phases.body),
];

fn figures(latency: &Latency) -> [String; 5] {
    let Latency { count, min, p50, p95, max, .. } = *latency;
    let figures = [min, p50, p95, max].map(|time| match count {
        0 => "-".to_owned(),
        _ => figure(time),
    });
    let [min, median, p95, max] = figures;
    [count.to_string(), min, median, p95, max]
}

const TTFB: &str = "TTFB";

/// Leaves room for the figures in 80 columns.
const TARGET_WIDTH: usize = 21;

const EXPLANATION: &str = "  \
  TTFB = from before DNS to the first byte of the answer; first byte = from the
  request sent to that byte; the body comes after and is no part of it
";

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_measure::record::{Outcomes, Phases, ProbeSample};

    fn latency(ms: u64) -> Latency {
        let time = Duration::from_millis(ms);
        Latency { count: 500, min: time, p50: time, p95: time, max: time, ..Latency::default() }
    }

    fn target(name: &str, ms: u64) -> ProbeTarget {
        let sample = |number| ProbeSample {
            number,
            time: Some(Duration::from_millis(if number < 4 { 2 * ms } else { ms })),
            ..ProbeSample::default()
        };
        ProbeTarget {
            target: format!("http://{name}/"),
            address: "10.0.0.1:80".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            outcomes: Outcomes { ok: 500, timeout: 2, ..Outcomes::default() },
            connections: 500,
            time: latency(ms),
            phases: Phases { connect: latency(ms / 2), ..Phases::default() },
            samples: (1..=500).map(sample).collect(),
            ..ProbeTarget::default()
        }
    }

    fn page(targets: Vec<ProbeTarget>) -> String {
        let elapsed = Duration::from_secs(12);
        let page = write(&ProbeRecord { targets, elapsed, planned: 500, ..ProbeRecord::default() });
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        page
    }

    #[test]
    fn two_targets_stand_below_each_other_in_every_phase() {
        let long = "a-rather-long-name.of-a-load-balancer.example.org:8443/index.html?a=b";
        let page = page(vec![target("net-lb", 230), target(long, 123)]);
        for part in [
            "500 requests to each of 2 targets in turn, a new connection each, 12.00 s",
            "* http://net-lb/\n  HTTP/1.1, 10.0.0.1:80, 500 ok, 2 timeout, 500 connections\n",
            "3 of 500 took over 1.5 times the shortest; the last was 3",
            "first 500 requests",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        let rows: Vec<Vec<_>> =
            page.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["TTFB", "*", "net-lb", "500", "230", "230", "230", "230"]));
        assert!(rows.contains(&vec!["connect", "*", "net-lb", "500", "115", "115", "115", "115"]));
        assert!(!page.contains("TLS"), "a phase that nobody went through takes no line:\n{page}");
    }

    #[test]
    fn a_target_says_why_its_requests_failed() {
        let why = "invalid peer certificate: certificate not valid for name \"localhost\"; it is \
                   only valid for DnsName(\"example.org\")";
        let target = ProbeTarget {
            outcomes: Outcomes { bad_answer: 2, ..Outcomes::default() },
            reasons: [(why.to_owned(), 2)].into(),
            ..target("silent", 1)
        };
        let page = page(vec![target]);
        assert!(page.contains("  reason invalid peer certificate: certificate not"), "{page}");
        assert!(page.contains("DnsName(\"example.org\"): 2\n"), "{page}");
    }

    #[test]
    fn a_target_that_never_answered_has_no_figures() {
        let silent = ProbeTarget {
            target: "http://silent/".to_owned(),
            outcomes: Outcomes { connect_refused: 500, ..Outcomes::default() },
            ..ProbeTarget::default()
        };
        let page = page(vec![silent]);
        assert!(page.contains("0 ok, 500 connect refused, 0 connections"), "{page}");
        let rows: Vec<Vec<_>> =
            page.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["TTFB", "*", "silent", "0", "-", "-", "-", "-"]), "{page}");
    }
}
