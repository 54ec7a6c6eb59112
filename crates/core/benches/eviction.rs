//! How many requests a cache answers by which objects stay in it, and what that costs.
//!
//! One line for each popularity, size of the cache and kind of requests, with the hit ratio of each
//! eviction in percent of the requests; `eviction --quick` takes fewer. Hits are counted in the
//! second half of the requests. The last lines are the time of a request, from a thread alone.
#![expect(clippy::print_stdout, reason = "the lines are the result")]

use std::{env, hint::black_box, time};

#[path = "../tests/eviction/policies.rs"]
mod policies;
#[path = "../tests/eviction/traces.rs"]
mod traces;

use policies::{ALL, New};
use traces::{Request, Zipf, looped, scanned, shifting, sized, steady};

fn main() {
    let quick = env::args().any(|arg| arg == "--quick");
    let (objects, requests) = if quick { (10_000, 400_000) } else { (100_000, 4_000_000) };
    print!("{:32}", format!("{objects} objects"));
    ALL.iter().for_each(|(name, _)| print!("{name:>12}"));
    println!();
    for exponent in [0.7, 0.9, 1.0, 1.1] {
        let zipf = Zipf::new(objects, exponent);
        for per_mille in [1, 10, 50, 100] {
            let room = objects * per_mille / 1_000;
            let size = per_mille as f64 / 10.0;
            line(&format!("zipf {exponent} {size} %"), room, &steady(&zipf, requests));
        }
    }
    let zipf = Zipf::new(objects, 1.0);
    let room = objects / 20;
    line("1.0 5 % scans", room, &scanned(&zipf, requests, (room * 4, room * 2)));
    line("1.0 5 % loop 1.2x", room, &looped(&zipf, requests, room * 6 / 5));
    line("1.0 5 % loop 0.5x", room, &looped(&zipf, requests, room / 2));
    line("1.0 5 % shift", room, &shifting(&zipf, requests, (objects / 10, 1)));
    line("1.0 5 % shift fast", room, &shifting(&zipf, requests, (objects / 10, 10)));
    let all = sized(&steady(&zipf, requests));
    line("1.0 5 % lognormal sizes", room * 16_000, &all);
    let zipf = Zipf::new(objects, 0.9);
    let all = sized(&scanned(&zipf, requests, (room * 4, room * 2)));
    line("0.9 5 % lognormal, scans", room * 16_000, &all);
}

fn line(name: &str, capacity: u64, requests: &[Request]) {
    print!("{name:32}");
    for (_, new) in ALL {
        let (ratio, nanos) = run(new, capacity, requests);
        print!("{:>7.2} {nanos:>4.0}", ratio * 100.0);
    }
    println!();
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
