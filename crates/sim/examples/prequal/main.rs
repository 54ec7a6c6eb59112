//! The comparison of "Load is not what you should balance: Introducing Prequal" (NSDI 2024) in the
//! simulator: 100 servers with antagonists, 100 edges, every policy and the rules of the paper.
//!
//! `cargo run -p loadline-sim --example prequal` prints the tables of `docs/studies/prequal.md`.

mod rules;
mod testbed;

use loadline_core::{fleet::PolicyKind, time::Duration};
use loadline_measure::record::LoadRecord;
use loadline_sim::Simulation;

use rules::{C3, Linear, Rule, WeightedRoundRobin};
use testbed::{EDGES, scenario};

/// Who chooses the servers.
#[derive(Clone, Copy)]
enum Who {
    Policy(PolicyKind),
    Rule(&'static str, fn() -> Rule),
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Policy(policy) => policy.name(),
            Self::Rule(name, _) => name,
        }
    }

    fn run(self, load: f64) -> LoadRecord {
        match self {
            Self::Policy(policy) => Simulation::new(scenario(policy, load)).run(),
            Self::Rule(_, new) => {
                let scenario = scenario(PolicyKind::Random, load);
                Simulation::new(scenario).directed_by(new()).run()
            }
        }
    }
}

/// A rule of the paper, and what it published: p90 and p99 at 70 % and at 90 %; `TO` is a time-out.
type Row = (Who, Option<&'static str>);

fn rows() -> Vec<Row> {
    let rule = |name, new| Who::Rule(name, new);
    let wrr: fn() -> Rule = || Box::new(WeightedRoundRobin::new(EDGES));
    let c3: fn() -> Rule = || Box::new(C3::new(EDGES));
    let linear: fn() -> Rule = || Box::new(Linear::new(EDGES));
    use PolicyKind as P;
    vec![
        (Who::Policy(P::RoundRobin), Some("4984 / TO, TO / TO")),
        (rule("WRR of the paper", wrr), Some("173 / 314, 1667 / TO")),
        (Who::Policy(P::LeastRequests), Some("343 / 1804, 940 / 2654")),
        (rule("C3 over probes", c3), Some("161 / 299, 164 / 304")),
        (rule("linear over probes", linear), None),
        (Who::Policy(P::Prequal), Some("149 / 281, 152 / 286")),
        (Who::Policy(P::Random), None),
        (Who::Policy(P::PowerOfTwo), None),
        (Who::Policy(P::PeakEwma), None),
        (Who::Policy(P::LowestLatency), None),
        (Who::Policy(P::LatencyWeighted), None),
        (Who::Policy(P::Maglev), None),
        (Who::Policy(P::BoundedHash), None),
        (Who::Policy(P::Managed), None),
    ]
}

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn main() {
    println!(
        "| rule | published: p90 / p99 at 70 %, at 90 % | p90 | p99 | errors | p90 | p99 | errors |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (who, published) in rows() {
        let [low, high] = [0.7, 0.9].map(|load| who.run(load));
        let published = published.unwrap_or("");
        println!("| {} | {published} | {} | {} |", who.name(), figures(&low), figures(&high));
    }
    println!("\n| load | WRR p99 | errors | Prequal p99 | errors | least requests p99 | errors |");
    println!("|---|---|---|---|---|---|---|");
    let [_, wrr, least, ..] = &rows()[..] else { return };
    let three = [wrr.0, Who::Policy(PolicyKind::Prequal), least.0];
    for step in 0..9 {
        let load = 0.75 * (10.0f64 / 9.0).powi(step);
        let row = three.map(|who| p99(&who.run(load)));
        println!("| {load:.2} | {} | {} | {} |", row[0], row[1], row[2]);
    }
}

/// p90, p99 and errors, as cells of a table.
fn figures(record: &LoadRecord) -> String {
    let of_all = record.response_of_all.as_ref().expect("records of runs have it");
    format!("{} | {} | {}", milliseconds(of_all.p90), milliseconds(of_all.p99), errors(record))
}

fn p99(record: &LoadRecord) -> String {
    let of_all = record.response_of_all.as_ref().expect("records of runs have it");
    format!("{} | {}", milliseconds(of_all.p99), errors(record))
}

fn milliseconds(time: Duration) -> String {
    match time {
        time if time >= Duration::from_secs(5) => "TO".to_owned(),
        time => format!("{:.0}", time.as_millis_f64()),
    }
}

fn errors(record: &LoadRecord) -> String {
    format!("{:.2} %", record.outcomes.failed() as f64 * 100.0 / record.planned as f64)
}
