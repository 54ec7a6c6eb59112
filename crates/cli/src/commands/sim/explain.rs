//! `loadline sim explain`: the way of one request, decision by decision.

use std::{fmt::Write as _, process::ExitCode};

use anyhow::Context as _;
use loadline_measure::record::{Document, Record};
use loadline_report::{Named, explanation_tables};
use loadline_sim::explanation::explain;

use super::{
    args::Explain,
    inputs::{InputError, Inputs},
    write_page,
};
use crate::commands::bench::EXIT_BREACHED;

pub(super) fn run(args: &Explain) -> anyhow::Result<ExitCode> {
    let inputs = Inputs::read(&args.common)?;
    let scenario = inputs.scenario(&inputs.traffic, inputs.factor);
    let (explanation, run) = explain(&scenario, args.request.0).map_err(InputError::from)?;
    let objective = args.common.slo.as_ref().map(|objective| objective.judge(&run));
    let tables = explanation_tables(&explanation);
    let record = Record::Explanation(explanation);
    if let Some(path) = &args.common.report {
        let explained = Named { name: "explain".to_owned(), record: record.clone() };
        let whole = Named { name: "the whole run".to_owned(), record: Record::Load(run) };
        write_page(&args.common, path, &[explained, whole])?;
    }
    let text = if args.common.json {
        let json = serde_json::to_string_pretty(&Document::new(record));
        json.context("writing the record as JSON")? + "\n"
    } else {
        let mut page = String::new();
        for (index, table) in tables.iter().enumerate() {
            let between = if index == 0 { "" } else { "\n" };
            let _ = write!(page, "{between}{}\n{table}", table.caption);
        }
        page
    };
    crate::commands::print(&text)?;
    let is_met = objective.is_none_or(|objective| objective.is_met());
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(EXIT_BREACHED) })
}
