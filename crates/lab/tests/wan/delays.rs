//! How long the way takes.

use loadline_core::time::Duration;
use loadline_lab::{
    topology::LinkSpec,
    wan::{Probed, Tolerance},
};

use crate::support::{SLACK, joined, millis, probed, start, udp, v6};

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
fn what_the_machine_is_said_to_take_is_taken_off_every_delay() {
    let mut lab = start(&joined(2, |from, to| LinkSpec::new(from, to, millis(20))));
    lab.router_mut().compensate(millis(5)).unwrap();
    let (probed, _) = probed(&lab, 0, 1, millis(40));
    for times in [probed.there, probed.back] {
        let least = times.quantile(0.1).unwrap();
        assert!(least + SLACK >= millis(15) && least < millis(19), "{least}");
    }
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
