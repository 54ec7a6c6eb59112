//! `loadline sim what-if`: the same traffic with a change, beside itself without it.

use std::{fmt::Write as _, process::ExitCode};

use loadline_measure::record::LoadRecord;
use loadline_report::{Table, millis, simulation_tables};
use loadline_sim::parallel;

use super::{
    args::{WhatIf, percent},
    exit_code,
    inputs::{InputError, Inputs},
    json, write_report,
};

pub(super) fn run(args: &WhatIf) -> anyhow::Result<ExitCode> {
    let inputs = Inputs::read(&args.common)?;
    let faults = args.faults(inputs.traffic.scenario.lasts);
    if faults.is_empty() && inputs.factor == 1.0 {
        return Err(InputError::NoChange.into());
    }
    for fault in &faults {
        inputs.find(fault)?;
    }
    let mut changed = inputs.traffic.clone();
    changed.scenario.faults.extend(faults.iter().cloned());
    // With nothing else, the traffic is the change.
    let before_factor = if faults.is_empty() { 1.0 } else { inputs.factor };
    let runs = [(&inputs.traffic, before_factor), (&changed, inputs.factor)];
    let run = |at: usize| inputs.simulate_times(runs[at].0, runs[at].1);
    let both = parallel::map(args.threads.get(), runs.len(), run, &mut |_| {});
    let Ok([before, mut after]) = <[LoadRecord; 2]>::try_from(both) else {
        anyhow::bail!("a run has no result")
    };
    inputs.came(&before)?;
    after.objective = args.common.slo.as_ref().map(|objective| objective.judge(&after));
    write_report(&args.common, &[("as it is", &before), ("what if", &after)])?;
    let text = if args.common.json { json(&after)? } else { page(&before, &after) };
    crate::commands::print(&text)?;
    Ok(exit_code(&after))
}

fn page(before: &LoadRecord, after: &LoadRecord) -> String {
    let mut page = beside(before, after).to_string();
    for (name, record) in [("As it is", before), ("What if", after)] {
        for table in simulation_tables(record) {
            let caption = format!("{name}: {}", table.caption);
            let _ = write!(page, "\n{caption}\n{table}");
        }
    }
    if let Some(objective) = &after.objective {
        let verdict = if objective.is_met() { "met" } else { "breached" };
        let _ = writeln!(page, "\nobjective {verdict}");
    }
    page
}

fn beside(before: &LoadRecord, after: &LoadRecord) -> Table {
    let mut table = Table::new("As it is, and what if", &["", "as it is", "what if"]);
    let mut row = |name: &str, of: &dyn Fn(&LoadRecord) -> String| {
        table.push([name.into(), of(before).into(), of(after).into()]);
    };
    row("requests", &|it| it.planned.to_string());
    row("ok", &|it| percent(it.outcomes.ok, it.planned));
    row("failed", &|it| it.outcomes.failed().to_string());
    row("overflowed", &|it| {
        let groups = it.simulation.iter().flat_map(|it| &it.groups);
        groups.map(|group| group.overflowed).sum::<u64>().to_string()
    });
    if before.simulation.as_ref().is_some_and(|it| !it.caches.is_empty()) {
        row("answered by caches", &|it| {
            let caches = it.simulation.iter().flat_map(|it| &it.caches);
            let (hits, all) =
                caches.fold((0, 0), |(hits, all), it| (hits + it.hits, all + it.requests));
            percent(hits, all)
        });
    }
    row("waited for capacity", &|it| it.simulation.as_ref().map_or(0, |it| it.queued).to_string());
    row("mean", &|it| millis(it.response.mean));
    row("p50", &|it| millis(it.response.p50));
    row("p95", &|it| millis(it.response.p95));
    row("p99", &|it| millis(it.response.p99));
    row("longest", &|it| millis(it.response.max));
    table
}
