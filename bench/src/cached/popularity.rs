//! How many requests a cache answers by itself, by how popular its objects are.
//!
//! 20,000 objects of 32 kB, of which a cache has room for a twentieth; so large, what each cache
//! keeps beside an object does not count. Requests choose by Zipf's law, independently; in one
//! case every tenth asks for an object that nobody asks for again, as crawlers do. What a cache
//! has not asked its server for is a hit. The first half of the requests fills it.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use super::client::Client;
use super::origin::{Objects, Origin};
use super::server::Cache;
use crate::peers::Workshop;
use crate::run::Section;
use crate::verdict::{Target, Verdict};

/// Measures each case for each cache.
pub(super) fn measure(caches: &[Cache], workshop: &Workshop, section: &mut Section) -> Result<()> {
    println!("\n{NAME}: hit ratio in %, {OBJECTS} objects, room for {}", OBJECTS / 20);
    print!("{:9}", "");
    CASES.iter().for_each(|case| print!("{:>12}", case.name));
    println!();
    let mut ratios = Vec::new();
    for cache in caches {
        print!("{:9}", cache.name());
        let mut row = Vec::new();
        for case in &CASES {
            let ratio = hit_ratio(*cache, case, workshop)?;
            print!("{:>12.1}", 100.0 * ratio);
            row.push(ratio);
        }
        println!();
        ratios.push((*cache, row));
    }
    for (index, case) in CASES.iter().enumerate() {
        judge(case, index, &ratios).into_iter().for_each(|verdict| section.judge(verdict));
    }
    let figures = ratios.iter().map(|(cache, row)| {
        let hits: Map<String, Value> =
            CASES.iter().zip(row).map(|(case, hit)| (case.name.to_owned(), json!(hit))).collect();
        json!({ "proxy": cache.name(), "hits": hits })
    });
    section.record(NAME, figures.collect());
    Ok(())
}

/// How requests choose.
struct Case {
    name: &'static str,
    /// Zipf's exponent.
    exponent: f64,
    /// Of requests for an object of their own.
    once: f64,
}

const CASES: [Case; 5] = [
    Case { name: "Zipf 0.7", exponent: 0.7, once: 0.0 },
    Case { name: "Zipf 0.9", exponent: 0.9, once: 0.0 },
    Case { name: "Zipf 1.0", exponent: 1.0, once: 0.0 },
    Case { name: "Zipf 1.1", exponent: 1.1, once: 0.0 },
    Case { name: "with scan", exponent: 1.0, once: 0.1 },
];

fn judge(case: &Case, index: usize, ratios: &[(Cache, Vec<f64>)]) -> Option<Verdict> {
    let of = |ours: bool| {
        // nginx makes room every ten seconds, and has stored more than its size meanwhile.
        let bounded = ratios.iter().filter(|(cache, _)| *cache != Cache::Nginx);
        let chosen = bounded.filter(move |(cache, _)| (*cache == Cache::Loadline) == ours);
        chosen.map(|(_, row)| row[index]).reduce(f64::max)
    };
    let (ours, best) = (of(true)?, of(false).unwrap_or(f64::NAN));
    let name = format!("{NAME}, {}, hits over the best peer's", case.name);
    Some(Verdict::new(name, ours / best, Target::AtLeast(1.0)))
}

fn hit_ratio(cache: Cache, case: &Case, workshop: &Workshop) -> Result<f64> {
    let objects = Objects {
        length: LENGTH,
        cache_control: "max-age=3600",
        delay: Duration::ZERO,
        pace: None,
    };
    let origin = Origin::start(0, objects)?;
    let running = cache.start_with(workshop, origin.port, LENGTH as u64 * OBJECTS / 20)?;
    let port = running.contender.port;
    let requests = case.requests();
    let (first, second) = requests.split_at(requests.len() / 2);
    send_all(port, first)?;
    let before = origin.requests();
    send_all(port, second)?;
    let missed = origin.requests() - before;
    Ok(1.0 - missed as f64 / second.len() as f64)
}

impl Case {
    /// Which objects are asked for, the same for every cache.
    fn requests(&self) -> Vec<u64> {
        let weight = |rank: u64| (rank as f64).powf(-self.exponent);
        let mut sum = 0.0;
        let cumulated: Vec<f64> = (1..=OBJECTS)
            .map(|rank| {
                sum += weight(rank);
                sum
            })
            .collect();
        let mut random = StdRng::seed_from_u64(1);
        let mut draw = |index: u64| {
            if random.random::<f64>() < self.once {
                return OBJECTS + index;
            }
            let at = random.random::<f64>() * sum;
            cumulated.partition_point(|upto| *upto <= at) as u64
        };
        (0..REQUESTS).map(&mut draw).collect()
    }
}

/// A few connections take turns.
fn send_all(port: u16, requests: &[u64]) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_A_TIME)
            .map(|first| {
                scope.spawn(move || {
                    let mut client = Client::connect(port)?;
                    let mine = requests.iter().skip(first).step_by(AT_A_TIME);
                    mine.copied().try_for_each(|object| client.fetch(object))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|one| one.join().expect("a client does not panic"))
    })
}

pub(super) const NAME: &str = "cache, popularity";
const OBJECTS: u64 = 20_000;
const REQUESTS: u64 = 60_000;
const LENGTH: usize = 32 << 10;
const AT_A_TIME: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_object_is_asked_for_as_often_as_the_law_says() {
        let case = &CASES[2];
        let requests = case.requests();
        let first = requests.iter().filter(|object| **object == 0).count() as f64;
        let harmonic: f64 = (1..=OBJECTS).map(|rank| 1.0 / rank as f64).sum();
        let expected = REQUESTS as f64 / harmonic;
        assert!((first - expected).abs() < 5.0 * expected.sqrt(), "{first} of {expected}");
        assert!(requests.iter().all(|object| *object < OBJECTS));
    }

    #[test]
    fn hits_are_held_against_the_best_peer() {
        let rows = |ours| {
            vec![
                (Cache::Loadline, vec![ours]),
                (Cache::Nginx, vec![0.5]),
                (Cache::Varnish, vec![0.6]),
            ]
        };
        assert!(!judge(&CASES[0], 0, &rows(0.61)).unwrap().failed());
        assert!(judge(&CASES[0], 0, &rows(0.55)).unwrap().failed());
        assert!(judge(&CASES[0], 0, &rows(0.55)[..1]).unwrap().failed());
    }
}
