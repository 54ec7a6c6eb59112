//! Whether what was measured over the router can be trusted.
//!
//! The router adds an error of its own where it gets no processor in time. Two signs show that, and
//! stand beside every result: the machine's steal (processor time that its host took), and the
//! router's lateness. Past the tolerance a run is invalid: thrown away, not averaged in.

use loadline_core::{time::Duration, units::Ratio};
use loadline_linux::proc;

use super::{Counters, Lateness, RouterGone, RouterHandle};

/// The errors with which a run is still trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Steal as a share of all processors.
    pub steal: Ratio,
    /// 90th percentile of the lateness.
    pub late_p90: Duration,
    /// 99th percentile of the lateness.
    pub late_p99: Duration,
}

/// How the machine and the router did meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The share of all processors' time that the machine's host took.
    pub steal: Ratio,
    /// What all processors together worked, whoever they worked for.
    pub busy: Duration,
    /// How late packets were written.
    pub lateness: Lateness,
    /// The longest the router was away from its ports.
    pub longest_turn: Duration,
}

/// The watch over one run.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    before: Ticks,
}

/// Processor time in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    all: u64,
    steal: u64,
    idle: u64,
}

impl Default for Tolerance {
    /// What the lab's delays promise leaves this much: a round trip passes the router twice.
    fn default() -> Self {
        Self {
            steal: Ratio::percent(5),
            late_p90: Duration::from_micros(150),
            late_p99: Duration::from_millis(1),
        }
    }
}

impl Watch {
    /// Begins a run: the router's counters start from zero.
    ///
    /// # Errors
    /// [`RouterGone`].
    pub fn begin(router: &RouterHandle) -> Result<Self, RouterGone> {
        router.reset_counters()?;
        Ok(Self { before: Ticks::now() })
    }

    /// How it went since, with the counters.
    ///
    /// # Errors
    /// [`RouterGone`].
    pub fn end(&self, router: &RouterHandle) -> Result<(Health, Counters), RouterGone> {
        let counters = router.counters()?;
        let now = Ticks::now();
        let (steal, busy) = (now.steal_since(self.before), now.busy_since(self.before));
        let (lateness, longest_turn) = (counters.lateness, counters.longest_turn);
        Ok((Health { steal, busy, lateness, longest_turn }, counters))
    }
}

impl Health {
    /// What makes the run invalid, each a sentence with its figures; empty in a valid one.
    #[must_use]
    pub fn faults(&self, tolerance: &Tolerance) -> Vec<String> {
        let mut faults = Vec::new();
        if self.steal > tolerance.steal {
            let (steal, most) = (self.steal, tolerance.steal);
            faults.push(format!("the host of this machine took {steal} of its time, over {most}"));
        }
        let late = [
            ("nine of ten", self.lateness.p90, tolerance.late_p90),
            ("99 of 100", self.lateness.p99, tolerance.late_p99),
        ];
        for (which, late, most) in late {
            if late > most {
                let late = Duration::from_micros(late.as_nanos() / 1000);
                faults.push(format!(
                    "the router wrote {which} packets up to {late} late, over {most}"
                ));
            }
        }
        faults
    }
}

impl Ticks {
    fn now() -> Self {
        // Without /proc there is no steal to be seen.
        Self::read(&proc::text("/proc/stat").unwrap_or_default())
    }

    fn read(text: &str) -> Self {
        let all = proc::cpus(text).into_iter().next().unwrap_or_default();
        Self { all: all.all(), steal: all.steal, idle: all.idle }
    }

    /// What was neither idle nor taken.
    fn busy_since(self, before: Self) -> Duration {
        let busy = |ticks: Self| ticks.all - ticks.idle - ticks.steal;
        proc::ticks(busy(self).saturating_sub(busy(before)))
    }

    /// Share of time taken by the machine's host, as far as certain: two counts of whole ticks may
    /// differ by one too many, which is much in a short run.
    fn steal_since(self, before: Self) -> Ratio {
        let certain = self.steal.saturating_sub(before.steal).saturating_sub(1);
        Ratio::part(certain, self.all.saturating_sub(before.all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure_as_a_share_of_the_first_eight() {
        let before = Ticks::read("cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 2 3\n");
        assert_eq!(before, Ticks { all: 1_000, steal: 35, idle: 810 });
        let after = Ticks::read("cpu  150 0 50 830 10 0 5 56 8 0\n");
        assert_eq!(after.steal_since(before), Ratio::part(20, 101));
        assert_eq!(before.steal_since(after), Ratio::ZERO);
        assert_eq!(after.busy_since(before), proc::ticks(50));
        assert_eq!(before.busy_since(after), Duration::ZERO);
        assert_eq!(Ticks::read(""), Ticks::default());
    }

    #[test]
    fn a_run_of_a_few_ticks_is_not_invalid_for_one_that_the_host_took() {
        let before = Ticks { all: 1_000, steal: 35, idle: 810 };
        let taken = |steal: u64, all: u64| {
            let after = Ticks { all: 1_000 + all, steal: 35 + steal, idle: 810 };
            let health = Health { steal: after.steal_since(before), ..Health::default() };
            !health.faults(&Tolerance::default()).is_empty()
        };
        assert!(!taken(1, 2) && !taken(1, 3) && !taken(1, 13));
        assert!(taken(2, 13) && taken(5, 19) && taken(100, 1_000));
        assert!(!taken(50, 1_000));
    }

    #[test]
    fn a_run_past_the_tolerance_says_what_made_it_invalid() {
        let tolerance = Tolerance::default();
        assert_eq!(Health::default().faults(&tolerance), Vec::<String>::new());
        let lateness = Lateness {
            p90: Duration::from_micros(200),
            p99: Duration::from_micros(900),
            ..Lateness::default()
        };
        let health = Health { steal: Ratio::percent(6), lateness, ..Health::default() };
        let faults = health.faults(&tolerance);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("6% of its time, over 5%"), "{}", faults[0]);
        assert!(faults[1].contains("up to 200us late, over 150us"), "{}", faults[1]);
    }
}
