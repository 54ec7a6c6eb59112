//! A simulated run: where requests went, against what each group may be given, and what edges
//! noticed.

mod caches;

use loadline_measure::record::{GroupMoment, LoadRecord, SimulatedGroup, SimulationRecord};

use super::{Run, part, picture};
use crate::{
    figures::{digits, millis},
    page::{Block, Section},
    plot::{
        PlotError, Tone,
        lines::{Along, Chart, Kind, Line, Lines},
        panel::Stroke,
        picture::Picture,
    },
    table::{Align, Table},
};

/// The sections of simulated runs; none where none is.
pub(super) fn sections(runs: &[Run<'_>]) -> Result<Vec<Section>, PlotError> {
    let simulated = runs.iter().filter_map(|run| Some((run, run.record.simulation.as_ref()?)));
    simulated.map(|(run, simulation)| section(run, simulation)).collect()
}

fn section(run: &Run<'_>, simulation: &SimulationRecord) -> Result<Section, PlotError> {
    let mut blocks: Vec<Block> =
        simulation_tables(run.record).into_iter().map(Block::Table).collect();
    for (service, groups) in by_service(&simulation.groups) {
        let title = format!("{}: load of the groups of {service}", run.label);
        blocks.insert(1, picture(against_capacity(title, &groups)?));
    }
    for cache in &simulation.caches {
        let title = format!("{}: the cache of the edge in {}", run.label, cache.edge);
        blocks.push(picture(caches::over_time(title, cache)?));
    }
    Ok(part(format!("{}: where requests went", run.label), blocks))
}

/// Where the requests of a simulated run went, where they came from, and what edges noticed; empty
/// where the run was not simulated.
#[must_use]
pub fn simulation_tables(record: &LoadRecord) -> Vec<Table> {
    let Some(simulation) = &record.simulation else { return Vec::new() };
    let mut tables = vec![groups(simulation)];
    if !simulation.caches.is_empty() {
        tables.push(caches::table(&simulation.caches));
    }
    if simulation.sources.len() > 1 {
        tables.push(sources(simulation));
    }
    if !simulation.reasons.is_empty() {
        tables.push(reasons(simulation));
    }
    if !simulation.notices.is_empty() {
        tables.push(notices(simulation));
    }
    tables
}

fn groups(simulation: &SimulationRecord) -> Table {
    let headings =
        ["group", "region", "load over time", "requests", "overflow", "peak /s", "may /s"];
    let mut table = Table::new("Where requests went", &headings);
    table.columns[1].align = Align::Left;
    table.columns[2].align = Align::Left;
    for group in &simulation.groups {
        let most = group.moments.iter().filter_map(|it| it.max_rate_per_s).fold(f64::NAN, f64::max);
        table.push([
            format!("{}/{}", group.service, group.name).into(),
            group.region.as_str().into(),
            spark(&group.moments).into(),
            group.requests.to_string().into(),
            group.overflowed.to_string().into(),
            digits(group.peak_per_s).into(),
            if most.is_nan() { "-".into() } else { digits(most).into() },
        ]);
    }
    table
}

/// The load over time, in the width of a table's column: against what may be given where that is
/// limited, else against its own peak.
fn spark(moments: &[GroupMoment]) -> String {
    let limit = |it: &GroupMoment| it.max_rate_per_s.filter(|limit| *limit > 0.0);
    let peak = moments.iter().map(|it| it.rate_per_s).fold(f64::MIN_POSITIVE, f64::max);
    let per_bar = moments.len().div_ceil(SPARK_WIDTH).max(1);
    let bars = moments.chunks(per_bar).map(|some| {
        let fullness = some.iter().map(|it| it.rate_per_s / limit(it).unwrap_or(peak));
        let mean = fullness.sum::<f64>() / some.len() as f64;
        let level = (mean * (BARS.len() - 1) as f64).round() as usize;
        BARS[level.min(BARS.len() - 1)]
    });
    bars.collect()
}

fn sources(simulation: &SimulationRecord) -> Table {
    let headings = ["source", "edge", "service", "requests", "failed", "p50", "p99"];
    let mut table = Table::new("Where requests came from", &headings);
    table.columns[1].align = Align::Left;
    table.columns[2].align = Align::Left;
    for source in &simulation.sources {
        table.push([
            source.name.as_str().into(),
            source.edge.as_str().into(),
            source.service.as_str().into(),
            source.outcomes.total().to_string().into(),
            source.outcomes.failed().to_string().into(),
            millis(source.response.p50).into(),
            millis(source.response.p99).into(),
        ]);
    }
    table
}

fn reasons(simulation: &SimulationRecord) -> Table {
    let mut table = Table::new("Why edges failed requests", &["reason", "requests"]);
    for (reason, requests) in &simulation.reasons {
        table.push([reason.as_str().into(), requests.to_string().into()]);
    }
    table
}

fn notices(simulation: &SimulationRecord) -> Table {
    let mut table = Table::new("What edges noticed", &["what", "edge", "group", "at"]);
    table.columns[1].align = Align::Left;
    table.columns[2].align = Align::Left;
    for notice in simulation.notices.iter().take(NOTICES) {
        table.push([
            notice.what.as_str().into(),
            notice.edge.as_str().into(),
            format!("{}/{}", notice.service, notice.group).into(),
            format!("{:.2} s", notice.at.as_secs_f64()).into(),
        ]);
    }
    let more = simulation.notices.len().saturating_sub(NOTICES);
    if more > 0 {
        table.push([format!("and {more} more").into()]);
    }
    table
}

/// The groups of each service, in the order of the file.
fn by_service(groups: &[SimulatedGroup]) -> Vec<(&str, Vec<&SimulatedGroup>)> {
    let mut services: Vec<(&str, Vec<&SimulatedGroup>)> = Vec::new();
    for group in groups {
        match services.iter_mut().find(|(service, _)| *service == group.service) {
            Some((_, known)) => known.push(group),
            None => services.push((&group.service, vec![group])),
        }
    }
    services
}

/// The rate of each group, and what it may be given.
fn against_capacity(title: String, groups: &[&SimulatedGroup]) -> Result<Picture, PlotError> {
    let charts = groups.iter().enumerate().map(|(index, group)| {
        let points = |of: fn(&GroupMoment) -> f64| {
            group.moments.iter().map(|it| (it.at.as_secs_f64(), of(it))).collect()
        };
        let line = |name: &str, tone, stroke, points| Line {
            name: name.to_owned(),
            tone,
            stroke,
            points,
            dots: false,
        };
        let load = points(|it| it.rate_per_s);
        let limit: Vec<(f64, f64)> = points(|it| it.max_rate_per_s.unwrap_or(f64::NAN));
        let mut lines = vec![line("load", Tone::Run(index), Stroke::Thick, load)];
        if limit.iter().any(|(_, limit)| !limit.is_nan()) {
            lines.push(line("capacity", Tone::Warm, Stroke::Dashed, limit));
        }
        Chart { title: format!("{}, requests/s", group.name), lines, kind: Kind::Even }
    });
    let told = groups.iter().map(|group| {
        format!("{}: {} requests, {} overflowed.", group.name, group.requests, group.overflowed)
    });
    let lines = Lines {
        title,
        description: told.collect::<Vec<_>>().join(" "),
        x_title: "simulated seconds".into(),
        x: Along::Time,
        charts: charts.collect(),
        marks: Vec::new(),
    };
    lines.draw()
}

/// Levels of a load, from none to full.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Leaves room for the figures on 80 columns.
const SPARK_WIDTH: usize = 24;

/// More than anyone reads in a table; the record has all.
const NOTICES: usize = 20;
