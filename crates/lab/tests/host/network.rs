//! Hosts reach each other by address and by name, over TUN and over virtual Ethernet, and the way
//! takes as long as the topology says.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    thread,
};

use loadline_core::time::Duration;
use loadline_lab::host::{Host, Lab, Machine, Program, Tcp};

use crate::support::{PATIENT, named, options, round_trip, row, start, udp, v4, v6, veth};

#[test]
fn two_four_and_eight_hosts_are_there_within_a_second() {
    for count in [2, 4, 8] {
        let start_in = || {
            let begin = std::time::Instant::now();
            let lab = start(&row(count, Duration::from_millis(1)), &options());
            assert_eq!(lab.hosts().len(), usize::from(count));
            begin.elapsed()
        };
        // The least: whatever else the machine does only adds.
        let took = [(); 3].map(|()| start_in()).into_iter().min().unwrap();
        println!("{count} hosts in {took:.1?}");
        assert!(took.as_secs() < 1, "{count} hosts took {took:?}");
    }
}

#[test]
fn the_way_between_two_hosts_takes_the_delay_of_its_link() {
    for options in [options(), veth()] {
        let lab = start(&row(2, Duration::from_millis(15)), &options);
        let (here, there) = (&lab.hosts()[0], &lab.hosts()[1]);
        for [from, to] in [[v4(1), v4(2)], [v6(1), v6(2)]] {
            let (from, there) = (udp(here, from), udp(there, to));
            let to = there.local_addr().unwrap();
            // The first may wait for the kernel to learn the way.
            let rounds = (0..5).map(|_| round_trip(&from, &there, to));
            let least = rounds.min().unwrap();
            assert!(least >= Duration::from_micros(29_500), "{least} over {:?}", options.port);
            assert!(least < Duration::from_millis(60), "{least} over {:?}", options.port);
        }
    }
}

#[test]
fn a_large_answer_comes_whole_over_tcp() {
    for options in [options(), veth()] {
        let lab = start(&row(2, Duration::from_millis(2)), &options);
        for address in [v4(2), v6(2)] {
            assert_eq!(transfer(&lab, SocketAddr::new(address, 0)), LARGE.len());
        }
    }
}

#[test]
fn a_host_is_found_by_its_name_and_by_names_beside_it() {
    let mut options = options();
    options.names.insert("shop.test".to_owned(), vec![v4(2)]);
    let lab = start(&row(2, Duration::from_millis(1)), &options);
    let here = lab.host("h0").unwrap();
    for (name, address) in [("h1", "10.0.0.2"), ("shop.test", "10.0.0.2"), ("localhost", "")] {
        let looked_up = here.run(Program::new("getent").args(["ahosts", name]), PATIENT).unwrap();
        assert!(looked_up.exit.success(), "{name}: {looked_up:?}");
        assert!(looked_up.stdout.contains(address), "{name}: {looked_up:?}");
    }
    let nobody = here.run(Program::new("getent").args(["hosts", "h7"]), PATIENT).unwrap();
    assert!(!nobody.exit.success(), "{nobody:?}");
}

#[test]
fn what_a_host_forwards_arrives_unchanged_by_way_of_it() {
    let service = v4(9);
    let hosts: [(&str, &[_]); 3] =
        [("user", &[v4(1)]), ("pop", &[v4(2), service]), ("us", &[v4(3), service])];
    let topology = named(&hosts, &[(0, 1, 5), (1, 2, 20), (0, 2, 30)]);
    let mut options = options();
    let pop = Machine { forwards: vec![service], ..Machine::default() };
    options.machines.insert("pop".to_owned(), pop);
    let lab = start(&topology, &options);
    let (user, server) = (udp(lab.host("user").unwrap(), v4(1)), udp(&lab.hosts()[2], service));
    let to = server.local_addr().unwrap();
    let rounds = (0..5).map(|_| round_trip(&user, &server, to));
    let least = rounds.min().unwrap();
    // There by way of the pop, 5 + 20 ms, and 30 ms straight back; calibration takes at most
    // 0.25 ms off each of the three.
    assert!(least >= Duration::from_micros(54_250), "{least}");
    assert!(least < Duration::from_millis(90), "{least}");
}

#[test]
fn a_shared_address_is_answered_by_the_nearest_host() {
    let shared = v4(9);
    let hosts: [(&str, &[_]); 3] =
        [("user", &[v4(1)]), ("far", &[v4(2), shared]), ("near", &[v4(3), shared])];
    let lab = start(&named(&hosts, &[(0, 1, 20), (0, 2, 3)]), &options());
    let user = udp(&lab.hosts()[0], v4(1));
    let near = lab.host("near").unwrap().udp(SocketAddr::new(shared, 4_000)).unwrap();
    near.set_read_timeout(Some(PATIENT.to_std())).unwrap();
    let _far = lab.host("far").unwrap().udp(SocketAddr::new(shared, 4_000)).unwrap();
    let least = round_trip(&user, &near, SocketAddr::new(shared, 4_000));
    assert!(least >= Duration::from_micros(5_500), "{least}");
}

#[test]
fn how_tcp_behaves_is_set_for_each_way() {
    let mut options = options();
    let reno = Tcp { congestion: Some("reno".to_owned()), ..Tcp::default() };
    let one = Tcp { initial_window: Some(32), ..Tcp::default() };
    let mut machine = Machine { tcp: reno, mtu: 1_400, ..Machine::default() };
    machine.tcp_to.insert(v4(2), one);
    machine.settings.insert("net.ipv4.tcp_slow_start_after_idle".to_owned(), "0".to_owned());
    options.machines.insert("h0".to_owned(), machine);
    let lab = start(&row(2, Duration::from_millis(1)), &options);
    let host = &lab.hosts()[0];
    let routes = said(host, &["ip", "route"]);
    let everywhere = routes.lines().find(|line| line.starts_with("default")).unwrap();
    assert!(everywhere.contains("congctl reno"), "{routes}");
    assert!(routes.contains("10.0.0.2 dev wan0") && routes.contains("initcwnd 32"), "{routes}");
    assert!(said(host, &["ip", "link", "show", "wan0"]).contains("mtu 1400"));
    let setting = ["cat", "/proc/sys/net/ipv4/tcp_slow_start_after_idle"];
    assert_eq!(said(host, &setting), "0\n");
    assert_eq!(said(&lab.hosts()[1], &setting), "1\n");
}

#[test]
fn options_say_which_port_a_host_has() {
    let lab = start(&row(2, Duration::from_millis(1)), &veth());
    let kind = said(&lab.hosts()[0], &["ip", "-d", "link", "show", "wan0"]);
    assert!(kind.contains("veth"), "{kind}");
    let lab = start(&row(2, Duration::from_millis(1)), &options());
    let has_tun = said(&lab.hosts()[0], &["ip", "-d", "link", "show", "wan0"]).contains("tun");
    let says_so = lab.notes().iter().any(|note| note.contains("instead of TUN"));
    assert_ne!(has_tun, says_so, "{:?}", lab.notes());
}

fn said(host: &Host, words: &[&str]) -> String {
    let ran = host.run(Program::new(words[0]).args(&words[1..]), PATIENT).unwrap();
    assert!(ran.exit.success(), "{words:?}: {ran:?}");
    ran.stdout
}

/// What the second host sends the first, over a connection of the first's.
fn transfer(lab: &Lab, address: SocketAddr) -> usize {
    let server = lab.hosts()[1].socket(address.ip(), false).unwrap();
    server.bind(&address.into()).unwrap();
    server.listen(1).unwrap();
    let server: std::net::TcpListener = server.into();
    let to = server.local_addr().unwrap();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| server.accept().unwrap().0.write_all(LARGE).unwrap());
        let mut client = lab.hosts()[0].connect(to, PATIENT).unwrap();
        client.set_read_timeout(Some(PATIENT.to_std())).unwrap();
        client.read_to_end(&mut received).unwrap();
    });
    assert!(received == LARGE, "{} bytes came", received.len());
    received.len()
}

static LARGE: &[u8] = &[7; 3_000_000];
