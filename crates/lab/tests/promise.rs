//! How exact delays are, on a machine that does nothing else: so this is a program of its own, for
//! the tests of one program run beside each other.
#![expect(clippy::print_stdout, reason = "what was measured")]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

#[expect(dead_code, reason = "the most of it is for other tests")]
#[path = "wan/support.rs"]
mod support;

use loadline_core::time::Duration;
use loadline_lab::{
    host::{Lab, PortChoice},
    topology::LinkSpec,
    wan::Tolerance,
};

use crate::support::{SLACK, joined, probed, start_on};

const RTTS: [Duration; 3] =
    [Duration::from_micros(1_200), Duration::from_millis(30), Duration::from_millis(110)];

/// Two hosts for each round trip.
const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];

#[test]
fn round_trips_of_1_2_and_30_and_110_milliseconds_are_as_exact_as_promised() {
    let rtt = |from, to| RTTS[from + to - 1];
    let topology = joined(3, |from, to| LinkSpec::new(from, to, rtt(from, to) / 2));
    for kind in [PortChoice::Best, PortChoice::Veth] {
        let mut tallies = [Tally::default(); PAIRS.len()];
        for _ in 0..LABS {
            let open = |tally: &Tally| !tally.is_kept();
            if !tallies.iter().any(open) {
                break;
            }
            let lab = start_on(&topology, kind);
            for (tally, [from, to]) in tallies.iter_mut().zip(PAIRS) {
                if open(tally) {
                    tally.add(measure(&lab, [from, to], rtt(from, to)));
                }
            }
        }
        for (tally, [from, to]) in tallies.iter().zip(PAIRS) {
            tally.judge(&format!("{} over {kind:?}", rtt(from, to)));
        }
    }
}

/// What one measurement says of the promise.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// The router was in time, and so were the round trips.
    Exact,
    /// The router was in time, by what it says of itself, and the round trips were not.
    Off,
    /// The machine stood in the way of one of ten packets or more. A study throws it away, and so
    /// does this test, but for whether the round trips were off by no more than the router said.
    Late { accounted_for: bool },
}

/// The measurements of one pair of hosts.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    exact: u32,
    off: u32,
    late: u32,
    accounted_for: u32,
}

impl Tally {
    fn add(&mut self, run: Run) {
        match run {
            Run::Exact => self.exact += 1,
            Run::Off => self.off += 1,
            Run::Late { accounted_for } => {
                self.late += 1;
                self.accounted_for += u32::from(accounted_for);
            }
        }
    }

    /// Whether the promise is kept: one chance, such as a calibration that was disturbed, may
    /// spoil a lab without a word of the router, but not as many as it does not spoil.
    fn is_kept(&self) -> bool {
        self.exact > self.off
    }

    /// Fails where the promise is broken. Where the router was late in every lab, it cannot be
    /// judged as it stands: a machine may be like that. What can be is that half of the packets
    /// were in time and round trips off by no more than the router said, at least once. A router
    /// whose delays are off fails that as well, so that nothing needs to be skipped.
    fn judge(&self, what: &str) {
        if self.exact + self.off == 0 && self.accounted_for > 0 {
            println!(
                "\nNOT JUDGED BY ITS PROMISE: {what}. In {} labs of {} this machine woke the \
                 router too late; no study would be valid here. In {} of them round trips were off \
                 by no more than that accounts for.\n",
                self.late, self.late, self.accounted_for
            );
            return;
        }
        assert!(self.is_kept(), "round trips of {what} are not as exact as promised: {self:?}");
    }
}

#[test]
fn a_machine_that_is_late_in_every_lab_breaks_no_promise_that_the_router_accounts_for() {
    Tally { late: 12, accounted_for: 1, ..Tally::default() }.judge("a test");
}

#[test]
#[should_panic(expected = "not as exact as promised")]
fn round_trips_that_lateness_does_not_account_for_are_no_fault_of_the_machine() {
    Tally { late: 12, ..Tally::default() }.judge("a test");
}

#[test]
#[should_panic(expected = "not as exact as promised")]
fn a_router_in_time_whose_round_trips_are_mostly_off_breaks_the_promise() {
    Tally { exact: 1, off: 1, late: 10, accounted_for: 10 }.judge("a test");
}

/// Whether round trips are as exact as they may be asked to be; none is early in any lab.
fn measure(lab: &Lab, [from, to]: [usize; 2], asked: Duration) -> Run {
    let (probed, health) = probed(lab, from, to, asked);
    let error = probed.error(asked).unwrap();
    let tolerance = Tolerance::default();
    let faults = health.faults(&tolerance);
    println!("{asked}: {error:?}, {health:?}, invalid: {faults:?}");
    assert_eq!(probed.lost, 0);
    assert!(probed.round_trips.quantile(0.1).unwrap() + SLACK >= asked, "{error:?}");
    // The promise is for a machine that does nothing else; here the router may be late as far as it
    // says so, once each way.
    let late = health.lateness;
    let is_exact = error.median <= Duration::from_micros(100) + late.p50 * 2
        && error.p90 <= Duration::from_micros(300) + late.p90 * 2;
    match (faults.is_empty(), is_exact) {
        (true, true) => Run::Exact,
        (true, false) => Run::Off,
        (false, is_exact) => {
            Run::Late { accounted_for: is_exact && late.p50 <= tolerance.late_p90 }
        }
    }
}

/// So often a lab of each kind is made.
const LABS: usize = 12;
