//! A watched machine: CPU, network and sockets over time, and what gave out.

use loadline_measure::{
    record::{InterfaceSample, ProcessSample, ResourceRecord, Role, Sample},
    statistics::sample,
};

use super::{part, picture, text};
use crate::{
    figures::digits,
    page::{Block, Section},
    plot::{
        PlotError, Tone,
        lines::{Along, Chart, Kind, Line, Lines},
        panel::Stroke,
    },
    table::{Align, Table},
};

/// A watch of its own.
pub(super) fn section(name: &str, record: &ResourceRecord) -> Result<Section, PlotError> {
    let lines = Lines {
        title: format!("{} over time", record.target),
        description: evidence(record).join(" "),
        x_title: "seconds since the watch began".into(),
        x: Along::Time,
        charts: charts(record, 0.0),
        marks: gave_out(record),
    };
    let mut blocks = verdict(record);
    if !record.samples.is_empty() {
        blocks.push(picture(lines.draw()?));
    }
    blocks.push(Block::Details(processes(record)));
    Ok(part(format!("Resources {name}"), blocks))
}

/// The bottleneck in words.
pub(super) fn verdict(record: &ResourceRecord) -> Vec<Block> {
    evidence(record).into_iter().map(text).collect()
}

/// The charts of a watch that began so many seconds after what is drawn above them.
pub(super) fn charts(record: &ResourceRecord, offset: f64) -> Vec<Chart> {
    if record.samples.is_empty() {
        return Vec::new();
    }
    let line = |name: String, tone, of: &dyn Fn(&Sample) -> f64| Line {
        name,
        tone,
        stroke: Stroke::Thin,
        points: record
            .samples
            .iter()
            .map(|sample| ((sample.at.as_secs_f64() + offset).max(0.0), of(sample)))
            .collect(),
        dots: false,
    };
    let machine = vec![
        line("busy".into(), Tone::Run(0), &|sample| sample.cpu.busy() * 100.0),
        line("packets (softirq)".into(), Tone::Run(3), &|sample| sample.cpu.softirq * 100.0),
        line("steal".into(), Tone::Run(1), &|sample| sample.cpu.steal * 100.0),
    ];
    let processes = busiest(record).into_iter().enumerate().map(|(index, (pid, name))| {
        line(name, Tone::Run(index), &|sample| {
            let found = sample.processes.iter().find(|process| process.pid == pid);
            found.map_or(f64::NAN, ProcessSample::cores)
        })
    });
    let processes: Vec<_> = processes.collect();
    let network = interfaces(record).into_iter().enumerate().map(|(index, name)| {
        line(name.clone(), Tone::Run(index), &|sample| {
            let found = sample.interfaces.iter().find(|interface| interface.name == name);
            found.map_or(0.0, |interface| interface.busier_bytes_per_s() as f64 / 1e6)
        })
    });
    let network: Vec<_> = network.collect();
    let charts = [
        ("CPU of the machine, % of all cores", machine),
        ("CPU by process, cores", processes),
        ("network in the busier direction, MB/s", network),
    ];
    let chart =
        |(title, lines): (&str, Vec<Line>)| Chart { title: title.into(), lines, kind: Kind::Even };
    charts.into_iter().filter(|(_, lines)| !lines.is_empty()).map(chart).collect()
}

/// The processes that used most, with their names.
fn busiest(record: &ResourceRecord) -> Vec<(u32, String)> {
    let used = |pid: u32| -> f64 {
        let samples = record.samples.iter().flat_map(|sample| &sample.processes);
        samples.filter(|process| process.pid == pid).map(ProcessSample::cores).sum()
    };
    let mut all: Vec<_> = record.processes.iter().map(|one| (used(one.pid), one)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let name = |role: Role, name: &str, pid: u32| match role {
        Role::Watched => format!("{name} {pid}"),
        role => format!("{name} {pid} ({role})"),
    };
    let named = all.into_iter().take(MOST).map(|(_, one)| one);
    named.map(|one| (one.pid, name(one.role, &one.name, one.pid))).collect()
}

fn interfaces(record: &ResourceRecord) -> Vec<String> {
    let moved = |name: &str| -> u64 {
        let samples = record.samples.iter().flat_map(|sample| &sample.interfaces);
        samples
            .filter(|one| one.name == name)
            .map(InterfaceSample::busier_bytes_per_s)
            .max()
            .unwrap_or(0)
    };
    let mut names: Vec<_> = record.machine.interfaces.iter().map(|one| one.name.clone()).collect();
    names.retain(|name| moved(name) > 0);
    names.sort_by_key(|name| std::cmp::Reverse(moved(name)));
    names.truncate(MOST);
    names
}

fn gave_out(record: &ResourceRecord) -> Vec<(f64, String)> {
    let first = record.verdict.first();
    first.map(|one| (one.since.as_secs_f64(), one.resource.to_string())).into_iter().collect()
}

fn evidence(record: &ResourceRecord) -> Vec<String> {
    let verdict = &record.verdict;
    let mut lines: Vec<_> = verdict
        .bottlenecks
        .iter()
        .map(|one| {
            let since = digits(one.since.as_secs_f64());
            format!("Gave out {since} s in: {}. {}.", one.resource, one.evidence.join("; "))
        })
        .collect();
    if lines.is_empty() {
        lines.push("No resource ran out.".to_owned());
    }
    lines.extend(verdict.remarks.iter().map(|remark| format!("{remark}.")));
    lines.extend(record.not_seen.iter().map(|what| format!("Not seen: {what}.")));
    lines
}

fn processes(record: &ResourceRecord) -> Table {
    let headings = ["process", "number", "part", "CPU, mean cores", "CPU, most"];
    let mut table = Table::new("Watched processes", &headings);
    table.columns[2].align = Align::Left;
    for process in &record.processes {
        let samples = record.samples.iter().flat_map(|sample| &sample.processes);
        let cores: Vec<_> =
            samples.filter(|one| one.pid == process.pid).map(ProcessSample::cores).collect();
        let mean = sample::mean(&cores);
        table.push([
            process.name.as_str().into(),
            process.pid.to_string().into(),
            process.role.to_string().into(),
            digits(mean).into(),
            digits(cores.iter().copied().fold(0.0, f64::max)).into(),
        ]);
    }
    table
}

/// Lines of one chart that can be told apart.
const MOST: usize = 6;

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;
    use loadline_measure::record::{Bottleneck, BottleneckVerdict, Resource};

    use super::*;

    #[test]
    fn the_findings_of_a_watch_are_told_apart() {
        let bottleneck = Bottleneck {
            resource: Resource::Network,
            since: Duration::from_secs(12),
            evidence: vec!["eth0 carried 22.5 MB/s".into(), "the CPU was 60 % busy".into()],
        };
        let remarks = vec!["other processes disturb this run".into()];
        let verdict = BottleneckVerdict { bottlenecks: vec![bottleneck], remarks };
        let told = evidence(&ResourceRecord { verdict, ..ResourceRecord::default() });
        let expected = [
            "Gave out 12.0 s in: network rate. eth0 carried 22.5 MB/s; the CPU was 60 % busy.",
            "other processes disturb this run.",
        ];
        assert_eq!(told, expected);
    }
}
