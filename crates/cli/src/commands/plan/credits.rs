//! `loadline plan credits`.

use loadline_core::{
    time::Duration,
    units::{Count, Ratio},
};
use loadline_measure::{
    formula::{
        FormulaError,
        credits::{Course, Credits, LoadCurve, Machine, Point, course},
    },
    record::{Column, FormulaCurve, FormulaRecord, FormulaResult, Quantity},
};

use super::T2_MICRO;

/// How long a burstable processor's CPU credits last
///
/// One credit is one core at 100 % for a minute. Without options: a t2.micro in the two tests of
/// the post, which used 2 % and 7 % of its CPU for five minutes each.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Stages of load: a share of all cores, and for how long
    #[arg(long, value_name = "STAGES", default_value = "2%:5m, 7%:5m")]
    load: LoadCurve,
    /// Number of cores
    #[arg(long, value_name = "N", default_value_t = 1)]
    cores: u64,
    /// Baseline: the share of each core that may be used without limit of time
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    baseline: Ratio,
    /// Credits at the start [30 for each core, as at launch]
    #[arg(long, value_name = "N")]
    initial: Option<u64>,
    /// Maximum balance of credits [those earned in 24 hours]
    #[arg(long, value_name = "N")]
    max: Option<u64>,
}

pub(super) fn work_out(args: &Args) -> Result<FormulaRecord, FormulaError> {
    let machine = machine(args)?;
    let course = course(&machine, &args.load)?;
    Ok(FormulaRecord {
        name: "credits".into(),
        question: "how long do the CPU credits last?".into(),
        formula: "d(balance)/dt = cores * (baseline - used), from 0 to the most it holds".into(),
        source: format!("{T2_MICRO}, section \"A note about t2 instances and CPU credits\""),
        inputs: inputs(&machine),
        results: results(&machine, &course),
        notes: notes(args, &machine, &course),
        curve: Some(curve(&course)),
    })
}

fn machine(args: &Args) -> Result<Machine, FormulaError> {
    let mut machine = Machine::t2(Count::new(args.cores), args.baseline)?;
    if let Some(most) = args.max {
        machine.most = Credits::checked("a full balance", most)?;
        machine.initial = machine.initial.min(machine.most);
    }
    if let Some(initial) = args.initial {
        machine.initial = Credits::checked("an initial balance", initial)?;
    }
    Ok(machine)
}

fn inputs(machine: &Machine) -> Vec<Quantity> {
    vec![
        Quantity::new("cores", machine.cores.get() as f64, ""),
        Quantity::new("baseline", machine.baseline.as_f64() * 1e2, "%"),
        Quantity::new("credits at the start", machine.initial.as_f64(), ""),
        Quantity::new("credits at most", machine.most.as_f64(), ""),
    ]
}

fn results(machine: &Machine, course: &Course) -> Vec<FormulaResult> {
    let credits = |name: &str, credits: Credits| FormulaResult::new(name, credits.as_f64(), "");
    let mut results = vec![
        FormulaResult::new("earned per hour", machine.earned_per_hour().as_f64(), ""),
        credits("earned and kept", course.earned),
        credits("spent", course.spent),
        credits("balance at the end", course.last()),
    ];
    for (name, balance) in [("start", machine.initial), ("most", machine.most)] {
        let lasts = machine.lasts(balance, Ratio::ONE).map(minutes);
        let name = format!("at 100 % the {name} lasts");
        results.extend(lasts.map(|lasts| FormulaResult::new(name, lasts, "min")));
    }
    let runs_out = course.runs_out.map(minutes);
    results.extend(runs_out.map(|at| FormulaResult::new("runs out after", at, "min")));
    results
}

fn notes(args: &Args, machine: &Machine, course: &Course) -> Vec<String> {
    let mut notes = vec![format!("The load curve is {}.", args.load)];
    let baseline = machine.baseline;
    notes.extend(course.runs_out.map(|_| {
        format!("Without credits no more than the baseline is carried: {baseline} of the cores.")
    }));
    if *machine == Machine::T2_MICRO {
        notes.push(MICRO_NOTE.into());
    }
    notes
}

/// The balance over time, evenly and at each bend.
fn curve(course: &Course) -> FormulaCurve {
    let column = |name: &str, unit: &str| Column { name: name.into(), unit: unit.into() };
    let columns = vec![
        column("time", "min"),
        column("load", "%"),
        column("carried", "%"),
        column("balance", ""),
    ];
    let end = course.points.last().map(|point| point.at).unwrap_or_default();
    let mut times: Vec<Duration> = (0..=STEPS).map(|step| end * step / STEPS).collect();
    times.extend(course.points.iter().map(|point| point.at));
    times.sort_unstable();
    times.dedup();
    let moments = times.into_iter().filter_map(|at| course.at(at));
    let row = |point: Point| {
        let (load, carried) = (point.load.as_f64() * 1e2, point.carried.as_f64() * 1e2);
        vec![minutes(point.at), load, carried, point.balance.as_f64()]
    };
    FormulaCurve { columns, rows: moments.map(row).collect() }
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

/// Enough to see each stage of a usual curve, and few enough for a screen.
const STEPS: u64 = 12;

const MICRO_NOTE: &str = "This is a t2.micro: it \"can use up to 10% CPU consistently without \
    consuming CPU credits\". Of the balance during its tests the post says that \"the trend is \
    generally positive\". The credits at launch and at most are of the vendor's table.";

const AFTER_HELP: &str = "\
Examples:
  loadline plan credits
  loadline plan credits --load '20%:10m, 100%:30m'
  loadline plan credits --cores 2 --baseline 20% --load '5%:8h, 60%:2h, 100%:30m'

Exit codes: 0 worked out, 1 wrong usage or an input out of range, 2 could not be printed.";
