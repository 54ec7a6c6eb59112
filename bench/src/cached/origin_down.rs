//! The server of a cache is down for a while: how many requests are answered all the same?
//!
//! A hundred objects may be kept for two seconds, and used for another five minutes if their
//! server fails. They are asked for in turn, a hundred times a second; then the server goes, and
//! comes back.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::client::Client;
use super::origin::{Objects, Origin};
use super::server::Cache;
use crate::peers::Workshop;
use crate::run::Section;
use crate::verdict::{Target, Verdict};

/// Takes the server away from each cache.
pub(super) fn measure(caches: &[Cache], workshop: &Workshop, section: &mut Section) -> Result<()> {
    println!("\n{NAME} for {} s: answered, %\n{COLUMNS}", DOWN.as_secs());
    let mut figures = Vec::new();
    for cache in caches {
        let phases = phases(*cache, workshop)?;
        let [before, during, after] = phases.each_ref().map(|phase| phase.answered);
        let percent = |share: f64| 100.0 * share;
        let others = phases[1].others();
        println!(
            "{:9}{:>10.1}{:>10.1}{:>10.1}  {others}",
            cache.name(),
            percent(before),
            percent(during),
            percent(after)
        );
        if *cache == Cache::Loadline {
            let least = before.min(during).min(after);
            section.judge(Verdict::new(NAME, least, Target::AtLeast(1.0)));
        }
        figures.push(json!({ "proxy": cache.name(), "before": before, "during": during,
                             "after": after, "others_during": others }));
    }
    section.record(NAME, figures);
    Ok(())
}

/// What came of the requests of a while.
#[derive(Default)]
struct Phase {
    /// The share that was answered with a 200.
    answered: f64,
    /// How many got what else: a status, or `closed`.
    others: BTreeMap<String, u32>,
}

impl Phase {
    fn others(&self) -> String {
        let each = self.others.iter().map(|(what, count)| format!("{what}: {count}"));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// What is answered before, while the server is away, and after.
fn phases(cache: Cache, workshop: &Workshop) -> Result<[Phase; 3]> {
    let cache_control = "max-age=2, stale-if-error=300";
    let objects = Objects { length: 1_000, cache_control, delay: Duration::ZERO, pace: None };
    let origin = Origin::start(0, objects)?;
    let place = origin.port;
    let running = cache.start(workshop, place)?;
    let port = running.contender.port;
    let before = answered(port, UP)?;
    drop(origin);
    let during = answered(port, DOWN)?;
    let _origin = Origin::start(place, objects)?;
    Ok([before, during, answered(port, UP)?])
}

/// Sends the requests of so long.
fn answered(port: u16, span: Duration) -> Result<Phase> {
    let begin = Instant::now();
    let count = (span.as_secs_f64() * RATE) as u32;
    let mut client = Client::connect(port)?;
    let mut phase = Phase::default();
    for index in 0..count {
        let at = begin + Duration::from_secs_f64(f64::from(index) / RATE);
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if let Err(error) = client.fetch(u64::from(index) % OBJECTS) {
            let said = error.to_string();
            let status = said.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
            *phase.others.entry(status.unwrap_or("closed").to_owned()).or_default() += 1;
            // What is left of its response would be taken for the next one.
            client = Client::connect(port)?;
        }
    }
    phase.answered = 1.0 - f64::from(phase.others.values().sum::<u32>()) / f64::from(count);
    Ok(phase)
}

pub(super) const NAME: &str = "cache, server down";
const COLUMNS: &str = "             before    during     after  others meanwhile";
const RATE: f64 = 100.0;
const OBJECTS: u64 = 100;
const UP: Duration = Duration::from_secs(5);
const DOWN: Duration = Duration::from_secs(60);
