//! The figures of the tutorial "Capacity management with load balancing" (Google Cloud,
//! 2018-01-18), times in milliseconds as published.

/// One run of httperf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Average connection time, ms.
    pub(crate) average: f64,
    /// Longest connection time, ms.
    pub(crate) max: f64,
    /// Errors of 500 requests.
    pub(crate) errors: u64,
}

const fn run(average: f64, max: f64, errors: u64) -> Run {
    Run { average, max, errors }
}

/// One server at 4, 5, 7 and 10 requests per second.
pub(crate) const ONE_SERVER: [Run; 4] = [
    run(384.5, 487.8, 0),
    run(381.1, 447.7, 0),
    run(11_075.5, 60_100.6, 4),
    run(18_335.6, 65_533.9, 32),
];

/// One region of three servers: rate and average in the text, "close to 500 ms" and "5000 ms".
pub(crate) const ONE_REGION: [(u64, f64); 2] = [(10, 500.0), (20, 5000.0)];

/// Two regions of 10 RPS each, 500 requests at 10 RPS.
pub(crate) const TWO_REGIONS_ONCE: Run = run(584.7, 1390.4, 0);

/// The same, then five times 500 requests at 20 RPS.
pub(crate) const TWO_REGIONS_DOUBLE: [Run; 5] = [
    run(6396.8, 13_615.1, 0),
    run(3782.9, 7979.5, 0),
    run(860.0, 3971.2, 0),
    run(700.8, 1927.8, 0),
    run(701.8, 1612.3, 0),
];
