//! What one lookup in a map costs, by kind and by the number of keys.
//!
//! One line each, `map KIND KEYS ns/lookup`: half of what is looked up has a key, in an order that
//! no cache knows. The time is the median over rounds, in one thread.
#![expect(clippy::print_stdout, reason = "the lines are the result")]

use std::{hint::black_box, time};

use loadline_core::rules::{Map, MapKind, Template};

fn main() {
    for kind in [MapKind::Exact, MapKind::Prefix, MapKind::Suffix] {
        for keys in [100, 10_000, 100_000, 1_000_000] {
            measure(kind, keys);
        }
    }
    for keys in [10, 100, 1_000] {
        measure(MapKind::Regex, keys);
    }
}

fn measure(kind: MapKind, keys: u64) {
    let host = |n: u64| format!("host-{n:07}.example.com");
    let key = |n: u64| match kind {
        MapKind::Regex => format!("^{}$", host(n).replace('.', "\\.")),
        _ => host(n),
    };
    let entries = (0..keys).map(|n| (key(2 * n), format!("tag-{n}"))).collect();
    let of = Template::read("$host").unwrap_or_default();
    let Ok(map) = Map::new(("tag", &of), kind, entries, String::new()) else { return };
    let asked: Vec<String> = (0..LOOKUPS).map(|n| host(mixed(n) % (2 * keys))).collect();
    let round = || {
        let began = time::Instant::now();
        for host in &asked {
            black_box(map.find(black_box(host.as_bytes())));
        }
        began.elapsed().as_nanos() as f64 / asked.len() as f64
    };
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    println!("map {kind:?} {keys} {:.0} ns", times[times.len() / 2]);
}

/// Numbers in no order.
fn mixed(n: u64) -> u64 {
    let n = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

const LOOKUPS: u64 = 100_000;
const ROUNDS: usize = 9;
