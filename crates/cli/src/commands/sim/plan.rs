//! `loadline sim plan`: how many servers each group needs.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use anyhow::Context as _;
use indicatif::ProgressBar;
use loadline_measure::record::{Document, Record};
use loadline_report::{Named, plan_tables, plan_verdict};
use loadline_sim::{
    Scenario,
    planning::{self, Loss, Question},
};

use super::{
    args::{Plan, Surviving},
    inputs::{InputError, Inputs},
    write_page,
};
use crate::commands::bench::EXIT_BREACHED;

pub(super) fn run(args: &Plan) -> anyhow::Result<ExitCode> {
    let inputs = Inputs::read(&args.common)?;
    let Some(objective) = args.common.slo.clone() else {
        return Err(InputError::NoObjective.into());
    };
    let scenario = inputs.scenario(&inputs.traffic, inputs.factor);
    let losses = losses(&args.survive, &inputs, &scenario)?;
    let bar =
        if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let question = Question { scenario, losses, objective };
    let mut progress = |servers| {
        bar.inc(1);
        bar.set_message(format!("try {}: {servers} servers", bar.position()));
    };
    let planning::Plan { record, runs } =
        planning::plan(&question, args.threads.get(), &mut progress);
    bar.finish_and_clear();
    let (met, verdict, tables) = (record.met, plan_verdict(&record), plan_tables(&record));
    if let Some(path) = &args.common.report {
        let plan = Named { name: "plan".to_owned(), record: Record::Plan(record.clone()) };
        let run = |(name, record)| Named { name, record: Record::Load(record) };
        let all: Vec<Named> = std::iter::once(plan).chain(runs.into_iter().map(run)).collect();
        write_page(&args.common, path, &all)?;
    }
    let text = if args.common.json {
        let document = Document::new(Record::Plan(record));
        serde_json::to_string_pretty(&document).context("writing the record as JSON")? + "\n"
    } else {
        let mut page = format!("{verdict}\n");
        for table in tables {
            let _ = write!(page, "\n{}\n{table}", table.caption);
        }
        let _ = writeln!(
            page,
            "\n{} sizes tried, {} requests simulated",
            record.tried, record.simulated
        );
        page
    };
    crate::commands::print(&text)?;
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(EXIT_BREACHED) })
}

/// What may be lost, and leaves something.
fn losses(
    survive: &[Surviving],
    inputs: &Inputs,
    scenario: &Scenario,
) -> Result<Vec<Loss>, InputError> {
    let fleet = inputs.fleet();
    let mut losses = Vec::new();
    for surviving in survive {
        match surviving {
            Surviving::Nothing => {}
            Surviving::AnyRegion => losses.extend(Loss::of_regions(scenario)),
            Surviving::AnyGroup => losses.extend(Loss::of_groups(fleet)),
            Surviving::AnyServer => losses.extend(Loss::of_servers(scenario)),
            Surviving::These(name, whom) => {
                if !inputs.is_of_edge(whom) {
                    inputs.find_server(whom)?;
                }
                losses.push(Loss { name: name.clone(), whom: whom.clone() });
            }
        }
    }
    for loss in &losses {
        if let Some(service) = loss.leaves_nothing_of(fleet) {
            let advice = match loss.whom.server {
                Some(_) => "give it a second one, or say that none may be lost: --survive nothing",
                None => "say what else may be lost: --survive any-server",
            };
            let (service, loss) = (service.to_owned(), loss.name.clone());
            return Err(InputError::NothingLeft { service, loss, advice });
        }
    }
    Ok(losses)
}
