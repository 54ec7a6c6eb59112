//! `loadline plan`: the formulas of the source documents.
//!
//! Each formula has a file that makes a [`FormulaRecord`] of its arguments; one page prints them
//! all. Without a formula, `plan` lists them.

mod bandwidth;
mod credits;
mod fibre;
mod page;
mod ports;
mod queue;
mod replication;

use std::process::ExitCode;

use anyhow::Context as _;
use loadline_measure::{
    formula::FormulaError,
    record::{Document, FormulaRecord, Record},
};

/// Compute a formula of the source documents
///
/// Prints the inputs, the formula as its source writes it, the results, and the figures that the
/// source publishes for the same inputs. Without a formula: lists all formulas.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    formula: Option<Formula>,
    /// Print the record as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Formula {
    Bandwidth(bandwidth::Args),
    Ports(ports::Args),
    Replication(replication::Args),
    Fibre(fibre::Args),
    Queue(queue::Args),
    Credits(credits::Args),
}

/// A formula worked out.
struct Worked {
    record: FormulaRecord,
    /// Whether the load that was asked about can be carried, as it should be.
    is_met: bool,
}

impl From<FormulaRecord> for Worked {
    fn from(record: FormulaRecord) -> Self {
        Self { record, is_met: true }
    }
}

impl Formula {
    fn work_out(&self) -> Result<Worked, FormulaError> {
        match self {
            Self::Bandwidth(args) => bandwidth::work_out(args).map(Worked::from),
            Self::Ports(args) => ports::work_out(args).map(Worked::from),
            Self::Replication(args) => replication::work_out(args).map(Worked::from),
            Self::Fibre(args) => fibre::work_out(args).map(Worked::from),
            Self::Queue(args) => queue::work_out(args),
            Self::Credits(args) => credits::work_out(args).map(Worked::from),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(formula) = &args.formula else { return list(args.json) };
    let worked = match formula.work_out() {
        Ok(worked) => worked,
        Err(error) => return Ok(super::wrong_usage(&error.to_string())),
    };
    let text = if args.json {
        let document = Document::new(Record::Formula(worked.record));
        serde_json::to_string_pretty(&document).context("writing the record as JSON")? + "\n"
    } else {
        page::write(&worked.record)
    };
    super::print(&text)?;
    let unmet = ExitCode::from(super::EXIT_VERDICT);
    Ok(if worked.is_met { ExitCode::SUCCESS } else { unmet })
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    if json {
        return Ok(super::wrong_usage("--json needs a formula, such as `bandwidth`"));
    }
    super::print(LIST)?;
    Ok(ExitCode::SUCCESS)
}

const IBM: &str = "IBM, \"Performance study for Load Balancer\"";
const T2_MICRO: &str = "\"How far can you go with HAProxy and a t2.micro\" (2014)";
const LATENCY: &str = "Google Cloud, \"Optimizing Application Latency with Cloud Load Balancing\"";
const TUTORIAL: &str = "Google Cloud, \"Capacity management with load balancing\"";

const LIST: &str = "\
loadline plan FORMULA: compute a formula of the source documents

  bandwidth    the network bandwidth of messages per second, and the reverse
  ports        connections per second that a range of ports allows
  replication  the network bandwidth for updates of a backup load balancer
  fibre        the shortest round-trip time over a distance in fibre
  queue        waiting and response times of c servers, and their load line
  credits      how long a burstable processor's CPU credits last

`loadline plan FORMULA` without options computes the example of the document
and says which it is; `loadline plan FORMULA --help` lists the options.
";

const AFTER_HELP: &str = "\
Examples:
  loadline plan
  loadline plan bandwidth --rate 3500/s --size 1KiB --nat
  loadline plan ports --return-addresses 2 --fin-timeout 15s
  loadline plan queue --servers 4 --service 800ms --rate 4/s --within 'p99<5s'
  loadline plan credits --load '20%:10m, 100%:30m' --json

Exit codes: 0 worked out; 1 wrong usage, an input out of range; 2 failed; 3 the queue cannot carry
the load, or not within the bound.";
