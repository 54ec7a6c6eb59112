//! `loadline sim policies`: every policy on the same requests, ranked.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use anyhow::Context as _;
use indicatif::ProgressBar;
use loadline_core::fleet::PolicyKind;
use loadline_measure::record::{Document, Record, RunCount};
use loadline_report::{Named, ranking_table};
use loadline_sim::ranking::{self, Ranking};

use super::{args::Policies, inputs::Inputs, write_page};
use crate::commands::bench::EXIT_BREACHED;

/// What is to be known of some policies.
const NOTES: &str = "* as configured\n\
                     prequal has the probes of its publication here, which `serve` does not send";

pub(super) fn run(args: &Policies) -> anyhow::Result<ExitCode> {
    let inputs = Inputs::read(&args.common)?;
    let scenario = inputs.scenario(&inputs.traffic, inputs.factor);
    let bar =
        if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let objective = args.common.slo.as_ref();
    let mut progress = |policy: PolicyKind| {
        bar.inc(1);
        bar.set_message(format!("run {}: {}", bar.position(), policy.name()));
    };
    let threads = args.threads.get();
    let Ranking { record, runs } =
        ranking::rank(&scenario, args.seeds, objective, threads, &mut progress);
    bar.finish_and_clear();
    let met = record.policies.first().and_then(|first| first.met);
    let is_met = met.is_none_or(|RunCount { runs, of }| runs == of);
    let text = if args.common.json {
        let document = Document::new(Record::Ranking(record.clone()));
        serde_json::to_string_pretty(&document).context("writing the record as JSON")? + "\n"
    } else {
        let table = ranking_table(&record);
        format!("{}\n\n{}\n{table}\n{NOTES}\n", record.reason, table.caption)
    };
    if let Some(path) = &args.common.report {
        let ranking = Named { name: "ranking".to_owned(), record: Record::Ranking(record) };
        let run = |(name, record)| Named { name, record: Record::Load(record) };
        let all: Vec<Named> = std::iter::once(ranking).chain(runs.into_iter().map(run)).collect();
        write_page(&args.common, path, &all)?;
    }
    crate::commands::print(&text)?;
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(EXIT_BREACHED) })
}
