//! The page for the documentation.

use loadline_measure::record::StudyVerdict;
use loadline_report::millis;

use super::{
    Chain, Measured, Regions, Row, allowed,
    judge::{holds, times},
    simulate::Arrivals,
};

pub(super) fn markdown(measured: &Measured, verdicts: &[StudyVerdict]) -> String {
    let mut page = INTRODUCTION.to_owned();
    verdicts.iter().for_each(|verdict| page.push_str(&format!("- {verdict}\n")));
    page.push_str(REGIONS);
    measured.regions.iter().for_each(|it| page.push_str(&regions(it)));
    for arrivals in Arrivals::ALL {
        page.push_str(&format!("\n## {}\n{HEAD}", heading(arrivals)));
        let rows = measured.rows.iter().filter(|row| row.arrivals == arrivals);
        rows.for_each(|row| page.push_str(&line(row, true)));
    }
    page.push_str(CHAINS);
    measured.chains.iter().for_each(|it| page.push_str(&chain(it)));
    page.push_str(&format!("{SMALL}{SMALL_HEAD}"));
    measured.small.iter().for_each(|row| page.push_str(&line(row, false)));
    page
}

fn heading(arrivals: Arrivals) -> &'static str {
    match arrivals {
        Arrivals::Even => "Even arrivals",
        Arrivals::Poisson => "Random arrivals (Poisson)",
        Arrivals::Batches => "Batches of five on average",
    }
}

fn line(row: &Row, judged: bool) -> String {
    let Row { budget, demand, before, now, .. } = row;
    let last = match judged {
        true if holds(row) => "PASS",
        true => "FAIL",
        false => row.arrivals.name(),
    };
    format!(
        "| {budget} | {} | {:.1} | {:.1} | {:.1} of {:.0} | {} | {} | {} | {} | {last} |\n",
        *demand as f64 / 100.0,
        before.used * 100.0,
        now.used * 100.0,
        now.burst,
        allowed(*budget),
        millis(before.mean),
        millis(now.mean),
        millis(before.p99),
        millis(now.p99),
    )
}

fn regions(regions: &Regions) -> String {
    let least = |runs: &[[u64; 2]], n: usize| runs.iter().map(|it| it[n]).min().unwrap_or(0);
    let mean = |runs: &[[u64; 2]], n: usize| {
        runs.iter().map(|it| it[n]).sum::<u64>() as f64 / runs.len().max(1) as f64
    };
    let cell = |runs: &[[u64; 2]], n| format!("{:.0} ({})", mean(runs, n), least(runs, n));
    format!(
        "| {} {}/s | {} | {} | {} | {} |\n",
        regions.arrivals.name(),
        regions.per_sec,
        cell(&regions.before, 0),
        cell(&regions.now, 0),
        cell(&regions.before, 1),
        cell(&regions.now, 1),
    )
}

fn chain(chain: &Chain) -> String {
    let Chain { arrivals, demand, before, now } = chain;
    let (before, now) = (before.used * 100.0, now.used * 100.0);
    format!("| {} | {} | {before:.1} | {now:.1} |\n", arrivals.name(), times(*demand))
}

const INTRODUCTION: &str = "\
# Overflow: how much of a rate budget is used before requests overflow

Made by `loadline lab overflow --markdown docs/studies/overflow.md`, from seed 1: the decisions of
`loadline serve` in virtual time. \"Before\" is the previous default burst, the rate over 100 ms,
at least 1; \"now\" is the default of [decision 0008](../decisions/0008-default-burst.md).

A group holds a budget, another without one is 100 ms farther. A request takes a core 38 ms; a group
has a dozen cores, or as many as its budget uses to 63 %. A budget earns 100,000 requests in a run;
\"used\" leaves the first tenth of it out. The worst window is the most that was given in any window
beyond rate times window, of what is allowed.

";

const REGIONS: &str = "
## Three regions of 7, 13 and 40 per second, for 40 s
Requests given, on average of a hundred runs (and in the least of them). Earned are 280 and 520.

| load | near, before | near, now | second, before | second, now |
|---|---|---|---|---|
";

const HEAD: &str = "\
Times are of all requests, near and far.

| budget | demand | used before, % | used now, % | worst window | average before | average now \
| p99 before | p99 now | |
|---|---|---|---|---|---|---|---|---|---|
";

const CHAINS: &str = "
## Groups that get only overflow
A group of 40/s is given 1.5 times its budget at random. What it leaves over is so many times the
budget of the next one, and comes when the first has had much for a while: it varies three times as
much as random arrivals do. Not judged.

| arrivals | demand of the second | used before, % | used now, % |
|---|---|---|---|
";

const SMALL: &str = "
## What it costs where a budget stands on one core
The core is busy 63 % of the time at its budget, so at 0.5/s a request takes 1.26 s. Nothing but
waiting at the core can then use a budget up that comes at random: who would rather go far sets
`burst = 1`. Not judged.
";

const SMALL_HEAD: &str = "
| budget | demand | used before, % | used now, % | worst window | average before | average now \
| p99 before | p99 now | arrivals |
|---|---|---|---|---|---|---|---|---|---|
";
