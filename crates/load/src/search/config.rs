//! What a search looks for, and the time it may take.

use loadline_core::{
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_measure::record::Arrivals;

/// What to search and how long to look.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is loaded, for the record.
    pub target: String,
    /// The objective as it is judged, for the record.
    pub objective: String,
    /// How the planned instants of trials lie, for the record.
    pub arrivals: Arrivals,
    /// What the seeds of the trials come from.
    pub seed: u64,
    /// How long a rung of the ladder lasts at most; load that is to show whether the service grows
    /// with it stays five times as long.
    pub rung: Duration,
    /// The most users of a rung.
    pub most_users: u32,
    /// How long the first, short trials last.
    pub first_trial: Duration,
    /// How long a trial lasts at most that counts in full, where no slow cycle shows.
    pub last_trial: Duration,
    /// The least time of such trials near the load line before a load is confirmed.
    pub duration_sum: Duration,
    /// How far from the load line what is found may be in 5 of 100 searches, as a share.
    pub precision: Ratio,
    /// How long a confirming run lasts.
    pub confirm: Duration,
    /// The highest load that may be tried.
    pub highest: Rate,
    /// When the search ends at the latest.
    pub within: Duration,
    /// The share of the load line that is to stay free.
    pub headroom: Ratio,
}

impl Default for Config {
    /// A minute and a half for a service of some thousand requests per second that is late evenly,
    /// and ten minutes at most.
    fn default() -> Self {
        Self {
            target: String::new(),
            objective: String::new(),
            arrivals: Arrivals::Poisson,
            seed: 1,
            rung: Duration::from_millis(1_500),
            most_users: 1_024,
            first_trial: Duration::from_secs(1),
            last_trial: Duration::from_secs(10),
            duration_sum: Duration::from_secs(20),
            precision: Ratio::percent(2),
            confirm: Duration::from_secs(6),
            highest: Rate::per_sec(1_000_000),
            within: Duration::from_secs(600),
            headroom: Ratio::percent(20),
        }
    }
}

impl Config {
    /// A look that ends in half a minute: shorter trials, a wider interval.
    #[must_use]
    pub fn quick(self) -> Self {
        Self {
            rung: Duration::from_millis(500),
            first_trial: Duration::from_millis(500),
            last_trial: Duration::from_secs(1),
            duration_sum: Duration::from_secs(5),
            precision: Ratio::percent(4),
            confirm: Duration::from_secs(2),
            within: Duration::from_secs(30),
            ..self
        }
    }
}
