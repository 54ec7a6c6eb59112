//! `loadline plan replication`.

use loadline_core::units::{Bytes, Count, Rate};
use loadline_measure::{
    formula::{
        FormulaError,
        replication::{Packing, Traffic, Updates, traffic},
    },
    record::{FormulaRecord, FormulaResult, Quantity},
};

use super::IBM;
use crate::commands::rate;

/// The network bandwidth for updates of a backup load balancer
///
/// Without options: the example of the performance study.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Connections per second
    #[arg(long, value_name = "RATE", default_value = "3500/s", value_parser = rate)]
    rate: Rate,
    /// The size of an update
    #[arg(long, value_name = "SIZE", default_value = "43B")]
    update: Bytes,
    /// Updates in a full packet
    #[arg(long, value_name = "N", default_value_t = 26)]
    per_packet: u64,
    /// Ethernet, TCP and GRE headers of a packet
    #[arg(long, value_name = "SIZE", default_value = "54B")]
    headers: Bytes,
}

pub(super) fn work_out(args: &Args) -> Result<FormulaRecord, FormulaError> {
    let per_packet = Count::new(args.per_packet);
    let packing = Packing { update: args.update, per_packet, headers: args.headers };
    let once = traffic(args.rate, Updates::Once, packing)?;
    let twice = traffic(args.rate, Updates::CreatedAndDestroyed, packing)?;
    let is_example = args.rate == Rate::per_sec(3_500) && packing == Packing::OF_THE_STUDY;
    let mut results = results("one update", once).to_vec();
    if is_example {
        for (result, figure) in results.iter_mut().zip([150_500.0, 7_290.0, 1.262]) {
            result.published = Some(figure);
        }
    }
    results.extend(self::results("two updates", twice));
    Ok(FormulaRecord {
        name: "replication".into(),
        question: "what does it cost to tell a backup of every connection?".into(),
        formula: "( (CPS * 43) + (ceiling [CPS/26] * 54 ) * 8b/1B * 1Mb/1x10**6".into(),
        source: format!("{IBM}, section \"High Availability considerations\""),
        inputs: vec![
            Quantity::new("connections", args.rate.as_per_sec_f64(), "/s"),
            Quantity::new("size of an update", args.update.get() as f64, "B"),
            Quantity::new("updates in a packet", args.per_packet as f64, ""),
            Quantity::new("headers of a packet", args.headers.get() as f64, "B"),
        ],
        results,
        notes: vec![TWICE_NOTE.into(), PARENTHESIS_NOTE.into()],
        curve: None,
    })
}

fn results(each: &str, traffic: Traffic) -> [FormulaResult; 3] {
    let name = |what: &str| format!("{each} a connection: {what}");
    [
        FormulaResult::new(name("updates"), traffic.updates.get() as f64, "B/s"),
        FormulaResult::new(name("headers"), traffic.headers.get() as f64, "B/s"),
        FormulaResult::new(name("traffic"), traffic.bandwidth.as_megabits_f64(), "Mb/s"),
    ]
}

const TWICE_NOTE: &str = "The document says that the backup is told \"when the connection is \
    created and when it is destroyed\", yet its formula counts one update for each connection. \
    Both are here; plan with two.";

const PARENTHESIS_NOTE: &str = "The formula lacks a parenthesis as printed; its figures have the \
    factor 8 over both terms.";

const AFTER_HELP: &str = "\
Examples:
  loadline plan replication
  loadline plan replication --rate 20000/s

Exit codes: 0 worked out, 1 wrong usage or an input out of range, 2 could not be printed.";
