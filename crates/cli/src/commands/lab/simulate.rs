//! `loadline lab simulate`: a study in the simulator, beside what the lab measured.
//!
//! ```text
//! study --plan--> steps --hosts, front, scenario--> simulation --> phases --judge--> figures
//! ```
//! A phase that cannot be simulated is left out with the reason.

mod front;
mod load;
mod measured;
mod row_hosts;
mod run;
mod scenario;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use loadline_lab::study::{self, Command, Conditions, Mode, Places, Plan, Step, Study};
use loadline_measure::record::{
    Agreement, Document, Record, StudyPhase, StudyRecord, StudyRow, StudySimulation,
};

use super::{find, folder, present, print, usage};
use crate::commands::EXIT_VERDICT;
use row_hosts::{RowHosts, Running, What};
use scenario::Setting;

/// Simulate a study from its file, and compare with what the lab measured
///
/// No program is started: test servers, edges and the load generator of the study are models; the
/// code that decides is that of `loadline serve`. What cannot be simulated is listed with the
/// reason.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Studies: names from `loadline lab list`, or files
    #[arg(required = true, value_name = "STUDY")]
    studies: Vec<String>,
    /// Measurements of the lab: a folder of `lab run`, or one with pages of `--markdown`
    #[arg(long, value_name = "FOLDER")]
    beside: Option<PathBuf>,
    /// Shortened, as the study says
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the record as JSON; one study only
    #[arg(long)]
    json: bool,
    /// Write a page for docs/studies; text written by hand stays
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write a page to this file, as HTML
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.json && args.studies.len() > 1 {
        return Ok(usage("--json prints one record; name one study"));
    }
    let mode = if args.quick { Mode::Quick } else { Mode::Full };
    let mut studies = Vec::new();
    for name in &args.studies {
        match Study::load(&find::study(name), mode) {
            Ok(study) => studies.push(study),
            Err(errors) => return Ok(crate::commands::print_errors(errors)),
        }
    }
    folder::check_page(args.markdown.as_deref())?;
    folder::check_page(args.report.as_deref())?;
    let records = studies.iter().map(|study| record(study, args));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    if let Some(file) = &args.markdown {
        folder::write_agreement(file, &records)?;
    }
    if let Some(file) = &args.report {
        let page = loadline_report::agreement_page(&records).html();
        std::fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let text = match records.as_slice() {
        [record] if args.json => {
            let document = Document::new(Record::Study(record.clone()));
            serde_json::to_string_pretty(&document)? + "\n"
        }
        records => records.iter().map(present::agreement).collect(),
    };
    print(&text)?;
    let agrees = records.iter().all(|record| simulation_of(record).is_none_or(agrees));
    Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::from(EXIT_VERDICT) })
}

/// A study as the simulator has it, beside what the lab measured.
fn record(study: &Study, args: &Args) -> anyhow::Result<StudyRecord> {
    let all = study.rows().iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    let mut record = simulated(study, &all, args.seed);
    let Some(lab) = record.lab.as_deref_mut() else { return Ok(record) };
    let measured = match &args.beside {
        Some(folder) => measured::read(folder, lab).with_context(|| {
            format!("cannot read what the lab measured of {}", study.short_name())
        })?,
        None => measured::Measured::default(),
    };
    let source = (measured.source.as_str(), measured.figures.as_slice());
    lab.simulation = Some(Box::new(study::compare(study, source, lab)));
    Ok(record)
}

/// Adds what the simulator says to a study that was measured in the lab.
pub(super) fn beside(study: &Study, rows: &[String], seed: u64, record: &mut StudyRecord) {
    let simulated = simulated(study, rows, seed);
    if let (Some(lab), Some(simulated)) = (record.lab.as_deref_mut(), simulated.lab.as_deref()) {
        let compared = study::compare(study, ("this run", &lab.figures), simulated);
        lab.simulation = Some(Box::new(compared));
    }
}

/// What was compared of a study.
pub(super) fn simulation_of(record: &StudyRecord) -> Option<&StudySimulation> {
    record.lab.as_deref()?.simulation.as_deref()
}

/// Whether nothing differs that the study does not explain.
pub(super) fn agrees(simulation: &StudySimulation) -> bool {
    simulation.figures.iter().all(|figure| figure.agreement != Agreement::Differs)
}

/// A study as the simulator has it.
fn simulated(study: &Study, rows: &[String], seed: u64) -> StudyRecord {
    let mut conditions = Conditions {
        seed,
        environment: [("simulated".to_owned(), "yes: nothing was measured".to_owned())].into(),
        ..Conditions::default()
    };
    let mut phases = Vec::new();
    for row in study.rows() {
        let mut row = row.clone();
        row.skipped = left_out(&row, rows);
        if row.skipped.is_none() {
            let places = Places { seed, ..Places::default() };
            phases.extend(simulate_row(&study.plan(&row.name, &places), seed));
        }
        conditions.rows.push(row);
    }
    study::judge(study, conditions, phases)
}

fn left_out(row: &StudyRow, rows: &[String]) -> Option<String> {
    if !rows.contains(&row.name) {
        return Some("not asked for".to_owned());
    }
    let peer = row.peer.as_ref()?;
    Some(format!("{peer} is another program; loadline's own code is simulated"))
}

fn simulate_row(plan: &Plan, seed: u64) -> Vec<StudyPhase> {
    let mut hosts = RowHosts::new(plan);
    let sleeps =
        |one: &&Running| matches!(&one.what, What::Worker(config) if config.sleep.is_some());
    let mut asleep: BTreeSet<String> =
        hosts.programs.iter().filter(sleeps).map(|one| one.name.clone()).collect();
    let mut phases = Vec::new();
    for step in &plan.steps {
        step.before.iter().for_each(|verb| hosts.act(verb));
        if let Some(command) = &step.command {
            phases.push(simulate_step(&hosts, plan, step, command, &mut asleep, seed));
        }
        let meanwhile = step.during.iter().map(|action| &action.verb);
        meanwhile.chain(&step.after).for_each(|verb| hosts.act(verb));
    }
    phases
}

fn simulate_step(
    hosts: &RowHosts,
    plan: &Plan,
    step: &Step,
    command: &Command,
    asleep: &mut BTreeSet<String>,
    seed: u64,
) -> StudyPhase {
    let mut phase = StudyPhase {
        row: plan.row.clone(),
        phase: step.phase.clone(),
        at: step.at.clone(),
        repeat: step.repeat,
        ..StudyPhase::default()
    };
    let mut simulate = |command: &Command| {
        let seed = seed ^ u64::from(step.repeat) << 32;
        simulate_command(hosts, plan, step, command, asleep, seed)
    };
    let others: BTreeMap<String, Record> = step
        .beside
        .iter()
        .filter_map(|(name, command)| Some((name.clone(), simulate(command).ok()?)))
        .collect();
    match simulate(command) {
        Ok(record) => {
            if let Record::Load(load) = &record {
                phase.elapsed_s = load.elapsed.as_secs_f64();
            }
            phase.record = Some(Box::new(record));
            phase.beside = others;
        }
        Err(reason) => (phase.skipped, phase.failed) = (true, Some(reason)),
    }
    phase
}

fn simulate_command(
    hosts: &RowHosts,
    plan: &Plan,
    step: &Step,
    command: &Command,
    asleep: &mut BTreeSet<String>,
    seed: u64,
) -> Result<Record, String> {
    let load = load::plan(hosts, &command.arguments)?;
    let client = hosts.topology.host(&command.host).ok_or("its host is not in the lab")?;
    let coming = load::coming(&load)?;
    let setting = Setting { hosts, plan, step, client, load: &load, asleep, seed };
    let experiment = setting.experiment(coming)?;
    let record = run::run(&experiment, &load);
    asleep.retain(|name| !experiment.woken.contains(name));
    Ok(Record::Load(record))
}

const AFTER_HELP: &str = "\
Examples:
  loadline lab simulate capacity
  loadline lab simulate capacity --beside lab-runs/capacity-1795245614
  loadline lab simulate capacity policies small-box --beside docs/studies --markdown agreement.md
  loadline lab run capacity --sim

A line a figure that differs: DIFFERS name lab simulation (band), or EXPLAINED where the study says
why. Averages, counts and rates may be 10 % apart, percentiles and extremes 15 %; a level that a
curve reaches has to be reached at the same step.

Exit codes: 0 nothing differs that the study does not explain, 1 wrong usage or study, 2 failed
while reading or writing, 3 a figure differs.";
