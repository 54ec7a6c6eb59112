//! The way of one request, decision by decision.

use loadline_measure::record::{ExplainedGroup, ExplainedStep, ExplanationRecord};

use super::part;
use crate::{
    figures::{digits, millis},
    page::{Block, Section},
    table::{Align, Table},
};

pub(super) fn section(name: &str, explanation: &ExplanationRecord) -> Section {
    let tables = explanation_tables(explanation).into_iter().map(Block::Table);
    part(format!("{name}: request {}", explanation.request), tables.collect())
}

/// What happened to the request, and for each decision what the edge saw.
#[must_use]
pub fn explanation_tables(explanation: &ExplanationRecord) -> Vec<Table> {
    let caption = format!(
        "Request {} of {}, which asks {}: {:.3} s after the start, {} in all",
        explanation.request,
        explanation.source,
        explanation.service,
        explanation.at.as_secs_f64(),
        millis(explanation.took),
    );
    let mut way = Table::new(caption, &["what", "after"]);
    for step in &explanation.steps {
        way.push([step.what.as_str().into(), millis(step.after).into()]);
    }
    let decisions = explanation.steps.iter().filter(|step| !step.groups.is_empty());
    std::iter::once(way).chain(decisions.flat_map(decision)).collect()
}

fn decision(step: &ExplainedStep) -> Vec<Table> {
    let caption = format!("Just before it {}, after {}", step.what, millis(step.after));
    let headings = ["group", "distance", "servers", "in flight", "last second", ""];
    let mut groups = Table::new(caption, &headings);
    groups.columns[5].align = Align::Left;
    for group in &step.groups {
        groups.push([
            group.name.as_str().into(),
            group.distance_ms.map_or("-".into(), |it| format!("{} ms", digits(it)).into()),
            format!("{} of {}", group.ready, group.servers).into(),
            limited(group.in_flight, group.max_in_flight.map(|it| it.to_string())).into(),
            limited(group.last_second, group.max_rate_per_s.map(digits)).into(),
            mark(group.chosen).into(),
        ]);
    }
    let chosen = step.groups.iter().find(|group| group.chosen).map(servers);
    std::iter::once(groups).chain(chosen).collect()
}

fn servers(group: &ExplainedGroup) -> Table {
    let mut table =
        Table::new(format!("Servers of {}", group.name), &["server", "ready", "in flight", ""]);
    table.columns[3].align = Align::Left;
    for server in &group.candidates {
        table.push([
            server.address.as_str().into(),
            if server.ready { "yes".into() } else { "no".into() },
            server.in_flight.to_string().into(),
            mark(server.chosen).into(),
        ]);
    }
    table
}

fn limited(count: u32, limit: Option<String>) -> String {
    limit.map_or(count.to_string(), |limit| format!("{count} of {limit}"))
}

fn mark(chosen: bool) -> &'static str {
    if chosen { "<- chosen" } else { "" }
}
