//! Where packets go, and what is said where they cannot.

use std::net::{IpAddr, SocketAddr};

use loadline_lab::{
    host::Program,
    topology::LinkSpec,
    wan::{ProbePlan, probe},
};

use crate::support::{PATIENT, both_kinds, joined, millis, start, udp, v4, v6};

#[test]
fn a_connection_to_nobody_fails_at_once_and_is_counted() {
    for lab in both_kinds(&joined(2, |from, to| LinkSpec::new(from, to, millis(1)))) {
        for nobody in [IpAddr::from([10, 9, 9, 9]), "fd00::99".parse().unwrap()] {
            let begin = std::time::Instant::now();
            let refused = lab.hosts()[0].connect(SocketAddr::new(nobody, 80), PATIENT).unwrap_err();
            assert!(begin.elapsed() < PATIENT.to_std() / 2, "it was not told: {refused}");
            assert!(refused.to_string().contains("unreachable"), "{refused}");
        }
        let counters = lab.router().counters().unwrap();
        assert!(counters.unroutable >= 2, "{counters:?}");
        assert_eq!(counters.malformed, 0);
    }
}

#[test]
fn hosts_without_a_link_do_not_reach_each_other_until_there_is_one() {
    let mut topology = joined(3, |from, to| LinkSpec::new(from, to, millis(1)));
    topology.links.retain(|link| link.from + link.to != 3);
    let mut lab = start(&topology);
    let sockets = [udp(&lab, 1, v6(1)), udp(&lab, 2, v6(2))];
    let plan = ProbePlan { count: 10, patience: millis(100), ..ProbePlan::new(millis(2)) };
    assert_eq!(probe(&sockets[0], &sockets[1], plan).unwrap().lost, 20);
    for link in LinkSpec::new(1, 2, millis(1)).both() {
        lab.router_mut().change(link).unwrap();
    }
    let patient = ProbePlan { patience: PATIENT, ..plan };
    assert_eq!(probe(&sockets[0], &sockets[1], patient).unwrap().lost, 0);
}

#[test]
fn a_host_whose_interface_is_down_disturbs_nobody_else() {
    for lab in both_kinds(&joined(3, |from, to| LinkSpec::new(from, to, millis(1)))) {
        let down = Program::new("ip").args(["link", "set", "wan0", "down"]);
        assert!(lab.hosts()[2].run(down, PATIENT).unwrap().exit.success());
        let away = udp(&lab, 0, v4(0));
        for _ in 0..10 {
            away.send_to(b"anybody?", SocketAddr::new(v4(2), 9)).unwrap();
        }
        let sockets = [udp(&lab, 0, v4(0)), udp(&lab, 1, v4(1))];
        let plan = ProbePlan { patience: PATIENT, ..ProbePlan::new(millis(2)) };
        assert_eq!(probe(&sockets[0], &sockets[1], plan).unwrap().lost, 0);
        let counters = lab.router().counters().unwrap();
        // Half a second of probes; a thread that turns round and round would use all of it.
        assert!(counters.processor_time < millis(300), "{}", counters.processor_time);
    }
}
