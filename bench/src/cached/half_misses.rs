//! How long requests take while every second one is a miss.
//!
//! Random arrivals at a rate that every cache can carry, from the client of `fixed_rate`. Half of
//! them ask for one of a hundred objects of 1 kB that are cached, the others for one that nobody
//! has asked for before. The caches take turns; what is judged is the median of the ratios of p99
//! to the better peer within the rounds.

use anyhow::Result;
use serde_json::json;

use super::server::{Cache, Running};
use crate::cost;
use crate::fixed_rate::{self, Percentiles, Traffic};
use crate::peers::Workshop;
use crate::process::free_ports;
use crate::run::{Effort, Section};
use crate::stats::Summary;
use crate::verdict::{Target, Verdict};

/// Measures every cache.
pub(super) fn measure(
    caches: &[Cache],
    workshop: &Workshop,
    effort: Effort,
    section: &mut Section,
) -> Result<()> {
    let servers: [u16; 4] = free_ports()?;
    let _backend = cost::start_backend_with(&["--cacheable"], &servers, &workshop.directory)?;
    let running: Vec<Running> =
        caches.iter().map(|cache| cache.start(workshop, servers[0])).collect::<Result<_>>()?;
    let mut rows: Vec<Row> = caches.iter().map(|it| Row { cache: *it, rounds: vec![] }).collect();
    for round in 0..=effort.rounds as u64 {
        for (cache, row) in running.iter().zip(&mut rows) {
            let measured = fixed_rate::ask(cache.contender.port, TRAFFIC, round)?;
            // The first round brings the hundred into the cache.
            if round > 0 {
                row.rounds.push(measured);
            }
        }
    }
    println!("\n{NAME}: {}/s, Poisson, {} rounds\n{COLUMNS}", TRAFFIC.rate, effort.rounds);
    for row in &rows {
        let (p50, p99) = (row.summary(|it| it.p50), row.summary(|it| it.p99));
        let spread = format!("{:.0}..{:.0}", p99.min, p99.max);
        println!(
            "{:9}{:>10.0}{:>10.0}{spread:>16}{:>8}",
            row.cache.name(),
            p50.median,
            p99.median,
            row.failed()
        );
    }
    judge(&rows).into_iter().for_each(|verdict| section.judge(verdict));
    section.record(NAME, rows.iter().map(Row::to_json).collect());
    Ok(())
}

/// The rounds of one cache.
struct Row {
    cache: Cache,
    rounds: Vec<Percentiles>,
}

impl Row {
    fn summary(&self, figure: impl Fn(&Percentiles) -> f64) -> Summary {
        Summary::of(self.rounds.iter().map(figure))
    }

    fn failed(&self) -> u64 {
        self.rounds.iter().map(|round| round.failed).sum()
    }

    fn to_json(&self) -> serde_json::Value {
        let rounds: Vec<_> = self.rounds.iter().map(|round| round.to_json()).collect();
        json!({ "proxy": self.cache.name(), "rounds": rounds })
    }
}

fn judge(rows: &[Row]) -> Option<Verdict> {
    let ours = rows.iter().find(|row| row.cache == Cache::Loadline)?;
    let p99 = |row: &Row| row.summary(|it| it.p99).median;
    let peers = rows.iter().filter(|row| row.cache != Cache::Loadline && row.failed() == 0);
    let Some(better) = peers.min_by(|a, b| p99(a).total_cmp(&p99(b))) else {
        let flaw = Some("there is no peer without failures".to_owned());
        return Some(Verdict::new(NAME, f64::NAN, Target::AtMost(1.0)).flaw(flaw));
    };
    let pairs = ours.rounds.iter().zip(&better.rounds);
    let ratio = Summary::of(pairs.map(|(mine, theirs)| mine.p99 / theirs.p99));
    println!(
        "ratio to {}: {:.2} ({:.2}..{:.2})",
        better.cache.name(),
        ratio.median,
        ratio.min,
        ratio.max
    );
    let failed = (ours.failed() > 0).then(|| format!("{} requests failed", ours.failed()));
    let name = format!("{NAME}, p99 to {}", better.cache.name());
    Some(Verdict::new(name, ratio.median, Target::AtMost(1.0)).flaw(failed))
}

pub(super) const NAME: &str = "cache, half misses";
const COLUMNS: &str = "             p50 us    p99 us        min..max  failed";

const TRAFFIC: Traffic = Traffic { rate: "4000", requests: "12000", misses: Some("0.5") };

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cache: Cache, p99s: &[f64], failed: u64) -> Row {
        let round = |p99: &f64| Percentiles { p50: 100.0, p99: *p99, failed };
        Row { cache, rounds: p99s.iter().map(round).collect() }
    }

    #[test]
    fn the_better_peer_that_failed_nobody_is_the_measure() {
        let rows = [
            row(Cache::Loadline, &[300.0; 3], 0),
            row(Cache::Nginx, &[400.0; 3], 0),
            row(Cache::Varnish, &[600.0; 3], 0),
            row(Cache::TrafficServer, &[10.0; 3], 1),
        ];
        let said = judge(&rows).unwrap().to_string();
        assert_eq!(said, "PASS cache, half misses, p99 to nginx 0.75 (<= 1.00)");
    }

    #[test]
    fn failures_and_slower_rounds_fail() {
        let nginx = || row(Cache::Nginx, &[400.0; 3], 0);
        assert!(judge(&[row(Cache::Loadline, &[300.0; 3], 1), nginx()]).unwrap().failed());
        assert!(judge(&[row(Cache::Loadline, &[500.0; 3], 0), nginx()]).unwrap().failed());
        assert!(judge(&[row(Cache::Loadline, &[300.0; 3], 0)]).unwrap().failed());
    }
}
