//! `loadline plan fibre`.

use loadline_core::{
    time::Duration,
    units::{Distance, Ratio},
};
use loadline_measure::{
    formula::{
        FormulaError,
        fibre::{against_ideal, farthest, near_ideal, round_trip},
    },
    record::{FormulaRecord, FormulaResult, Quantity},
};

use super::LATENCY;

/// The shortest round-trip time over a distance in fibre
///
/// Without options: the example of the document, Frankfurt to Council Bluffs.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Distance of the two places on the surface of the Earth
    #[arg(long, value_name = "KM", default_value = "7500km")]
    distance: Distance,
    /// A measured round-trip time, for comparison
    #[arg(long, value_name = "TIME")]
    measured: Option<Duration>,
}

pub(super) fn work_out(args: &Args) -> Result<FormulaRecord, FormulaError> {
    let is_example = args.distance == Distance::from_metres(7_500_000);
    let published = |figure: f64| is_example.then_some(figure);
    let ms = |name: &str, time: Duration| FormulaResult::new(name, time.as_millis_f64(), "ms");
    let mut record = FormulaRecord {
        name: "fibre".into(),
        question: "what is the shortest round trip over a distance?".into(),
        formula: "7,500 km * 2 / 200,000 km/s * 1000 ms/s".into(),
        source: format!("{LATENCY}, section \"Measuring latency\""),
        inputs: vec![Quantity::new("distance", args.distance.as_km_f64(), "km")],
        results: vec![
            ms("shortest round trip", round_trip(args.distance)?).published(published(75.0)),
            ms("near the ideal, 1.5 times", near_ideal(args.distance)?).published(published(112.5)),
        ],
        ..FormulaRecord::default()
    };
    if let Some(measured) = args.measured {
        compare(&mut record, args.distance, measured)?;
    }
    Ok(record)
}

fn compare(
    record: &mut FormulaRecord,
    distance: Distance,
    measured: Duration,
) -> Result<(), FormulaError> {
    let times = against_ideal(distance, measured)?;
    let farthest = farthest(measured)?.as_km_f64();
    record.inputs.push(Quantity::new("measured round trip", measured.as_millis_f64(), "ms"));
    record.results.push(FormulaResult::new("measured over shortest", times.as_f64(), "times"));
    record.results.push(FormulaResult::new("the answer came from within", farthest, "km"));
    record.notes.push(verdict(times).into());
    Ok(())
}

fn verdict(times: Ratio) -> &'static str {
    if times < Ratio::ONE {
        "No signal goes there and back in that time: something nearer answered, as the edge of a \
         proxy does for a ping."
    } else if times <= Ratio::percent(150) {
        "The measured round trip is near the ideal: at most 1.5 times the shortest."
    } else {
        "The measured round trip is above 1.5 times the shortest: a detour, a queue, or more than \
         one round trip."
    }
}

const AFTER_HELP: &str = "\
Examples:
  loadline plan fibre
  loadline plan fibre --distance 7500km --measured 111ms

Exit codes: 0 worked out, 1 wrong usage or an input out of range, 2 could not be printed.";
