//! How long a capacity search takes and how right it is, by kind of server, in virtual time.
//!
//! `make bench-search` prints the table of all kinds; `BENCH="--searches 20 --quick stall"` narrows
//! it. `--trace` prints each step too, `--first 7 --searches 1` makes one search again. `--truth`
//! finds the load lines and the floors of the kinds by brute force.

mod kinds;
mod observe;
mod pace;
mod searches;
mod server;
mod station;
mod truth;

use loadline_load::search::Config;
use loadline_measure::record::Verdict;
use searches::{Found, Kind};

#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let has = |flag: &str| arguments.iter().any(|it| it == flag);
    let value = |flag: &str, default: u64| {
        let at = arguments.iter().position(|it| it == flag);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let named = |kind: &&Kind| arguments.iter().any(|it| kind.name.contains(it.as_str()));
    let any = kinds::KINDS.iter().chain(&kinds::BREACHED).any(|kind| named(&kind));
    let is_chosen = |kind: &&Kind| !any || named(kind);
    let chosen = kinds::KINDS.iter().filter(is_chosen);
    if has("--truth") {
        println!("kind                       load line, requests/s   floor   slope");
        for kind in chosen {
            let (line, error) = truth::line(kind, value("--requests", 10_000_000) as f64);
            let (floor, slope) = truth::floor(&Kind { exact: line, ..*kind }, WITHIN, 300);
            let name = kind.name;
            println!("{name:24} {line:10.1} +- {error:6.1} {floor:7.0} s {slope:7.1}");
        }
        return;
    }
    let config = Config::default();
    let config = if has("--quick") { config.quick() } else { config };
    let (count, first) = (value("--searches", 100), value("--first", 1));
    let trace = has("--trace");
    println!("{HEADINGS}");
    let (mut all, mut kinds) = (Vec::new(), 0);
    for kind in chosen {
        let found = searches::searches(kind, &config, first..first + count, trace);
        println!("{:22} {:>8.1} {:>6.0} {}", kind.name, kind.exact, kind.floor_s, row(&found));
        all.extend(found);
        kinds += 1;
    }
    if kinds > 1 {
        println!("{:22} {:>8} {:>6} {}", "all", "", "", row(&all));
    }
    for (index, kind) in kinds::BREACHED.iter().filter(is_chosen).enumerate() {
        if index == 0 {
            println!("{HEADINGS_OF_BREACHED}");
        }
        let found = searches::searches(kind, &config, first..first + count, trace);
        println!("{:22} {:>15} {}", kind.name, "", row_of_breached(&found));
    }
}

fn row_of_breached(found: &[Found]) -> String {
    let share = |verdicts: &[Verdict]| {
        let count = found.iter().filter(|found| verdicts.contains(&found.verdict)).count();
        100.0 * count as f64 / found.len() as f64
    };
    let mut took: Vec<f64> = found.iter().map(|found| found.took).collect();
    took.sort_unstable_by(f64::total_cmp);
    let of = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
    format!(
        "{:>6.0} {:>7.0} {:>6.0} {:>7.0} {:>6.0}",
        of(50),
        of(95),
        share(&[Verdict::Found, Verdict::AtLeast]),
        share(&[Verdict::NoLoadMeets]),
        share(&[Verdict::Unconfirmed, Verdict::OutOfTime]),
    )
}

fn row(found: &[Found]) -> String {
    let errors: Vec<f64> = found.iter().filter_map(|found| found.error).collect();
    let near = errors.iter().filter(|error| error.abs() <= WITHIN).count();
    let covers = found.iter().filter(|found| found.covers).count();
    let of = |figure: fn(&Found) -> f64, share: usize| {
        let mut all: Vec<f64> = found.iter().map(figure).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[(all.len() * share / 100).min(all.len() - 1)]
    };
    let count = errors.len().max(1) as f64;
    let bias = errors.iter().sum::<f64>() / count;
    let squares = errors.iter().map(|error| (error - bias).powi(2)).sum::<f64>();
    let share = |count: usize| 100.0 * count as f64 / found.len() as f64;
    format!(
        "{:>6.0} {:>7.0} {:>6.0} {:>7.0} {:>6.0} {:>6.2} {:>6.2} {:>6.1}",
        of(|found| found.took, 50),
        of(|found| found.took, 95),
        share(errors.len()),
        share(near),
        share(covers),
        100.0 * bias,
        100.0 * (squares / count).sqrt(),
        100.0 * of(|found| found.reach, 50),
    )
}

/// What a search is to keep to, as a share of the load line.
const WITHIN: f64 = 0.02;

const HEADINGS: &str =
    "                          exact  floor    time, s    found within  holds   bias  stdev  reach
kind                        1/s      s   50 %    95 %      %   2 %, %      %      %      %      %";

const HEADINGS_OF_BREACHED: &str = "
breached at any load                      time, s    found    none    not
                                       50 %    95 %      %       %  sure, %";
