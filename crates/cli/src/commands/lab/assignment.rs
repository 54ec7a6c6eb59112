//! `loadline lab assignment`: the eight questions of the assignment, answered by measuring.
//!
//! The row `questions` of the study `policies` makes the measurements; each answer here names the
//! figures of it that it rests on, beside what the report answered.

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use loadline_lab::study::{Mode, Setup, Study};
use loadline_measure::record::{Reading, StudyFigure, StudyRecord};
use loadline_report::digits;

use super::{
    find, folder, present, print,
    run::{code_of, measure, own_folder},
};

/// Answer the eight questions of the load balancer assignment from measurements
///
/// Five machines in three regions behind a forwarding unit, in a lab on this machine: about two
/// minutes, a fourth of it with --quick. Each answer is printed beside that of the report that the
/// study `policies` reproduces.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Five times faster than what was published; figures are scaled back
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The folder for all results [lab-runs/policies-SECONDS]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the record as JSON instead of answers
    #[arg(long)]
    json: bool,
    /// No progress on the standard error
    #[arg(short, long)]
    quiet: bool,
}

/// A question, what the report answered, and what was measured: `{NAME}` is a figure of the study.
struct Question {
    asked: &'static str,
    report: &'static str,
    here: &'static str,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mode = if args.quick { Mode::Quick } else { Mode::Full };
    let study = match Study::load(&find::study(STUDY), mode) {
        Ok(study) => study,
        Err(errors) => return Ok(crate::commands::print_errors(errors)),
    };
    let out = args.out.clone().unwrap_or_else(|| own_folder(&study));
    let program = env::current_exe().context("cannot find the binary that runs")?;
    let rows = vec![ROW.to_owned()];
    let setup = Setup { program, folder: out.clone(), rows, seed: args.seed, again: 1 };
    let (record, ended_early) = measure(&study, &setup, args.quiet)?;
    let code = present::exit_code(&study, &record);
    let text = answers(&record);
    let json = folder::write(&out, &text, record)?;
    print(if args.json { &json } else { &text })?;
    code_of(ended_early, code)
}

/// All questions with both answers.
fn answers(record: &StudyRecord) -> String {
    let figures = record.lab.as_ref().map_or(&[][..], |lab| &lab.figures);
    let answer = |(number, question): (usize, &Question)| {
        let Question { asked, report, here } = question;
        let here = filled(here, figures);
        format!("{number}. {asked}\n   report    {report}\n   measured  {here}\n")
    };
    (1..).zip(&QUESTIONS).map(answer).collect::<Vec<_>>().join("\n")
}

/// The answer with its figures in their places.
fn filled(answer: &str, figures: &[StudyFigure]) -> String {
    let mut text = answer.to_owned();
    for figure in figures {
        let value = match &figure.measured {
            Some(Reading::Number(number)) => format!("{} {}", digits(*number), figure.unit),
            Some(Reading::Text(word)) => word.clone(),
            None => format!("? ({})", figure.reason),
        };
        text = text.replace(&format!("{{{}}}", figure.name), value.trim());
    }
    text
}

/// The study that measures what is asked, and its row that does.
const STUDY: &str = "policies";
const ROW: &str = "questions";

const QUESTIONS: [Question; 8] = [
    Question {
        asked: "How many requests can be handled by a single machine?",
        report: "500 at once, within 15 s",
        here: "{carries} at once within 15 s; 500 take {machine_500}",
    },
    Question {
        asked: "What is the latency of each region?",
        report: "EMEA 330 ms, US 370 ms, Asia 520 ms",
        here: "EMEA {alone_emea}, US {alone_us}, Asia {alone_asia},
             without the client's own way to the platform",
    },
    Question {
        asked: "What is the computation time for a work request?",
        report: "20 ms",
        here: "{work}: what 300 requests more at once take longer, by request",
    },
    Question {
        asked: "What is the response time of a worker when there is no load?",
        report: "latency less work: EMEA 310 ms, US 350 ms, Asia 500 ms",
        here: "EMEA {less_emea}, US {less_us}, Asia {less_asia}",
    },
    Question {
        asked: "What is the latency introduced by the forwarding unit?",
        report: "EMEA 160 ms, US 200 ms, Asia 350 ms",
        here: "EMEA {unit_emea}, US {unit_us}, Asia {unit_asia}",
    },
    Question {
        asked: "How many requests make the forwarding unit the bottleneck?",
        report: "more than its CPU can keep up with; then more units behind a balancer",
        here: "above {unit_rate} a second, here; the five machines behind it
             carry 250, so it is not what runs out first",
    },
    Question {
        asked: "What latency does the platform introduce?",
        report: "22 ms, from its logs",
        here: "{router} beside the machine's work; those logs count that work in,
             so that 2 of the published 22 ms are the platform's",
    },
    Question {
        asked: "What downsides does the architecture have?",
        report: "one unit for all traffic; machines that sleep; 30 s at most",
        here: "the first request to a machine that sleeps takes {awake}; of 1700 at
             once on one machine {answered} are answered within 30 s",
    },
];

const AFTER_HELP: &str = "\
Examples:
  loadline lab assignment --quick
  loadline lab assignment --out answers --json | jq '.lab.figures[] | {source, title, measured}'

Exit codes: 0 done, 1 wrong usage or study, 2 failed while running, 3 a figure is not in its band,
98 none is, but some figure has only invalid runs.";

#[cfg(test)]
mod tests {
    use loadline_measure::record::StudyLab;

    use super::*;

    #[test]
    fn every_figure_of_the_answers_is_in_the_study() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/policies.toml");
        let file = std::fs::read_to_string(path).unwrap();
        for question in &QUESTIONS {
            for name in question.here.split('{').skip(1) {
                let (name, _) = name.split_once('}').unwrap();
                assert!(file.contains(&format!("name = \"{name}\"")), "{name}");
            }
        }
    }

    #[test]
    fn an_answer_has_its_figure_or_the_reason_why_there_is_none() {
        let figure = |name: &str, measured: Option<f64>, reason: &str| StudyFigure {
            name: name.into(),
            row: ROW.into(),
            unit: "ms".into(),
            measured: measured.map(Reading::Number),
            reason: reason.into(),
            ..StudyFigure::default()
        };
        let figures =
            vec![figure("work", Some(20.0), ""), figure("router", None, "it was not run")];
        let lab = Some(Box::new(StudyLab { figures, ..StudyLab::default() }));
        let text = answers(&StudyRecord { lab, ..StudyRecord::default() });
        assert!(text.contains("   measured  20.0 ms: what 300 requests"), "{text}");
        assert!(text.contains("? (it was not run) beside the machine's work"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 90), "{text}");
    }
}
