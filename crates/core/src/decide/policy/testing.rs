//! Groups to choose from, for the tests of the policies.

use alloc::{boxed::Box, vec, vec::Vec};
use core::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    decide::{ledger::Ledger, limits::Limits, plan::ServerPlan, policy::draw::splitmix64},
    time::Duration,
};

/// Servers of these weights, idle and without limits; the same ones at each call.
pub(super) fn servers(weights: &[u32]) -> Box<[ServerPlan]> {
    let mut ledger = Ledger::default();
    let weights = weights.iter().enumerate();
    let server = |(at, weight): (usize, &u32)| ServerPlan {
        index: at as u16,
        weight: *weight,
        limits: Limits::NONE,
        state: ledger.server("web", "near", address(at)),
    };
    weights.map(server).collect()
}

/// Where the server at this place listens.
pub(super) fn address(place: usize) -> SocketAddr {
    (Ipv4Addr::from_bits(0x0a00_0001 + place as u32), 80).into()
}

/// Gives each server so many requests in flight.
pub(super) fn load_with(servers: &[ServerPlan], in_flight: &[u32]) {
    for (server, count) in servers.iter().zip(in_flight) {
        server.state.in_flight.store(*count, Relaxed);
    }
}

/// Makes each server answer once, after so many milliseconds; zero leaves it without a response.
pub(super) fn answer_after(servers: &[ServerPlan], millis: &[u64]) {
    for (server, millis) in servers.iter().zip(millis).filter(|(_, millis)| **millis > 0) {
        server.state.latency.record(Duration::from_millis(*millis));
    }
}

/// Every server may be chosen.
pub(super) fn everyone(_: &ServerPlan) -> bool {
    true
}

/// How often each server is chosen in [`CHOICES`] choices, each with a draw of its own.
pub(super) fn counts<'a>(
    len: usize,
    mut choose: impl FnMut(u64) -> Option<&'a ServerPlan>,
) -> Vec<f64> {
    let mut counts = vec![0.0; len];
    for draw in draws().take(CHOICES) {
        let server = choose(draw).expect("a server is open");
        counts[usize::from(server.index)] += 1.0;
    }
    counts
}

/// Random numbers, the same in every run.
pub(super) fn draws() -> impl Iterator<Item = u64> {
    (1..).map(|n: u64| splitmix64(n.rotate_left(40)))
}

/// Asserts that the counts are in proportion to the shares: none is off by more than five
/// standard deviations.
pub(super) fn assert_shares(counts: &[f64], shares: &[f64]) {
    let all: f64 = counts.iter().sum();
    let whole: f64 = shares.iter().sum();
    for (count, share) in counts.iter().zip(shares) {
        let expected = all * share / whole;
        let deviation = libm::sqrt(expected * (1.0 - share / whole));
        assert!(
            libm::fabs(count - expected) <= 5.0 * deviation + 1e-9,
            "{counts:?} for shares {shares:?}"
        );
    }
}

pub(super) const CHOICES: usize = 40_000;
