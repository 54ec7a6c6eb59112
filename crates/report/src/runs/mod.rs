//! A page from records: what `loadline report` writes.
//!
//! Load runs come first and are drawn over each other, since a run alone says little: the table of
//! all of them, response time against rate, latency by percentile, phases, then each run on its
//! own time axis. Capacity searches, probes, watched machines, comparisons and formulas follow,
//! each in a section of its own. A run that is invalid is called so wherever it is named.

mod agreement;
mod capacity;
mod check;
mod comparison;
mod explanation;
mod formula;
mod load;
mod plan;
mod probe;
mod ranking;
mod resources;
mod simulation;
mod slices;
mod study;
mod timeline;

use loadline_measure::record::{Arrivals, LoadModel, LoadRecord, Record, StudyRun};

use crate::{
    figures::{per_second, utc},
    page::{Block, Page, Section},
    plot::{PlotError, picture::Picture},
};

pub(crate) use agreement::SIMULATION;
pub use agreement::{agreement_page, agreement_reasons, agreement_table};
pub use explanation::explanation_tables;
pub use plan::{plan_tables, plan_verdict};
pub use ranking::ranking_table;
pub use simulation::simulation_tables;
pub(crate) use study::HEADINGS;
pub use study::{study_notes, study_page, study_tables};

/// A record and what to call it.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Unique among the records of a page.
    pub name: String,
    /// What was recorded.
    pub record: Record,
}

/// A load run and what to call it, "(invalid)" included where it is.
struct Run<'r> {
    label: String,
    record: &'r LoadRecord,
}

/// The page of these records, in the order they are given.
///
/// # Errors
/// [`PlotError`] where the drawing library fails.
pub fn runs_page(title: &str, records: &[Named]) -> Result<Page, PlotError> {
    let records: Vec<Named> = records.iter().flat_map(apart).collect();
    let runs: Vec<_> = records.iter().filter_map(run).collect();
    let mut sections = load::sections(&runs)?;
    for Named { name, record } in &records {
        match record {
            // Drawn above.
            Record::Load(_) => {}
            Record::Check(record) => sections.push(check::section(name, record)),
            Record::Explanation(record) => sections.push(explanation::section(name, record)),
            Record::Plan(record) => sections.push(plan::section(name, record)?),
            Record::Ranking(record) => sections.push(ranking::section(name, record)?),
            Record::Study(record) => sections.extend(study::sections(record)?),
            Record::Capacity(record) => sections.push(capacity::section(name, record)?),
            Record::Probe(record) => {
                let section = probe::section(name, record)?;
                sections.push(dated(section, record.started_unix_ms));
            }
            Record::Resources(record) => {
                let section = resources::section(name, record)?;
                sections.push(dated(section, record.started_unix_ms));
            }
            Record::Comparison(record) => sections.push(comparison::section(name, record)),
            Record::Formula(record) => sections.push(formula::section(name, record)?),
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    Ok(Page {
        title: title.to_owned(),
        lead: Vec::new(),
        verdicts: Vec::new(),
        sections,
        footer: format!(
            "Drawn by loadline {version}. Response times count from the instant a request was \
             planned for, service times from its send; both are those of successful requests \
             where nothing is said of all."
        ),
    })
}

/// The runs of a study, and anything else as it is.
fn apart(named: &Named) -> Vec<Named> {
    let Record::Study(study) = &named.record else { return vec![named.clone()] };
    if study.lab.is_some() {
        return vec![named.clone()];
    }
    let run = |run: &StudyRun| Named {
        name: format!("{}: {}", named.name, run.name),
        record: Record::Load(run.record.clone()),
    };
    study.runs.iter().map(run).collect()
}

/// How requests were planned, in a few words: `64 users`, `200/s Poisson`.
pub(crate) fn plan(model: &LoadModel) -> String {
    match model {
        LoadModel::Closed { users, think } => {
            let users = if *users == 1 { "1 user".to_owned() } else { format!("{users} users") };
            if think.as_nanos() == 0 { users } else { format!("{users}, think {think}") }
        }
        LoadModel::Open { rate, arrivals, stages, .. } => {
            let arrivals = arrivals_word(*arrivals);
            match (stages.first(), stages.last()) {
                (Some(first), Some(last)) => format!(
                    "{} to {} in {} stages, {arrivals}",
                    per_second(first.from),
                    per_second(last.to),
                    stages.len(),
                ),
                // To its last digit: plans are compared by it.
                _ => format!("{rate} {arrivals}"),
            }
        }
    }
}

fn arrivals_word(arrivals: Arrivals) -> &'static str {
    match arrivals {
        Arrivals::Constant => "constant",
        Arrivals::Poisson => "Poisson",
        Arrivals::Uniform => "uniform",
        Arrivals::Listed => "listed",
    }
}

fn run(named: &Named) -> Option<Run<'_>> {
    let Record::Load(record) = &named.record else {
        return None;
    };
    let invalid = if record.is_valid() { "" } else { " (invalid)" };
    Some(Run { label: format!("{}{invalid}", named.name), record })
}

fn text(text: impl Into<String>) -> Block {
    Block::Text(text.into())
}

/// A section that begins with when its record began, if that says so.
fn dated(mut section: Section, unix_ms: u64) -> Section {
    if unix_ms > 0 {
        section.blocks.insert(0, text(format!("Began {}.", utc(unix_ms))));
    }
    section
}

fn part(heading: impl Into<String>, blocks: Vec<Block>) -> Section {
    Section { heading: heading.into(), blocks }
}

fn picture(picture: Picture) -> Block {
    Block::Picture(picture)
}

#[cfg(test)]
mod tests;
