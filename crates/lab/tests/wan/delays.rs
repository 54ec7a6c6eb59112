//! How long the way takes.

use loadline_core::time::Duration;
use loadline_lab::{
    host::Lab,
    topology::LinkSpec,
    wan::{Health, ProbePlan, Probed, Tolerance, Watch, probe},
};

use crate::support::{SLACK, both_kinds, joined, millis, start, udp, v4, v6};

/// A probe between two hosts, and how the router did meanwhile.
fn probed(lab: &Lab, first: usize, second: usize, round_trip: Duration) -> (Probed, Health) {
    let sockets = [udp(lab, first, v4(first)), udp(lab, second, v4(second))];
    let watch = Watch::begin(lab.router()).unwrap();
    let probed = probe(&sockets[0], &sockets[1], ProbePlan::new(round_trip)).unwrap();
    let (health, _) = watch.end(lab.router()).unwrap();
    (probed, health)
}

#[test]
fn round_trips_of_1_2_and_30_and_110_milliseconds_are_as_exact_as_promised() {
    let delay = |from, to| Duration::from_micros([600, 15_000, 55_000][from + to - 1]);
    let topology = joined(3, |from, to| LinkSpec::new(from, to, delay(from, to)));
    for lab in both_kinds(&topology) {
        for (first, second) in [(0, 1), (0, 2), (1, 2)] {
            let asked = delay(first, second) * 2;
            let (probed, health) = probed(&lab, first, second, asked);
            let error = probed.error(asked).unwrap();
            let faults = health.faults(&Tolerance::default());
            println!("{asked}: {error:?}, {health:?}, invalid: {faults:?}");
            assert_eq!(probed.lost, 0);
            assert!(probed.round_trips.quantile(0.1).unwrap() + SLACK >= asked, "{error:?}");
            if faults.is_empty() {
                // The promise is for a machine that does nothing else; here the router may be late
                // as far as it says so, once each way.
                let late = [health.lateness.p50, health.lateness.p90].map(|late| late * 2);
                assert!(
                    error.median <= Duration::from_micros(100) + late[0],
                    "{error:?} {health:?}"
                );
                assert!(error.p90 <= Duration::from_micros(300) + late[1], "{error:?} {health:?}");
            }
        }
    }
}

#[test]
fn calibration_finds_what_the_machine_takes_and_leaves_the_links_as_they_were() {
    let topology = joined(2, |from, to| LinkSpec::new(from, to, millis(20)));
    let mut lab = start(&topology);
    let sockets = [udp(&lab, 0, v6(0)), udp(&lab, 1, v6(1))];
    let taken = lab.router_mut().calibrate((0, &sockets[0]), (1, &sockets[1])).unwrap();
    assert!(taken > Duration::ZERO && taken < millis(20), "{taken}");
    assert_eq!(lab.router().compensation(), taken);
    let mut links = lab.router().topology().links.clone();
    links.sort_by_key(|link| link.to);
    assert!(topology.links.iter().all(|link| links.contains(link)) && links.len() == 2);
    let (probed, _) = probed(&lab, 0, 1, millis(40));
    assert!(probed.there.quantile(0.1).unwrap() + SLACK >= millis(20));
}

#[test]
fn jitter_stays_in_its_band_and_fills_it() {
    let spec = |from, to| LinkSpec { jitter: millis(5), ..LinkSpec::new(from, to, millis(20)) };
    let lab = start(&joined(2, spec));
    let (probed, health) = probed(&lab, 0, 1, millis(45));
    let times = |share| probed.there.quantile(share).unwrap();
    assert!(times(0.0) + SLACK >= millis(20), "{}", times(0.0));
    assert!(times(0.9).saturating_sub(times(0.1)) > millis(2), "{} {}", times(0.1), times(0.9));
    if health.faults(&Tolerance::default()).is_empty() {
        assert!(times(0.9) <= millis(25) + SLACK, "{}", times(0.9));
    }
}

#[test]
fn a_link_changed_while_it_runs_takes_its_new_time() {
    let mut lab = start(&joined(2, |from, to| LinkSpec::new(from, to, millis(40))));
    let (before, _) = probed(&lab, 0, 1, millis(80));
    lab.router_mut().change(LinkSpec::new(0, 1, millis(5))).unwrap();
    let (after, _) = probed(&lab, 0, 1, millis(45));
    let least =
        |probed: &Probed| [&probed.there, &probed.back].map(|times| times.quantile(0.1).unwrap());
    let ([there, back], [faster, same]) = (least(&before), least(&after));
    for slow in [there, back, same] {
        assert!(slow + SLACK >= millis(40), "{slow}");
    }
    assert!(faster + SLACK >= millis(5) && faster < millis(35), "{faster}");
    let refused = lab.router_mut().change(LinkSpec::new(0, 7, millis(5))).unwrap_err();
    assert!(refused.to_string().contains("host number 7 of 2"), "{refused}");
}
