//! How much the demo measures, and how it is cut to the time it has.
//!
//! The tutorial runs at ten times its speed: 38 ms for 380 ms, 10 requests per second for 1.

use loadline_core::{time::Duration, units::Rate};

/// Rates and numbers of requests.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// (a) Requests to one server at each of [`SERVER_RATES`].
    pub(crate) server_requests: u64,
    /// (b) and (c) Rates of the curves, with the number of requests at each.
    pub(crate) curve: Vec<Load>,
    /// (c) Once at the capacity of the near region.
    pub(crate) once: Load,
    /// (c) Each of the five runs at twice that.
    pub(crate) double: Load,
    /// (d) Slices of the run with the failure.
    pub(crate) slices: u32,
    /// (d) The slice at whose beginning the near region is killed.
    pub(crate) killed_at: u32,
}

/// One run of the load generator, at even distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) rate: Rate,
    pub(crate) requests: u64,
}

impl Load {
    pub(crate) const fn new(per_sec: u64, requests: u64) -> Self {
        Self { rate: Rate::per_sec(per_sec), requests }
    }
}

impl Plan {
    /// As published, 500 requests a run; 62 s.
    pub(crate) fn full() -> Self {
        let curve = [(50, 250), (100, 500), (120, 500), (130, 500), (150, 500), (200, 500)];
        Self {
            server_requests: 500,
            curve: curve.map(|(rate, requests)| Load::new(rate, requests)).to_vec(),
            once: Load::new(100, 500),
            double: Load::new(200, 500),
            slices: 70,
            killed_at: 25,
        }
    }

    /// The same in short, with the points that verdicts need; 20 s.
    pub(crate) fn quick() -> Self {
        let curve = [(50, 100), (100, 200), (150, 200), (200, 300)];
        Self {
            server_requests: 100,
            curve: curve.map(|(rate, requests)| Load::new(rate, requests)).to_vec(),
            once: Load::new(100, 150),
            double: Load::new(200, 200),
            slices: 30,
            killed_at: 10,
        }
    }

    /// Steps of the progress bar.
    pub(crate) fn steps(&self) -> u64 {
        let (servers, once, failover) = (1, 1, 1);
        servers + self.curve.len() as u64 + once + RUNS as u64 + failover
    }
}

/// (a) Rates for one server.
pub(crate) const SERVER_RATES: [u64; 4] = [40, 50, 70, 100];
/// (c) Runs at twice the capacity of a region.
pub(crate) const RUNS: usize = 5;
/// (c) What each region may be given.
pub(crate) const MAX_RATE: Rate = Rate::per_sec(100);
/// Servers in a region.
pub(crate) const SERVERS: usize = 3;
/// Requests a server works on at a time.
pub(crate) const CORES: u64 = 2;
/// Time a core takes for a request.
pub(crate) const SERVICE_TIME: Duration = Duration::from_millis(38);
/// Round trip to the far region, which the tutorial does not tell. The study `capacity` has the
/// 110 ms of the sister tutorial.
pub(crate) const DISTANCE: Duration = Duration::from_millis(11);
/// (d) Length of a slice of the time line.
pub(crate) const SLICE: Duration = Duration::from_millis(100);
/// (d) Load of one slice.
pub(crate) const SLICE_LOAD: Load = Load::new(100, 10);
/// Times measured are times published divided by this, rates multiplied.
pub(crate) const SCALE: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_regions_are_as_far_apart_as_in_the_study_of_the_lab() {
        let study = include_str!("../../../../../studies/capacity.toml");
        let millis = (DISTANCE * SCALE).as_nanos() / 1_000_000;
        let link = format!("rtt = \"{{={millis}/speed}}ms\"");
        assert!(study.contains(&link), "no {link}");
    }
}
