//! The server of a cache is down for a while: how many requests are answered all the same?
//!
//! A hundred objects may be kept for two seconds, and used for another five minutes if their
//! server fails. They are asked for in turn, a hundred times a second; then the server goes, and
//! comes back.

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
        let [before, during, after] = phases(*cache, workshop)?;
        let percent = |share: f64| 100.0 * share;
        println!(
            "{:9}{:>10.1}{:>10.1}{:>10.1}",
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
                             "after": after }));
    }
    section.record(NAME, figures);
    Ok(())
}

/// The share that is answered before, while the server is away, and after.
fn phases(cache: Cache, workshop: &Workshop) -> Result<[f64; 3]> {
    let cache_control = "max-age=2, stale-if-error=300";
    let objects = Objects { length: 1_000, cache_control, delay: Duration::ZERO };
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

/// The share of the requests of so long that are answered with a 200.
fn answered(port: u16, span: Duration) -> Result<f64> {
    let begin = Instant::now();
    let count = (span.as_secs_f64() * RATE) as u32;
    let mut client = Client::connect(port)?;
    let mut answered = 0;
    for index in 0..count {
        let at = begin + Duration::from_secs_f64(f64::from(index) / RATE);
        thread::sleep(at.saturating_duration_since(Instant::now()));
        match client.fetch(u64::from(index) % OBJECTS) {
            Ok(()) => answered += 1,
            // What is left of its response would be taken for the next one.
            Err(_) => client = Client::connect(port)?,
        }
    }
    Ok(f64::from(answered) / f64::from(count))
}

pub(super) const NAME: &str = "cache, server down";
const COLUMNS: &str = "             before    during     after";
const RATE: f64 = 100.0;
const OBJECTS: u64 = 100;
const UP: Duration = Duration::from_secs(5);
const DOWN: Duration = Duration::from_secs(60);
