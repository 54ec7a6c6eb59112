//! How many servers each group needs, and what shows it.

use loadline_measure::record::{PlanRecord, PlannedGroup, RunCount};

use super::{part, picture, text};
use crate::{
    figures::{digits, millis},
    page::{Block, Section},
    plot::{
        PlotError, Tone,
        bars::{Bars, Group},
    },
    table::{Align, Table},
};

pub(super) fn section(name: &str, plan: &PlanRecord) -> Result<Section, PlotError> {
    let mut blocks = vec![text(plan_verdict(plan)), picture(sizes(plan).draw()?)];
    blocks.extend(plan_tables(plan).into_iter().map(Block::Table));
    Ok(part(format!("{name}: servers needed"), blocks))
}

/// What was found, in one sentence.
#[must_use]
pub fn plan_verdict(plan: &PlanRecord) -> String {
    let sum = |of: fn(&PlannedGroup) -> u32| plan.groups.iter().map(of).sum::<u32>();
    let (now, needed) = (sum(|it| it.servers_now), sum(|it| it.servers));
    let objective = &plan.objective;
    if plan.met {
        return format!("{needed} servers (now {now}) hold {objective} in every case.");
    }
    if plan.groups.is_empty() {
        return format!("All servers are drained: nothing is there that could hold {objective}.");
    }
    let held = plan.cases.iter().map(|case| case.held);
    let (runs, of) = held.fold((0, 0), |(runs, of), it| (runs + it.runs, of + it.of));
    format!(
        "{needed} servers (now {now}) hold {objective} in {runs} of {of} runs, not in all, and \
         more do not change that: look at what a request takes at its server and on its way."
    )
}

/// What is needed where, and how it goes with that.
#[must_use]
pub fn plan_tables(plan: &PlanRecord) -> [Table; 2] {
    [groups(plan), cases(plan)]
}

fn groups(plan: &PlanRecord) -> Table {
    let headings = ["group", "region", "now", "needed", "may /s", "most /s", "in", "one less"];
    let mut table = Table::new("Servers that each group needs", &headings);
    table.columns[1].align = Align::Left;
    table.columns[6].align = Align::Left;
    for group in &plan.groups {
        table.push([
            format!("{}/{}", group.service, group.name).into(),
            group.region.as_str().into(),
            group.servers_now.to_string().into(),
            group.servers.to_string().into(),
            group.max_rate_per_s.map_or("-".into(), |rate| digits(rate).into()),
            digits(group.load_per_s).into(),
            group.load_in.as_str().into(),
            group.breached_with_one_less.map_or("-".into(), breached).into(),
        ]);
    }
    table
}

fn breached(count: RunCount) -> String {
    format!("breached {}/{}", count.runs, count.of)
}

fn cases(plan: &PlanRecord) -> Table {
    let headings = ["case", "objective held", "p50", "p99", "failed", "measured"];
    let mut table = Table::new("How it goes with these servers", &headings);
    table.columns[5].align = Align::Left;
    for case in &plan.cases {
        table.push([
            case.name.as_str().into(),
            format!("{}/{} runs", case.held.runs, case.held.of).into(),
            millis(case.response.p50).into(),
            millis(case.response.p99).into(),
            case.outcomes.failed().to_string().into(),
            case.measured.join(", ").into(),
        ]);
    }
    table
}

fn sizes(plan: &PlanRecord) -> Bars {
    let group = |it: &PlannedGroup| Group {
        name: format!("{}/{}", it.service, it.name),
        values: vec![Some(f64::from(it.servers_now)), Some(f64::from(it.servers))],
    };
    Bars {
        title: "Servers of each group, now and needed".to_owned(),
        description: plan_verdict(plan),
        quantity: "servers".to_owned(),
        each: "group".to_owned(),
        parts: vec![("now".to_owned(), Tone::Cool), ("needed".to_owned(), Tone::Warm)],
        groups: plan.groups.iter().map(group).collect(),
    }
}
