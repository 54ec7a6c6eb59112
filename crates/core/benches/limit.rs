//! What one decision of a rate limit costs with a million clients, and who gets more than its rate
//! where the table is too small for them.
//!
//! One line a size, `limit CLIENTS KEYS MB ns/decision OVER`: clients ask in turn, so that no cache
//! knows who comes next; each asks ten times in 100 ms, and may five times (10/s, a burst of 5).
//! `OVER` counts those that got more. The time is the median over rounds, in one thread.
#![expect(clippy::print_stdout, reason = "the lines are the result")]

use std::time;

use loadline_core::{
    rules::{LimitKey, Limiter, RateLimit},
    time::{Duration, Instant},
    units::Rate,
};

fn main() {
    for clients in [10_000, CLIENTS] {
        for keys in [64 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20] {
            measure(clients, keys);
        }
    }
}

fn measure(clients: usize, keys: u32) {
    let by = LimitKey::Client;
    let limiter = Limiter::new(&RateLimit { rate: Rate::per_sec(10), burst: 5, by, keys });
    let mut given = vec![0_u8; clients];
    let mut times: Vec<f64> = (0..ROUNDS).map(|round| ask(&limiter, round, &mut given)).collect();
    times.sort_by(f64::total_cmp);
    let over = given.iter().filter(|given| **given > 5).count();
    let bytes = f64::from(keys) * 8.0;
    let (megabytes, time) = (bytes / f64::from(1 << 20), times[times.len() / 2]);
    println!("limit {clients} {keys} {megabytes:.1} {time:.1} ns {over}");
}

/// Has each client ask once; the mean time of a decision in nanoseconds.
fn ask(limiter: &Limiter, round: u64, given: &mut [u8]) -> f64 {
    let start = Instant::ZERO + Duration::from_secs(1) + Duration::from_millis(10 * round);
    let began = time::Instant::now();
    for (client, given) in given.iter_mut().enumerate() {
        // As even as the keyed hash of an address.
        let key = (client as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (key ^ key >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let now = start + Duration::from_nanos(client as u64);
        *given += u8::from(limiter.take(mixed ^ mixed >> 32, now).is_ok());
    }
    began.elapsed().as_nanos() as f64 / given.len() as f64
}

const CLIENTS: usize = 1_000_000;

/// As often as each client asks.
const ROUNDS: u64 = 10;
