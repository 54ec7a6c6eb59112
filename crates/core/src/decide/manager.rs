//! Weights of the policy `managed`, from load and latency of servers, as IBM's manager computes
//! them.
//!
//! Each measure is a cost of a server, divided by its weight in the file, so that a server of
//! twice the weight may have twice as much of it. Counts have one added for a server of mean
//! weight, so that one connection beside none is no great difference. The quality of a server is
//! how it compares with the others:
//!
//! ```text
//! cost_i     = measure_i / weight_i                              + 1 / mean weight, for counts
//! quality_i  = clamp(mean of the costs / cost_i, 1/10, 10)       1 where nothing is known of i
//! wanted_i   = sum over the measures of proportion * quality_i / sum of the proportions
//! smoothed_i = smoothed_i + (wanted_i - smoothed_i) / smoothing
//! ```
//! What is smoothed is put in force when it differs from what is in force by more than the
//! sensitivity, summed over the servers, so that small changes do not make traffic swing.
//!
//! Source: the manager of IBM's Network Dispatcher and its proportions, smoothing index,
//! sensitivity threshold and update interval, with its defaults. How it computes a weight from a
//! measure is not published; the quality is ours.

use alloc::vec::Vec;

use crate::{time::Duration, units::Ratio};

/// How weights are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manager {
    /// How much each measure counts. At least one is above zero.
    pub proportions: Proportions,
    /// Time from one look to the next.
    pub interval: Duration,
    /// How slowly weights follow, at least 1, where they follow at once.
    pub smoothing: f64,
    /// How much all weights together have to change before they are put in force.
    pub sensitivity: Ratio,
}

/// How much each measure counts, relative to the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportions {
    /// Requests, or connections, in flight.
    pub active: Ratio,
    /// New requests, or connections, since the last look.
    pub new: Ratio,
    /// How long its health checks take.
    pub check: Ratio,
    /// The utilization that it reports.
    pub reported: Ratio,
}

/// What is known of a server; absent where nobody has measured it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Requests, or connections, in flight.
    pub active: Option<f64>,
    /// New ones since the last look.
    pub new: Option<f64>,
    /// The time its checks take, in seconds.
    pub check: Option<f64>,
    /// Its utilization; 1 is all that it can do.
    pub reported: Option<f64>,
}

/// A server as the manager sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Managed {
    /// Its weight in the file, above zero.
    pub weight: f64,
    /// What its weight was multiplied with after the last look; 1 before the first.
    pub factor: f64,
    /// What was measured since.
    pub observed: Observation,
}

/// The default of IBM's manager: active and new connections count alike, nothing else does.
pub const DEFAULT: Manager = Manager {
    proportions: Proportions {
        active: Ratio::ppm(500_000),
        new: Ratio::ppm(500_000),
        check: Ratio::ZERO,
        reported: Ratio::ZERO,
    },
    interval: Duration::from_secs(2),
    smoothing: 1.5,
    sensitivity: Ratio::ppm(50_000),
};

impl Manager {
    /// What the weight of each server is multiplied with from now on, in their order.
    #[must_use]
    pub fn factors(&self, servers: &[Managed]) -> Vec<f64> {
        let wanted = self.wanted(servers);
        let smoothed = servers.iter().zip(wanted);
        smoothed.map(|(it, wanted)| it.factor + (wanted - it.factor) / self.smoothing).collect()
    }

    /// Whether the difference of weights is worth being put in force.
    #[must_use]
    pub fn is_worth(&self, servers: &[Managed], factors: &[f64], in_force: &[f64]) -> bool {
        let weights = || servers.iter().map(|server| server.weight);
        let all: f64 = weights().zip(in_force).map(|(weight, old)| weight * old).sum();
        let pairs = weights().zip(factors.iter().zip(in_force));
        let change: f64 = pairs.map(|(weight, (new, old))| weight * libm::fabs(new - old)).sum();
        change > all * self.sensitivity.as_f64()
    }

    /// Whether it goes by the utilization that servers report.
    #[must_use]
    pub fn uses_reports(&self) -> bool {
        self.proportions.reported > Ratio::ZERO
    }

    fn wanted(&self, servers: &[Managed]) -> Vec<f64> {
        let Proportions { active, new, check, reported } = self.proportions;
        let one = servers.len() as f64 / servers.iter().map(|it| it.weight).sum::<f64>();
        let measures: [(Ratio, f64, Measure); 4] = [
            (active, one, |it| it.active),
            (new, one, |it| it.new),
            (check, 0.0, |it| it.check),
            (reported, 0.0, |it| it.reported),
        ];
        let mut wanted: Vec<f64> = servers.iter().map(|_| 0.0).collect();
        let mut whole = 0.0;
        for (proportion, more, measure) in measures {
            let costs = servers.iter().map(|it| Some(measure(&it.observed)? / it.weight + more));
            let costs: Vec<Option<f64>> = costs.collect();
            let mean = mean(&costs);
            whole += proportion.as_f64();
            for (sum, cost) in wanted.iter_mut().zip(costs) {
                *sum += proportion.as_f64() * quality(cost, mean);
            }
        }
        wanted.iter().map(|sum| if whole > 0.0 { sum / whole } else { 1.0 }).collect()
    }
}

/// Reads one of the four measures.
type Measure = fn(&Observation) -> Option<f64>;

fn mean(costs: &[Option<f64>]) -> f64 {
    let known = || costs.iter().flatten();
    known().sum::<f64>() / (known().count().max(1) as f64)
}

/// How good a cost is beside the mean; as good as any where either is not known.
fn quality(cost: Option<f64>, mean: f64) -> f64 {
    match cost {
        Some(cost) if mean > 0.0 => (mean / cost.max(mean / QUALITY_MAX)).max(QUALITY_MAX.recip()),
        _ => 1.0,
    }
}

/// No server is given ten times what it would be, nor less than a tenth: every one is measured.
const QUALITY_MAX: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(weight: f64, factor: f64, active: f64) -> Managed {
        let observed = Observation { active: Some(active), ..Observation::default() };
        Managed { weight, factor, observed }
    }

    fn by_active(smoothing: f64) -> Manager {
        let only = Proportions { active: Ratio::ONE, new: Ratio::ZERO, ..DEFAULT.proportions };
        Manager { proportions: only, smoothing, ..DEFAULT }
    }

    #[test]
    fn who_has_less_to_do_for_his_weight_is_given_more() {
        let servers = [server(0.5, 1.0, 4.0), server(0.5, 1.0, 14.0), server(2.0, 1.0, 36.0)];
        let factors = by_active(1.0).factors(&servers);
        assert_eq!(factors, [19.0 / 9.0, 19.0 / 29.0, 1.0], "costs 9, 29 and 19, their mean");
    }

    #[test]
    fn a_server_of_which_nothing_is_known_keeps_its_weight() {
        let unknown = Managed { observed: Observation::default(), ..server(1.0, 1.0, 0.0) };
        let factors = by_active(1.0).factors(&[server(1.0, 1.0, 5.0), unknown]);
        assert_eq!(factors, [1.0, 1.0]);
        let idle = by_active(1.0).factors(&[server(1.0, 1.0, 0.0), server(1.0, 1.0, 0.0)]);
        assert_eq!(idle, [1.0, 1.0], "nobody has anything to do");
    }

    #[test]
    fn one_connection_beside_none_is_no_great_difference() {
        let factors = by_active(1.0).factors(&[server(1.0, 1.0, 1.0), server(1.0, 1.0, 0.0)]);
        assert_eq!(factors, [0.75, 1.5]);
        let unequal = by_active(1.0).factors(&[server(9.0, 1.0, 0.0), server(1.0, 1.0, 0.0)]);
        assert_eq!(unequal, [1.0, 1.0], "of unequal weights, and idle");
    }

    #[test]
    fn a_smoothing_of_four_goes_a_quarter_of_the_way() {
        let servers = [server(1.0, 1.0, 9.0), server(1.0, 1.0, 29.0)];
        assert_eq!(by_active(4.0).factors(&servers)[0], 1.25);
    }

    #[test]
    fn a_change_below_the_sensitivity_is_left_for_later() {
        let servers = [server(1.0, 1.0, 0.0), server(3.0, 1.0, 0.0)];
        let worth = |factors: [f64; 2]| DEFAULT.is_worth(&servers, &factors, &[1.0, 1.0]);
        assert!(!worth([1.04, 0.95]), "0.04 and 3 times 0.05 of 4 are under 5 %");
        assert!(worth([1.0, 1.08]), "3 times 0.08 of 4 are 6 %");
    }

    #[test]
    fn servers_of_unequal_speed_end_with_weights_that_no_longer_move() {
        // Requests in flight are what arrives times how long it takes: 10 ms and 40 ms.
        let (times, manager) = ([0.01, 0.04], by_active(1.5));
        let mut factors = [1.0, 1.0];
        for _ in 0..50 {
            let all: f64 = factors.iter().sum();
            let at = |i: usize| server(1.0, factors[i], 1000.0 * factors[i] / all * times[i]);
            let next = manager.factors(&[at(0), at(1)]);
            factors = [next[0], next[1]];
        }
        let ratio = factors[0] / factors[1];
        assert!((1.9..2.1).contains(&ratio), "the root of 40 / 10: {factors:?}");
    }

    proptest! {
        #[test]
        fn factors_stay_between_a_tenth_and_ten(
            servers in prop::collection::vec((0.01f64..1000.0, 0.1f64..10.0, 0.0f64..1e9), 1..20),
            smoothing in 1.0f64..10.0,
        ) {
            let servers: Vec<_> =
                servers.into_iter().map(|(w, f, active)| server(w, f, active)).collect();
            for factor in by_active(smoothing).factors(&servers) {
                prop_assert!((0.099..=10.01).contains(&factor), "{}", factor);
            }
        }
    }
}
