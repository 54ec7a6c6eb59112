//! How exact delays are, on a machine that does nothing else: so this is a program of its own, for
//! the tests of one program run beside each other.
#![expect(clippy::print_stdout, reason = "what was measured")]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

#[expect(dead_code, reason = "the most of it is for other tests")]
#[path = "wan/support.rs"]
mod support;

use loadline_core::time::Duration;
use loadline_lab::{host::Lab, topology::LinkSpec, wan::Tolerance};

use crate::support::{SLACK, both_kinds, joined, probed};

const RTTS: [Duration; 3] =
    [Duration::from_micros(1_200), Duration::from_millis(30), Duration::from_millis(110)];

#[test]
fn round_trips_of_1_2_and_30_and_110_milliseconds_are_as_exact_as_promised() {
    let rtt = |from, to| RTTS[from + to - 1];
    let topology = joined(3, |from, to| LinkSpec::new(from, to, rtt(from, to) / 2));
    // As a study does it: what the machine takes may change while a lab is made, and one that is
    // invalid or whose delays are off is thrown away. Nothing is known of a promise on a machine
    // that spoils them all.
    let mut kept = [false; 2];
    for _ in 0..LABS {
        for (kept, lab) in kept.iter_mut().zip(both_kinds(&topology)) {
            *kept |= [(0, 1), (0, 2), (1, 2)]
                .into_iter()
                .all(|(from, to)| is_as_promised(&lab, [from, to], rtt(from, to)));
        }
        if kept == [true; 2] {
            return;
        }
    }
    panic!("of {LABS} labs over TUN and as many over virtual Ethernet, exact were: {kept:?}");
}

/// Whether round trips are as exact as they may be asked to be; none is early in any lab.
fn is_as_promised(lab: &Lab, [from, to]: [usize; 2], asked: Duration) -> bool {
    let (probed, health) = probed(lab, from, to, asked);
    let error = probed.error(asked).unwrap();
    let faults = health.faults(&Tolerance::default());
    println!("{asked}: {error:?}, {health:?}, invalid: {faults:?}");
    assert_eq!(probed.lost, 0);
    assert!(probed.round_trips.quantile(0.1).unwrap() + SLACK >= asked, "{error:?}");
    // The promise is for a machine that does nothing else; here the router may be late as far as it
    // says so, once each way.
    let [median, p90] = [health.lateness.p50, health.lateness.p90].map(|late| late * 2);
    let is_exact = error.median <= Duration::from_micros(100) + median
        && error.p90 <= Duration::from_micros(300) + p90;
    is_exact && faults.is_empty()
}

/// So often a lab is made.
const LABS: usize = 12;
