//! How many requests a cache answers by which objects stay in it, and what that costs.
//!
//! One line for each popularity, size of the cache and kind of requests, with the hit ratio of each
//! eviction in percent of the requests, and the time of a request in nanoseconds from a thread
//! alone; `eviction --quick` takes fewer, `eviction --json FILE` writes the ratios there as well.
//! Hits are counted in the second half of the requests.
#![expect(clippy::print_stdout, reason = "the lines are the result")]

use std::{env, fs, hint::black_box, time};

#[path = "../tests/eviction/policies.rs"]
mod policies;
#[path = "../tests/eviction/traces.rs"]
mod traces;

use policies::{ALL, New};
use serde_json::{Map, Value, json};
use traces::{Request, Zipf, looped, scanned, shifting, sized, steady};

fn main() {
    let quick = env::args().any(|arg| arg == "--quick");
    let (objects, requests) = if quick { (10_000, 400_000) } else { (100_000, 4_000_000) };
    print!("{:32}", format!("{objects} objects"));
    ALL.iter().for_each(|(name, _)| print!("{name:>12}"));
    println!();
    let rows = rows(objects, requests);
    if let Some(file) = env::args().skip_while(|arg| arg != "--json").nth(1) {
        let all = json!({ "objects": objects, "requests": requests, "rows": rows });
        fs::write(&file, format!("{all:#}\n")).expect("the file can be written");
    }
}

fn rows(objects: u64, requests: u64) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut row = |name: &str, room: u64, all: &[Request]| rows.push(line(name, room, all));
    for exponent in [0.7, 0.8, 0.9, 1.0, 1.1] {
        let zipf = Zipf::new(objects, exponent);
        for per_mille in [1, 10, 50, 200] {
            let room = objects * per_mille / 1_000;
            let size = per_mille as f64 / 10.0;
            row(&format!("zipf {exponent:.1} {size} %"), room, &steady(&zipf, requests));
        }
    }
    let zipf = Zipf::new(objects, 1.0);
    for percent in [1, 5, 20] {
        let room = objects * percent / 100;
        let all = scanned(&zipf, requests, (room * 4, room * 2));
        row(&format!("zipf 1.0 {percent} % scans"), room, &all);
    }
    let room = objects / 20;
    row("1.0 5 % loop 1.2x", room, &looped(&zipf, requests, room * 6 / 5));
    row("1.0 5 % loop 0.5x", room, &looped(&zipf, requests, room / 2));
    row("1.0 5 % shift", room, &shifting(&zipf, requests, (objects / 10, 1)));
    row("1.0 5 % shift fast", room, &shifting(&zipf, requests, (objects / 10, 10)));
    let all = sized(&steady(&zipf, requests));
    row("1.0 5 % lognormal sizes", room * 16_000, &all);
    let zipf = Zipf::new(objects, 0.9);
    let all = sized(&scanned(&zipf, requests, (room * 4, room * 2)));
    row("0.9 5 % lognormal, scans", room * 16_000, &all);
    rows
}

/// Prints the figures of each eviction, and gives its hit ratios.
fn line(name: &str, capacity: u64, requests: &[Request]) -> Value {
    print!("{name:32}");
    let mut ratios = Map::new();
    for (eviction, new) in ALL {
        let (ratio, nanos) = run(new, capacity, requests);
        print!("{:>7.2} {nanos:>4.0}", ratio * 100.0);
        ratios.insert(eviction.to_owned(), json!(ratio));
    }
    println!();
    json!({ "name": name, "hits": ratios })
}

/// The hit ratio in the second half, and the time of a request in nanoseconds.
fn run(new: New, capacity: u64, requests: &[Request]) -> (f64, f64) {
    let mut cache = new(capacity, requests);
    let (first, second) = requests.split_at(requests.len() / 2);
    for request in first {
        black_box(cache.request(*request));
    }
    let from = time::Instant::now();
    let hits = second.iter().filter(|request| cache.request(**request)).count();
    let nanos = from.elapsed().as_nanos() as f64 / second.len() as f64;
    (hits as f64 / second.len() as f64, nanos)
}
