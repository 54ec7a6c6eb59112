//! Hosts on an Ethernet find each other there by link addresses.
//!
//! It takes the rights of root; without them a lab with one says so, and that is what is tested.

use std::{env, net::SocketAddr, process::Command};

use loadline_core::time::Duration;
use loadline_lab::{
    host::{Host, Lab, LabError, Program},
    topology::Topology,
};

use crate::{
    skipped::{LIST, skipped},
    support::{PATIENT, is_root, options, round_trip, row, start, udp},
};

/// Three hosts of which the first and the last share an Ethernet.
fn two_of_three() -> Topology {
    let mut topology = row(3, Duration::from_millis(5));
    topology.hosts[0].ethernet = Some("10.1.0.1/24".parse().unwrap());
    topology.hosts[2].ethernet = Some("10.1.0.3/24".parse().unwrap());
    topology
}

/// The lab; none where this user may not have it, which has been told then.
fn lab() -> Option<Lab> {
    if is_root() {
        return Some(start(&two_of_three(), &options()));
    }
    match Lab::start(&two_of_three(), &options()) {
        Err(LabError::Rights { missing }) => skipped(&format!("{missing}, for an Ethernet")),
        other => panic!("{other:?}"),
    }
    None
}

fn said(host: &Host, words: &[&str]) -> String {
    let ran = host.run(Program::new(words[0]).args(&words[1..]), PATIENT).unwrap();
    assert!(ran.exit.success(), "{words:?}: {ran:?}");
    ran.stdout
}

#[test]
fn hosts_on_an_ethernet_find_each_other_by_link_addresses() {
    let Some(lab) = lab() else { return };
    let (one, other) = (&lab.hosts()[0], &lab.hosts()[2]);
    let address = |host: &Host| host.ethernet().unwrap().address;
    let (here, there) = (udp(one, address(one)), udp(other, address(other)));
    let to = SocketAddr::new(address(other), there.local_addr().unwrap().port());
    let least = (0..5).map(|_| round_trip(&here, &there, to)).min().unwrap();
    assert!(least < Duration::from_millis(5), "{least}: no router is between");
    let neighbours = said(one, &["ip", "neighbour", "show", "10.1.0.3"]);
    assert!(neighbours.contains("dev eth0 lladdr"), "{neighbours}");
    let carried = one.usage().unwrap().ethernet;
    assert!(carried.packets_sent.get() >= 5 && carried.received.get() > 0, "{carried:?}");
    assert!(said(one, &["ip", "route", "get", "10.0.0.3"]).contains("dev wan0"));
    let without = said(&lab.hosts()[1], &["ip", "-o", "link"]);
    assert!(!without.contains("eth0"), "{without}");
}

#[test]
fn a_user_without_rights_is_told_which_are_missing() {
    let test = "ethernet::hosts_on_an_ethernet_find_each_other_by_link_addresses";
    if !is_root() {
        return skipped("root, to become a user without rights");
    }
    let ran = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env_remove(LIST)
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("CAP_SYS_ADMIN and CAP_NET_ADMIN, for an Ethernet"), "{said}");
    assert!(!ran.status.success(), "a test that could not be run has passed: {said}");
}
