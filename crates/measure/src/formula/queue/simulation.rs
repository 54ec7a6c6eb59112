//! The same queue by simulation: an independent witness for the formulas, in tests only.

use std::{vec, vec::Vec};

/// Service times of a simulated queue, of mean 1.
#[derive(Clone, Copy, Debug)]
pub(super) enum Service {
    Constant,
    Exponential,
    /// The sum of so many exponentials: a gamma distribution of cv 1 / sqrt(k).
    Erlang(u32),
}

/// What one run found, in service times.
pub(super) struct Found {
    pub(super) waiting: f64,
    pub(super) mean_wait: f64,
    /// The standard error of `mean_wait`, from the means of batches.
    pub(super) error: f64,
    responses: Vec<f64>,
}

impl Found {
    pub(super) fn response_quantile(&self, share: f64) -> f64 {
        let rank = libm::ceil(share * self.responses.len() as f64) as usize;
        self.responses[rank.clamp(1, self.responses.len()) - 1]
    }
}

/// Sends `requests` through the queue, first come, first served.
pub(super) fn run(
    servers: u32,
    utilization: f64,
    service: Service,
    requests: usize,
    seed: u64,
) -> Found {
    let mut draws = Draws(seed);
    let mut free_at = vec![0.0f64; servers as usize];
    let rate = f64::from(servers) * utilization;
    let (mut now, mut waits, mut responses) = (0.0, Vec::new(), Vec::new());
    for _ in 0..requests {
        now += draws.exponential() / rate;
        let first = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("there is a server");
        let wait = (*first - now).max(0.0);
        let service = draws.service(service);
        *first = now + wait + service;
        waits.push(wait);
        responses.push(wait + service);
    }
    let mean = |waits: &[f64]| waits.iter().sum::<f64>() / waits.len() as f64;
    let mean_wait = mean(&waits);
    let batches: Vec<f64> = waits.chunks_exact(requests / BATCHES).map(mean).collect();
    let spread: f64 = batches.iter().map(|batch| (batch - mean_wait) * (batch - mean_wait)).sum();
    let error = libm::sqrt(spread / (BATCHES * (BATCHES - 1)) as f64);
    let waiting = waits.iter().filter(|wait| **wait > 0.0).count() as f64 / requests as f64;
    responses.sort_by(f64::total_cmp);
    Found { waiting, mean_wait, error, responses }
}

/// SplitMix64 as a source of draws.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.uniform())
    }

    fn service(&mut self, service: Service) -> f64 {
        match service {
            Service::Constant => 1.0,
            Service::Exponential => self.exponential(),
            Service::Erlang(k) => (0..k).map(|_| self.exponential()).sum::<f64>() / f64::from(k),
        }
    }
}

/// Batches long enough to be nearly independent of each other.
const BATCHES: usize = 20;
