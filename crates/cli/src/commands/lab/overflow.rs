//! `loadline lab overflow`: how much of a rate budget is used before requests overflow.
//!
//! Drives the decisions of `core` in virtual time, with the default burst as it is and as it was:
//! the rate over 100 ms, at least 1. Everything random is drawn from the seed.

mod judge;
mod page;
mod simulate;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use loadline_core::{decide::budget::default_burst_of_batches, time::Duration, units::Rate};

use super::{folder, print};
use crate::commands::EXIT_VERDICT;
use simulate::{Arrivals, Budgeted, Load, Run, simulate};

/// Simulate how much of a rate budget is used before requests overflow
///
/// Simulates budgets of 0.5 to 10,000 per second under 1.05 to 4 times their load, with requests
/// that come evenly, at random or in batches, and three regions that overflow into each other. The
/// code that decides is that of `loadline serve`. Prints one verdict for each promise, with the
/// budget that comes closest to breaking it.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Fewer budgets and fewer requests
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write a page for docs/studies
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    folder::check_page(args.markdown.as_deref())?;
    let measured = measure(&if args.quick { Plan::quick() } else { Plan::full() }, args.seed)?;
    let verdicts = judge::all(&measured);
    if let Some(file) = &args.markdown {
        fs::write(file, page::markdown(&measured, &verdicts))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let lines: Vec<String> = verdicts.iter().map(|verdict| format!("{verdict}\n")).collect();
    print(&lines.concat())?;
    let pass = verdicts.iter().all(|verdict| verdict.pass);
    Ok(if pass { ExitCode::SUCCESS } else { ExitCode::from(EXIT_VERDICT) })
}

/// How much is simulated.
struct Plan {
    /// In thousandths of a request per second.
    budgets: &'static [u64],
    /// In hundredths of the budget.
    demands: &'static [u64],
    /// How many requests a budget earns in the time that is measured.
    earned: u64,
    /// Runs of the three regions.
    runs: u64,
}

impl Plan {
    fn full() -> Self {
        Self {
            budgets: &[500, 1_000, 3_000, 7_000, 13_000, 40_000, 100_000, 1_000_000, 10_000_000],
            demands: &[105, 110, 120, 150, 200, 400],
            earned: 100_000,
            runs: 100,
        }
    }

    fn quick() -> Self {
        let (budgets, demands) = (&[500, 7_000, 100_000], &[110, 200]);
        Self { budgets, demands, earned: 20_000, runs: 10 }
    }
}

/// Everything that was simulated.
struct Measured {
    rows: Vec<Row>,
    /// One budget of one core.
    small: Vec<Row>,
    regions: Vec<Regions>,
    chains: Vec<Chain>,
}

/// One budget under one load.
struct Row {
    arrivals: Arrivals,
    budget: Rate,
    /// In hundredths of the budget.
    demand: u64,
    before: Run,
    now: Run,
}

/// Three regions, what the first two were given in each run.
struct Regions {
    arrivals: Arrivals,
    per_sec: u64,
    before: Vec<[u64; 2]>,
    now: Vec<[u64; 2]>,
}

/// A group that gets what another has left over, in hundredths of its budget.
struct Chain {
    arrivals: Arrivals,
    demand: u64,
    before: Run,
    now: Run,
}

fn measure(plan: &Plan, seed: u64) -> anyhow::Result<Measured> {
    let mut measured = Measured { rows: vec![], small: vec![], regions: vec![], chains: vec![] };
    for arrivals in Arrivals::ALL {
        for budget in plan.budgets.iter().map(|milli| Rate::milli_per_sec(*milli)) {
            for demand in plan.demands {
                measured.rows.push(row(budget, *demand, arrivals, plan.earned, seed, None)?);
            }
        }
    }
    for arrivals in [Arrivals::Poisson, Arrivals::Batches] {
        for budget in [Rate::milli_per_sec(500), Rate::per_sec(1), Rate::per_sec(7)] {
            for demand in [110, 200] {
                let core = Some(budget);
                measured.small.push(row(budget, demand, arrivals, plan.earned, seed, core)?);
            }
        }
    }
    for (arrivals, per_sec) in [(Arrivals::Poisson, 30), (Arrivals::Even, 15)] {
        let given = |then| (0..plan.runs).map(move |n| regions(arrivals, per_sec, seed + n, then));
        let before = given(true).collect::<Result<_, _>>()?;
        let now = given(false).collect::<Result<_, _>>()?;
        measured.regions.push(Regions { arrivals, per_sec, before, now });
    }
    for demand in [110, 150, 200, 400] {
        let arrivals = Arrivals::Poisson;
        let before = chain(arrivals, demand, plan.earned, seed, true)?;
        let now = chain(arrivals, demand, plan.earned, seed, false)?;
        measured.chains.push(Chain { arrivals, demand, before, now });
    }
    Ok(measured)
}

/// One budget, and farther away a group without one. With `core`, one core is all that the budget
/// stands on.
fn row(
    budget: Rate,
    demand: u64,
    arrivals: Arrivals,
    earned: u64,
    seed: u64,
    core: Option<Rate>,
) -> anyhow::Result<Row> {
    let per_sec = budget.as_per_sec_f64();
    let service = core.map_or(SERVICE_TIME, |_| Duration::from_secs(1).scale(USED / per_sec));
    let cores = if core.is_some() { 1 } else { cores(budget) };
    let load = Load {
        arrivals,
        per_sec: per_sec * demand as f64 / 100.0,
        seconds: earned as f64 / per_sec,
        seed,
        service,
    };
    let near = |burst| Budgeted { rate: Some(budget), burst, distance: Duration::ZERO, cores };
    let run = |burst| -> anyhow::Result<Run> {
        let mut runs = simulate(&load, &[near(burst), FAR])?;
        Ok(runs.swap_remove(0))
    };
    Ok(Row { arrivals, budget, demand, before: run(Some(burst_before(budget)))?, now: run(None)? })
}

/// What the first two of three regions are given in 40 s.
fn regions(arrivals: Arrivals, per_sec: u64, seed: u64, then: bool) -> anyhow::Result<[u64; 2]> {
    let load = Load {
        arrivals,
        per_sec: per_sec as f64,
        seconds: REGIONS_FOR as f64,
        seed,
        service: SERVICE_TIME,
    };
    let groups: Vec<Budgeted> =
        (0..).zip(REGIONS).map(|(n, rate)| budgeted(n, rate, then)).collect();
    let runs = simulate(&load, &groups)?;
    Ok([runs[0].given, runs[1].given])
}

/// What a group uses of which the demand is what a nearer one has left over of 1.5 times its own.
fn chain(
    arrivals: Arrivals,
    demand: u64,
    earned: u64,
    seed: u64,
    then: bool,
) -> anyhow::Result<Run> {
    let first = Rate::per_sec(40);
    let second = Rate::milli_per_sec(20_000 * 100 / demand);
    let load = Load {
        arrivals,
        per_sec: 60.0,
        seconds: earned as f64 / second.as_per_sec_f64(),
        seed,
        service: SERVICE_TIME,
    };
    let groups = [budgeted(0, first, then), budgeted(1, second, then), FAR];
    Ok(simulate(&load, &groups)?.swap_remove(1))
}

fn budgeted(n: u64, rate: Rate, then: bool) -> Budgeted {
    Budgeted {
        rate: Some(rate),
        burst: then.then(|| burst_before(rate)),
        distance: REGION_DISTANCE * n,
        cores: cores(rate),
    }
}

/// The default until now: the rate over 100 ms, rounded, at least 1.
fn burst_before(rate: Rate) -> u32 {
    ((rate.as_milli_per_sec() + 5_000) / 10_000).max(1) as u32
}

/// So many that the budget uses 63 % of them, and no fewer than a dozen.
fn cores(rate: Rate) -> usize {
    let busy = rate.as_per_sec_f64() * SERVICE_TIME.as_secs_f64();
    ((busy / USED).ceil() as usize).max(12)
}

/// The most at once on top of the rate that a budget may be given.
fn allowed(rate: Rate) -> f64 {
    default_burst_of_batches(rate) as f64
}

/// The tutorial's 380 ms at ten times its speed.
const SERVICE_TIME: Duration = Duration::from_millis(38);
/// Of what its cores carry, 15.8/s, the tutorial gives a region 10/s.
const USED: f64 = 0.63;
/// The last group takes everything, and is this far away.
const FAR: Budgeted =
    Budgeted { rate: None, burst: None, distance: Duration::from_millis(100), cores: 100_000 };
/// Three regions, nearest first.
const REGIONS: [Rate; 3] = [Rate::per_sec(7), Rate::per_sec(13), Rate::per_sec(40)];
const REGION_DISTANCE: Duration = Duration::from_millis(50);
const REGIONS_FOR: u64 = 40;

const AFTER_HELP: &str = "\
Examples:
  loadline lab overflow
  loadline lab overflow --quick --seed 7
  loadline lab overflow --markdown docs/studies/overflow.md

Prints one line a verdict: PASS or FAIL, name, measured, (target).
Exit codes: 0 every verdict is PASS, 2 failed while running, 3 a verdict is FAIL.";
