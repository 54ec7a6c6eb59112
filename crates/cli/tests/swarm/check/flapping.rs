//! No flapping: while what comes is steady and nothing is wrong, the share of the requests that a
//! group gets does not swing to and fro, where its limits are numbers. A swing is a move of the
//! share in [`WINDOW`] by more than [`SWING`] against the direction of the last; [`SWINGS_MAX`] are
//! let pass. Nothing is wrong where no fault is planned and no server goes down or is ejected, and
//! the service does not spread.

use std::collections::BTreeMap;

use loadline_core::{
    decide::controller::Change,
    time::{Duration, Instant},
};
use loadline_sim::{
    Arrivals, Scenario, ServiceTime, Spacing,
    trace::{Fact, Step, What},
};

use super::{Checker, End};
use crate::account::{Account, ejection};

pub(super) struct Flapping {
    is_steady: bool,
    lasts: Instant,
    /// By service and window: requests to each group.
    windows: BTreeMap<(u32, u64), BTreeMap<u16, u64>>,
}

impl Flapping {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let is_even = |arrivals: &Arrivals| match arrivals {
            Arrivals::Open { spacing, stages } => {
                matches!(spacing, Spacing::Constant | Spacing::Poisson)
                    && stages.iter().all(|stage| stage.from == stage.to)
                    && stages.len() == 1
            }
            _ => false,
        };
        let is_plain = |time: &ServiceTime| {
            matches!(time, ServiceTime::Constant(_) | ServiceTime::Exponential { .. })
        };
        let is_steady = scenario.faults.is_empty()
            && scenario.sources.iter().all(|source| is_even(&source.arrivals))
            && scenario.servers.iter().all(|(_, it)| is_plain(&it.time) && it.pauses.is_none());
        let lasts = Instant::ZERO + scenario.lasts;
        Self { is_steady, lasts, windows: BTreeMap::new() }
    }
}

impl Checker for Flapping {
    fn see(&mut self, _: &Account, fact: &Fact) -> Result<(), String> {
        if let What::Noticed { notice, .. } = &fact.what {
            let is_down = matches!(notice.change, Change::Down(..));
            self.is_steady &= !is_down && ejection(notice).is_none();
        }
        let What::Request(_, Step::Sent { server, .. }) = fact.what else { return Ok(()) };
        let window = fact.at.as_nanos() / WINDOW.as_nanos();
        let is_whole =
            window > 1 && Instant::from_nanos((window + 1) * WINDOW.as_nanos()) <= self.lasts;
        if self.is_steady && is_whole {
            let groups = self.windows.entry((server.service, window)).or_default();
            *groups.entry(server.group).or_default() += 1;
        }
        Ok(())
    }

    fn end(&mut self, account: &Account, _: &End<'_>) -> Result<(), String> {
        let held = |service: &usize| account.is_known(*service) && !account.spreads(*service);
        for service in (0..account.groups[0].len()).filter(|_| self.is_steady).filter(held) {
            let of = |group: u16| {
                let windows = self.windows.range((service as u32, 0)..(service as u32 + 1, 0));
                windows.map(move |(_, groups)| {
                    let all: u64 = groups.values().sum();
                    let here = groups.get(&group).copied().unwrap_or(0);
                    (all >= ENOUGH).then_some(here as f64 / all as f64)
                })
            };
            for group in 0..account.groups[0][service].len() {
                let shares: Option<Vec<f64>> = of(group as u16).collect();
                let Some(shares) = shares else { continue };
                let swings = swings(&shares);
                if swings > SWINGS_MAX {
                    return Err(format!(
                        "the share of group {group} of service {service} swings {swings} times: \
                         {shares:.2?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// How often a share turns and moves by more than [`SWING`].
fn swings(shares: &[f64]) -> u32 {
    let Some(first) = shares.first() else { return 0 };
    let (mut least, mut most, mut rises, mut count) = (*first, *first, None, 0);
    for share in shares {
        (least, most) = (least.min(*share), most.max(*share));
        let turned = match rises {
            Some(true) => most - share > SWING,
            Some(false) => share - least > SWING,
            None => most - least > SWING,
        };
        if turned {
            rises = Some(share - least > SWING);
            (least, most) = (*share, *share);
            count += 1;
        }
    }
    count
}

const WINDOW: Duration = Duration::from_secs(2);

const SWING: f64 = 0.35;

const SWINGS_MAX: u32 = 3;

/// Requests in a window of which a share means something.
const ENOUGH: u64 = 100;
