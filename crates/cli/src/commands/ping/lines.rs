//! What ping prints: a line for each answer while it runs, and the figures at the end, in the form
//! of the tool that everybody knows, so that what reads its lines can read these.

use std::fmt::Write as _;

use loadline_load::probe::{PingEvent, PingPlan};
use loadline_measure::record::{ProbeOutcome, ProbeRecord, ProbeTarget};
use loadline_report::Table;

use crate::commands::series::{class, failures, figure, shortened};

/// The lines of the events of a run.
pub(super) struct Lines {
    hosts: Vec<Host>,
    timeout: String,
}

/// A host as its lines name it.
#[derive(Clone)]
struct Host {
    name: String,
    /// What stands before the number of a ping.
    sequence: &'static str,
}

impl Lines {
    pub(super) fn new(plan: &PingPlan) -> Self {
        let host = |name: &String| Host { name: name.clone(), sequence: "icmp_seq" };
        Self { hosts: plan.hosts.iter().map(host).collect(), timeout: plan.timeout.to_string() }
    }

    /// The line for an event.
    pub(super) fn line(&mut self, event: &PingEvent) -> String {
        match event {
            PingEvent::Started { host, address, protocol, tcp, note } => {
                let address = address.to_string();
                let host = &mut self.hosts[*host];
                let mut line = format!("PING {} ({address}) by {protocol}", host.name);
                if let Some(note) = note {
                    line = format!("{line}\n  {note}");
                }
                if *tcp {
                    host.sequence = "tcp_seq";
                }
                if host.name != address {
                    host.name = format!("{} ({address})", host.name);
                }
                line
            }
            PingEvent::Ended { host, sample, bytes, ttl } => {
                let Host { name, sequence } = &self.hosts[*host];
                let seq = format!("{name}: {sequence}={}", sample.number);
                let Some(time) = sample.time else { return self.failure(&seq, sample.outcome) };
                let from = bytes.map_or("connected to".to_owned(), |n| format!("{n} bytes from"));
                let ttl = ttl.map_or(String::new(), |ttl| format!(" ttl={ttl}"));
                format!("{from} {seq}{ttl} time={} ms", figure(time))
            }
            PingEvent::Surplus { host, number, late } => {
                let Host { name, sequence } = &self.hosts[*host];
                let what = if *late { "late answer" } else { "duplicate answer" };
                format!("{what} from {name}: {sequence}={number}, not counted")
            }
        }
    }

    fn failure(&self, sequence: &str, outcome: ProbeOutcome) -> String {
        match outcome {
            ProbeOutcome::Timeout | ProbeOutcome::ConnectTimeout => {
                format!("no answer from {sequence} within {}", self.timeout)
            }
            other => format!("no answer from {sequence}: {}", class(other)),
        }
    }
}

/// The figures of every host, and a table where there are several.
pub(super) fn summary(record: &ProbeRecord) -> String {
    let ms = record.elapsed.as_millis_f64();
    let blocks: Vec<_> = record.targets.iter().map(|target| statistics(target, ms)).collect();
    let mut page = blocks.concat();
    if record.targets.len() > 1 {
        write!(page, "\n{}", table(record)).expect("writing to a string cannot fail");
        page += "  times in milliseconds\n";
    }
    page
}

fn statistics(target: &ProbeTarget, elapsed_ms: f64) -> String {
    let sent = target.samples.len();
    let (ok, cut_off) = (target.outcomes.ok, target.outcomes.cut_off);
    let duplicates = match target.duplicates {
        0 => String::new(),
        count => format!(", +{count} duplicates"),
    };
    let cut = if cut_off == 0 { String::new() } else { format!(", {cut_off} cut off") };
    let mut text = format!(
        "\n--- {} ping statistics ---\n\
         {sent} packets transmitted, {ok} received{duplicates}{cut}, {}% packet loss, \
         time {elapsed_ms:.0}ms\n",
        target.target,
        loss(target),
    );
    let failures = failures(&target.outcomes);
    if !failures.is_empty() {
        text += &format!("not received: {failures}\n");
    }
    let time = &target.time;
    if time.count > 0 {
        let exact = |times: &[loadline_core::time::Duration]| {
            let ms = times.iter().map(|time| format!("{:.3}", time.as_millis_f64()));
            ms.collect::<Vec<_>>().join("/")
        };
        let four = exact(&[time.min, time.mean, time.max, time.stddev]);
        text += &format!("rtt min/avg/max/mdev = {four} ms\n");
        // Of an echo the kernel notes when it came.
        let taken = if target.protocol.starts_with("TCP") { ", in user space" } else { "" };
        text += &format!("rtt median/p95 = {} ms{taken}\n", exact(&[time.p50, time.p95]));
    }
    text
}

/// The share of pings that were lost, in percent, of those that could be answered.
fn loss(target: &ProbeTarget) -> String {
    let could = target.outcomes.total() - target.outcomes.cut_off;
    let percent = 100.0 * (could - target.outcomes.ok) as f64 / could.max(1) as f64;
    let text = format!("{percent:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn table(record: &ProbeRecord) -> Table {
    let headings = ["host", "sent", "loss %", "min", "avg", "median", "p95", "max", "mdev"];
    let mut table = Table::new("Round trips, milliseconds", &headings);
    for target in &record.targets {
        let time = &target.time;
        let figures = [time.min, time.mean, time.p50, time.p95, time.max, time.stddev];
        let figures = figures.map(|time| match target.time.count {
            0 => "-".to_owned(),
            _ => figure(time),
        });
        let name = shortened(&target.target, HOST_WIDTH);
        let head = [name, target.samples.len().to_string(), loss(target)];
        table.push(head.into_iter().chain(figures).map(Into::into));
    }
    table
}

/// Leaves room for the figures in 80 columns.
const HOST_WIDTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::time::Duration;
    use loadline_load::probe::Family;
    use loadline_measure::record::{Latency, Outcomes, ProbeSample};

    fn lines(host: &str) -> Lines {
        Lines::new(&PingPlan {
            hosts: vec![host.to_owned()],
            count: 5,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            family: Family::Any,
            tcp: None,
        })
    }

    fn started(protocol: &str) -> PingEvent {
        PingEvent::Started {
            host: 0,
            address: [127, 0, 0, 1].into(),
            protocol: protocol.to_owned(),
            tcp: protocol.starts_with("TCP"),
            note: None,
        }
    }

    fn ended(sample: ProbeSample, bytes: Option<usize>, ttl: Option<u8>) -> PingEvent {
        PingEvent::Ended { host: 0, sample, bytes, ttl }
    }

    #[test]
    fn an_answer_is_told_as_ping_tells_it() {
        let time = Some(Duration::from_micros(45));
        let sample = ProbeSample { number: 1, time, ..ProbeSample::default() };
        let mut lines = lines("127.0.0.1");
        assert_eq!(lines.line(&started("ICMP echo")), "PING 127.0.0.1 (127.0.0.1) by ICMP echo");
        let with_ttl = lines.line(&ended(sample, Some(64), Some(64)));
        assert_eq!(with_ttl, "64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.045 ms");
        let without = lines.line(&ended(sample, Some(64), None));
        assert_eq!(without, "64 bytes from 127.0.0.1: icmp_seq=1 time=0.045 ms");
    }

    #[test]
    fn a_connection_is_not_called_a_packet_and_a_refusal_is_named() {
        let sample = ProbeSample { number: 2, ..ProbeSample::default() };
        let mut lines = lines("localhost");
        lines.line(&started("TCP connect to port 80"));
        let open = ProbeSample { time: Some(Duration::from_micros(1_220)), ..sample };
        assert_eq!(
            lines.line(&ended(open, None, None)),
            "connected to localhost (127.0.0.1): tcp_seq=2 time=1.22 ms"
        );
        let refused = ProbeSample { outcome: ProbeOutcome::ConnectRefused, ..sample };
        assert_eq!(
            lines.line(&ended(refused, None, None)),
            "no answer from localhost (127.0.0.1): tcp_seq=2: connect refused"
        );
        let lost = ProbeSample { outcome: ProbeOutcome::ConnectTimeout, ..sample };
        assert_eq!(
            lines.line(&ended(lost, None, None)),
            "no answer from localhost (127.0.0.1): tcp_seq=2 within 2s"
        );
    }

    fn record(names: &[&str]) -> ProbeRecord {
        let time = Latency {
            count: 4,
            min: Duration::from_micros(110_818),
            mean: Duration::from_micros(110_944),
            p50: Duration::from_micros(110_900),
            p95: Duration::from_micros(111_265),
            max: Duration::from_micros(111_265),
            stddev: Duration::from_micros(451),
            ..Latency::default()
        };
        let target = |name: &&str| ProbeTarget {
            target: (*name).to_owned(),
            outcomes: Outcomes { ok: 4, timeout: 1, cut_off: 1, ..Outcomes::default() },
            time: time.clone(),
            samples: vec![ProbeSample::default(); 6],
            duplicates: 2,
            ..ProbeTarget::default()
        };
        let targets = names.iter().map(target).collect();
        let elapsed = Duration::from_millis(4_004);
        ProbeRecord { elapsed, targets, ..ProbeRecord::default() }
    }

    #[test]
    fn the_figures_are_in_the_lines_of_ping() {
        assert_eq!(
            summary(&record(&["net-lb"])),
            "\n--- net-lb ping statistics ---\n\
             6 packets transmitted, 4 received, +2 duplicates, 1 cut off, 20% packet loss, \
             time 4004ms\n\
             not received: 1 timeout, 1 cut off\n\
             rtt min/avg/max/mdev = 110.818/110.944/111.265/0.451 ms\n\
             rtt median/p95 = 110.900/111.265 ms\n"
        );
    }

    #[test]
    fn several_hosts_stand_in_a_table_that_fits() {
        let page = summary(&record(&["net-lb", "a-name-that-is.much.too.long.example.org"]));
        let rows: Vec<Vec<_>> =
            page.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = ["net-lb", "6", "20", "111", "111", "111", "111", "111", "0.451"];
        assert!(rows.contains(&row.to_vec()), "{page}");
        for line in page.lines().filter(|line| !line.contains("packets")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
