//! `loadline plan bandwidth`.

use loadline_core::units::{BitRate, Bytes, Rate};
use loadline_measure::{
    formula::{
        FormulaError,
        bandwidth::{needed, rate_within, through_nat, with_binary_prefixes},
    },
    record::{FormulaRecord, FormulaResult, Quantity},
};

use super::{IBM, T2_MICRO};
use crate::commands::rate;

/// The network bandwidth of a number of messages per second, and the reverse
///
/// With --rate prints the bits per second that messages need; with --limit the messages per second
/// that fit. Without options: the example of the performance study.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Messages per second [3500/s]
    #[arg(long, value_name = "RATE", conflicts_with = "limit", value_parser = rate)]
    rate: Option<Rate>,
    /// The size of a message [1KiB; with --limit 50kB]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Bandwidth of the network: prints how many messages per second fit
    #[arg(long, value_name = "BITS/S")]
    limit: Option<BitRate>,
    /// Count each message twice, in and out, as through a load balancer with NAT
    #[arg(long)]
    nat: bool,
}

pub(super) fn work_out(args: &Args) -> Result<FormulaRecord, FormulaError> {
    match args.limit {
        Some(limit) => messages(limit, args.size.unwrap_or(PAGE_OF_THE_POST), args.nat),
        None => {
            let is_example = args.rate.is_none() && args.size.is_none();
            let rate = args.rate.unwrap_or(RATE_OF_THE_STUDY);
            let size = args.size.unwrap_or(MESSAGE_OF_THE_STUDY);
            bandwidth(rate, size, args.nat || is_example)
        }
    }
}

fn bandwidth(rate: Rate, size: Bytes, nat: bool) -> Result<FormulaRecord, FormulaError> {
    let once = needed(rate, size)?;
    let is_example = (rate, size) == (RATE_OF_THE_STUDY, MESSAGE_OF_THE_STUDY);
    let published = |figure: f64| is_example.then_some(figure);
    let megabits =
        |name: &str, rate: BitRate| FormulaResult::new(name, rate.as_megabits_f64(), "Mb/s");
    let mut results = vec![megabits("the messages", once).published(published(28.672))];
    if nat {
        let twice = through_nat(once)?;
        results.push(megabits("through a NAT load balancer", twice).published(published(57.344)));
    }
    Ok(FormulaRecord {
        name: "bandwidth".into(),
        question: "what network do so many messages per second need?".into(),
        formula: "3500 messages/sec * 1KB/message * 1024B/KB * 8b/1B * 1Mb/1x10**6".into(),
        source: format!("{IBM}, section \"What is the maximum throughput I can expect?\""),
        inputs: vec![
            Quantity::new("messages", rate.as_per_sec_f64(), "/s"),
            Quantity::new("size of a message", size.get() as f64, "B"),
        ],
        results,
        notes: vec![NAT_NOTE.into()],
        curve: None,
    })
}

fn messages(limit: BitRate, size: Bytes, nat: bool) -> Result<FormulaRecord, FormulaError> {
    let is_example = (limit, size, nat) == (LIMIT_OF_THE_POST, PAGE_OF_THE_POST, false);
    let passes = if nat { 2 } else { 1 };
    let of_each = |limit: BitRate| BitRate::new(limit.bits_per_sec() / passes);
    let per_sec = |name: &str, rate: Rate| FormulaResult::new(name, rate.as_per_sec_f64(), "/s");
    let mut results = vec![per_sec("as given", rate_within(of_each(limit), size)?)];
    if let Some((limit, size)) = with_binary_prefixes(limit, size) {
        let rate = rate_within(of_each(limit), size)?;
        let name = "with k = 1024 and M = 1024 * 1024";
        results.push(per_sec(name, rate).published(is_example.then_some(460.0)));
    }
    Ok(FormulaRecord {
        name: "bandwidth".into(),
        question: "how many messages per second does a network let through?".into(),
        formula: "(180 * 1024 * 1024) / (50 * 1024 * 8)".into(),
        source: format!("{T2_MICRO}, section \"Finding the limit\""),
        inputs: vec![
            Quantity::new("limit", limit.as_megabits_f64(), "Mb/s"),
            Quantity::new("size of a message", size.get() as f64, "B"),
            Quantity::new("passes of each message", passes as f64, ""),
        ],
        results,
        notes: vec![PREFIX_NOTE.into()],
        curve: None,
    })
}

const RATE_OF_THE_STUDY: Rate = Rate::per_sec(3_500);
const MESSAGE_OF_THE_STUDY: Bytes = Bytes::new(1_024);
const LIMIT_OF_THE_POST: BitRate = BitRate::new(180_000_000);
const PAGE_OF_THE_POST: Bytes = Bytes::new(50_000);

const NAT_NOTE: &str = "With NAT forwarding answers pass the load balancer too, in and out: twice \
    the traffic. The document writes MB for its Mb: its \"100MB network\" is one of 100 Mb/s.";

const PREFIX_NOTE: &str = "Network gear counts in thousands: 1 Mb is 1,000,000 bits. The post \
    takes Mb for 1024 * 1024 bits and kB for 1024 bytes, and rounds 460.8 down.";

const AFTER_HELP: &str = "\
Examples:
  loadline plan bandwidth
  loadline plan bandwidth --rate 3500/s --size 1KiB --nat
  loadline plan bandwidth --limit 180Mb/s --size 50kB

Exit codes: 0 worked out, 1 wrong usage or an input out of range, 2 could not be printed.";
