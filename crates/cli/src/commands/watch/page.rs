//! A watch as a page of 80 columns: a line for each resource, then what gave out and why.

use std::fmt::Write as _;

use loadline_core::time::Duration;
use loadline_measure::{
    record::{Bottleneck, Process, ProcessSample, ResourceRecord, Sample},
    statistics::sample,
};

/// The page, with its line ends.
pub(crate) fn write(record: &ResourceRecord) -> String {
    let mut page = String::new();
    wrapped(&mut page, "", &format!("watched: {}", record.target));
    let cost = record.sampler_cpu_share * 100.0;
    let (elapsed, number) = (record.elapsed.as_secs_f64(), record.samples.len());
    line(
        &mut page,
        format_args!(
            "{elapsed:.1} s, {number} samples {} apart; watching took {cost:.1} % of a core\n",
            record.interval
        ),
    );
    if !record.samples.is_empty() {
        let heads = format!("{:<LABEL$}{:>9}{:>9}", "", "mean", "most");
        line(&mut page, format_args!("{heads}"));
        for row in rows(record) {
            row.write(&mut page);
        }
    }
    verdict(&mut page, record);
    page
}

/// A figure of a sample.
type Figure = fn(&Sample) -> f64;

/// One resource over time.
struct Row {
    label: String,
    values: Vec<f64>,
    /// What a full block stands for; the highest value where there is no natural limit.
    full: Option<f64>,
    figure: fn(f64) -> String,
}

impl Row {
    fn new(
        record: &ResourceRecord,
        label: &str,
        figure: fn(f64) -> String,
        value: impl Fn(&Sample) -> f64,
    ) -> Self {
        let values = record.samples.iter().map(value).collect();
        Self { label: label.chars().take(LABEL - 1).collect(), values, full: None, figure }
    }

    fn up_to(self, full: f64) -> Self {
        Self { full: Some(full), ..self }
    }

    fn most(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    fn mean(&self) -> f64 {
        sample::mean(&self.values)
    }

    /// Left out where there is nothing to see.
    fn if_above(self, least: f64) -> Option<Self> {
        (self.most() >= least).then_some(self)
    }

    fn write(&self, page: &mut String) {
        let full = self.full.unwrap_or(0.0).max(self.most());
        let (label, drawn) = (&self.label, spark(&self.values, full));
        let (mean, most) = ((self.figure)(self.mean()), (self.figure)(self.most()));
        let text = format!("{label:<LABEL$}{mean:>9}{most:>9}  {drawn}");
        line(page, format_args!("{}", text.trim_end()));
    }
}

fn rows(record: &ResourceRecord) -> Vec<Row> {
    let row = |label: &str, figure, value: Figure| Row::new(record, label, figure, value);
    let cpu = format!("CPU, {} cores", record.machine.cores);
    let mut rows = vec![row(&cpu, percent, |one| one.cpu.busy()).up_to(1.0)];
    let parts: [(&str, Figure); 4] = [
        ("  user", |one| one.cpu.user),
        ("  system", |one| one.cpu.system),
        ("  softirq", |one| one.cpu.softirq),
        ("  steal", |one| one.cpu.steal),
    ];
    rows.extend(
        parts
            .into_iter()
            .filter_map(|(label, value)| row(label, percent, value).up_to(1.0).if_above(NOTABLE)),
    );
    rows.push(row("run queue", count, |one| one.running as f64));
    rows.extend(processes(record));
    rows.extend(interfaces(record));
    let levels: [(&str, Figure); 6] = [
        ("connections", |one| one.sockets.established as f64),
        ("in TIME_WAIT", |one| one.sockets.time_wait as f64),
        ("ports in use", |one| one.sockets.ports_in_use as f64),
        ("listen queue", |one| one.sockets.longest_listen_queue as f64),
        ("listen overflows", |one| one.sockets.listen_overflows as f64),
        ("segments resent", |one| one.sockets.segments_resent as f64),
    ];
    let shown = levels.into_iter().map(|(label, value)| row(label, count, value));
    rows.extend(shown.filter_map(|row| row.if_above(1.0)));
    rows
}

/// The busiest processes, in cores, and their descriptors where they come near their limit.
fn processes(record: &ResourceRecord) -> Vec<Row> {
    let mut rows: Vec<Row> = record.processes.iter().map(|one| cores(record, one)).collect();
    rows.sort_by(|a, b| b.mean().total_cmp(&a.mean()));
    let busy = rows.iter().take_while(|row| row.mean() >= NOTABLE / 2.0).count();
    rows.truncate(busy.clamp(1, MOST_PROCESSES));
    for process in &record.processes {
        let limit = process.descriptor_limit.unwrap_or(u64::MAX) as f64;
        let label = format!("descriptors [{}]", process.pid);
        let open = of(process, |one| one.descriptors.unwrap_or_default() as f64);
        rows.extend(Row::new(record, &label, count, open).up_to(limit).if_above(limit / 10.0));
    }
    rows
}

fn cores(record: &ResourceRecord, process: &Process) -> Row {
    let label = format!("{} {}[{}]", process.role, process.name, process.pid);
    Row::new(record, &label, share_of_core, of(process, ProcessSample::cores)).up_to(1.0)
}

/// A figure of one process; zero where it does not live.
fn of(process: &Process, figure: impl Fn(&ProcessSample) -> f64) -> impl Fn(&Sample) -> f64 {
    let pid = process.pid;
    move |sample| sample.processes.iter().find(|one| one.pid == pid).map_or(0.0, &figure)
}

/// Each direction of the busiest interfaces, then their packets.
fn interfaces(record: &ResourceRecord) -> Vec<Row> {
    let mut rows = Vec::new();
    for interface in &record.machine.interfaces {
        let name = &interface.name;
        let limit = interface.given_bytes_per_s.or(interface.speed_bytes_per_s);
        let of = |sample: &Sample| sample.interfaces.iter().find(|one| one.name == *name).cloned();
        let directions = [
            Row::new(record, &format!("{name} in"), bits, |one| {
                of(one).map_or(0.0, |one| one.received_bytes_per_s as f64)
            }),
            Row::new(record, &format!("{name} out"), bits, |one| {
                of(one).map_or(0.0, |one| one.sent_bytes_per_s as f64)
            }),
        ];
        let packets = Row::new(record, &format!("{name} packets/s"), count, |one| {
            of(one).map_or(0.0, |one| (one.received_packets_per_s + one.sent_packets_per_s) as f64)
        });
        let directions = directions.into_iter().map(|row| match limit {
            Some(limit) => row.up_to(limit as f64),
            None => row,
        });
        rows.extend(directions.chain([packets]).filter_map(|row| row.if_above(1.0)));
    }
    rows.truncate(3 * MOST_INTERFACES);
    rows
}

fn verdict(page: &mut String, record: &ResourceRecord) {
    let verdict = &record.verdict;
    let Some((first, others)) = verdict.bottlenecks.split_first() else {
        line(page, format_args!("\nNothing ran out"));
        listed(page, &verdict.remarks);
        listed_under(page, "Not seen", &record.not_seen);
        return;
    };
    gave_out(page, "Gave out first", first);
    for other in others {
        gave_out(page, "Then", other);
    }
    listed_under(page, "Remarks", &verdict.remarks);
    listed_under(page, "Not seen", &record.not_seen);
}

fn gave_out(page: &mut String, when: &str, bottleneck: &Bottleneck) {
    let since = seconds(bottleneck.since);
    line(page, format_args!("\n{when}: {}, from {since} on", bottleneck.resource));
    listed(page, &bottleneck.evidence);
}

fn listed_under(page: &mut String, head: &str, sentences: &[String]) {
    if !sentences.is_empty() {
        line(page, format_args!("\n{head}"));
        listed(page, sentences);
    }
}

fn listed(page: &mut String, sentences: &[String]) {
    for sentence in sentences {
        wrapped(page, "  ", sentence);
    }
}

/// Breaks a sentence between words, but not between a number and its unit; a word that is too long
/// for a line is cut.
fn wrapped(page: &mut String, indent: &str, sentence: &str) {
    let mut text = indent.to_owned();
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    let words: Vec<&str> = sentence.split_whitespace().collect();
    for word in words.chunk_by(|one, next| is_number(one) && !is_number(next)) {
        let word = word.join(" ");
        let is_first = text.trim().is_empty();
        let width = text.chars().count() + word.chars().count() + usize::from(!is_first);
        if width > WIDTH && !is_first {
            line(page, format_args!("{text}"));
            text = format!("{indent}  ");
        } else if !is_first {
            text.push(' ');
        }
        let room = WIDTH - text.chars().count();
        text.extend(word.chars().take(room));
    }
    line(page, format_args!("{text}"));
}

/// A block for each sample; where there are too many, for the highest of several.
fn spark(values: &[f64], full: f64) -> String {
    let together = values.len().div_ceil(SPARK).max(1);
    let block = |part: &[f64]| {
        let most = part.iter().copied().fold(0.0, f64::max);
        let eighths = if full > 0.0 { (most / full * 8.0).ceil() } else { 0.0 };
        BLOCKS[(eighths as usize).min(BLOCKS.len() - 1)]
    };
    values.chunks(together).map(block).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn share_of_core(cores: f64) -> String {
    format!("{cores:.2}")
}

fn count(number: f64) -> String {
    if number < 9.95 { format!("{number:.1}") } else { format!("{number:.0}") }
}

fn bits(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    let units = [(1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s")];
    match units.into_iter().find(|(size, _)| bits >= *size) {
        Some((size, unit)) if bits / size < 99.95 => format!("{:.1}{unit}", bits / size),
        Some((size, unit)) => format!("{:.0}{unit}", bits / size),
        None => format!("{bits:.0}b/s"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}

const WIDTH: usize = 80;

/// Leaves 18 columns for the figures and 2 for space.
const LABEL: usize = 28;

/// Columns of a sparkline.
const SPARK: usize = WIDTH - LABEL - 20;

/// From nothing to full.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A part of the CPU below this takes no line.
const NOTABLE: f64 = 0.01;

/// More would push the verdict off the screen; the record has them all.
const MOST_PROCESSES: usize = 6;
const MOST_INTERFACES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_measure::record::{
        BottleneckVerdict, Cpu, Interface, InterfaceSample, Machine, Resource, Role, Sockets,
    };

    fn sample(second: u64) -> Sample {
        let busy = if second > 20 { 0.8 } else { 0.2 };
        let interface = InterfaceSample {
            name: "eth0".into(),
            sent_bytes_per_s: 22_500_000,
            received_bytes_per_s: 1_000_000,
            received_packets_per_s: 10_000,
            sent_packets_per_s: 15_000,
            dropped: 0,
        };
        let process = ProcessSample {
            pid: 812,
            user: busy,
            descriptors: Some(1_000),
            ..ProcessSample::default()
        };
        Sample {
            at: Duration::from_secs(second),
            cpu: Cpu { user: busy, idle: 1.0 - busy, ..Cpu::default() },
            running: 2,
            processes: vec![process],
            interfaces: vec![interface],
            sockets: Sockets { established: 140, ..Sockets::default() },
            ..Sample::default()
        }
    }

    fn record() -> ResourceRecord {
        let process = Process {
            pid: 812,
            name: "a-long-name-haproxy".into(),
            role: Role::LoadBalancer,
            from: Duration::ZERO,
            until: Duration::from_secs(60),
            ended: false,
            descriptor_limit: Some(1_024),
        };
        let interface = Interface { name: "eth0".into(), ..Interface::default() };
        let found = Bottleneck {
            resource: Resource::Network,
            since: Duration::from_secs(12),
            evidence: vec!["eth0 carried 22.5 MB/s ".repeat(8)],
        };
        ResourceRecord {
            target: "wrk -c 64 -t 4 -d 60s http://192.0.2.1:8080/".into(),
            interval: Duration::from_secs(1),
            elapsed: Duration::from_secs(60),
            machine: Machine { cores: 2, ephemeral_ports: 28_232, interfaces: vec![interface] },
            processes: vec![process],
            samples: (1..=60).map(sample).collect(),
            verdict: BottleneckVerdict { bottlenecks: vec![found], remarks: Vec::new() },
            not_seen: vec!["eth0 reports no speed; --net-limit tells its limit".into()],
            ..ResourceRecord::default()
        }
    }

    #[test]
    fn the_page_shows_each_resource_and_names_what_gave_out() {
        let page = write(&record());
        for part in [
            "watched: wrk -c 64",
            "60.0 s, 60 samples 1s apart",
            "CPU, 2 cores                     60 %     80 %  ▂▂▂▂▂▂▂▂▂▂▇▇▇▇",
            "lb a-long-name-haproxy[812]      0.60     0.80  ",
            "eth0 out                      180Mb/s  180Mb/s  ████",
            "eth0 packets/s                  25000    25000",
            "descriptors [812]                1000     1000  ████",
            "Gave out first: network rate, from 12.0 s on\n  eth0 carried",
            "Not seen\n  eth0 reports no speed",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(!page.contains("steal"), "{page}");
    }

    #[test]
    fn the_page_fits_a_terminal_whatever_it_is_told() {
        let mut long = record();
        long.target = "x".repeat(300) + " and more words";
        long.not_seen = vec!["w ".repeat(200)];
        for record in [record(), long, ResourceRecord::default()] {
            for line in write(&record).lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn nothing_that_gave_out_is_said_with_how_near_it_came() {
        let mut idle = record();
        idle.verdict = BottleneckVerdict {
            bottlenecks: Vec::new(),
            remarks: vec!["the machine's CPU was 20 % busy".into()],
        };
        assert!(write(&idle).contains("Nothing ran out\n  the machine's CPU was 20 % busy\n"));
    }

    #[test]
    fn a_sparkline_shows_peaks_even_where_samples_share_a_column() {
        let mut values = vec![0.0; 1_000];
        values[500] = 1.0;
        let drawn = spark(&values, 1.0);
        assert!(drawn.chars().count() <= SPARK);
        assert_eq!(drawn.chars().filter(|block| *block == '█').count(), 1);
        assert_eq!(spark(&[0.0, 0.1, 0.5, 1.0], 1.0), " ▁▄█");
        assert_eq!(spark(&[0.0], 0.0), " ");
    }
}
