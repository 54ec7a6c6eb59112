//! NAT lends each port once, and gives it back when its connection is over.

use std::ops::Range;

use loadline_core::{
    fleet::forwarding::{Method, Times},
    time::Duration,
};
use loadline_l4::{
    Datapath, Server, Verdict,
    ring::{Entry, RING_SIZE, Ring},
};

use crate::{
    frame::{frame, ip, mac},
    world::{SIZES, bare, judge, maglev, serve},
};

const NOW: Times = Times { fin: Duration::ZERO, stale: Duration::from_secs(60) };
const LATER: Times = Times { fin: Duration::from_secs(60), stale: Duration::from_secs(60) };
const SILENT: Times = Times { fin: Duration::ZERO, stale: Duration::ZERO };

/// A balancer with three servers of NAT behind `nat4`, at `one4`, `two4` and `three4`.
fn balancer(ports: u16, returns: &[&str]) -> Option<Datapath> {
    let mut datapath = bare(SIZES, ports, returns)?;
    serve(&mut datapath, "nat4", 0, Method::Nat);
    for (number, name) in [(1, "one4"), (2, "two4"), (3, "three4")] {
        let server =
            Server { address: ip(name), port: 8_080, service: None, mac: mac("S1"), is_up: true };
        datapath.set_server(number, &server).unwrap();
    }
    datapath.publish(0, Ring::new(&maglev(&[1, 2, 3])).entries()).unwrap();
    Some(datapath)
}

fn send(datapath: &Datapath, client: u32, flags: &str) -> (Verdict, Vec<u8>) {
    let text = format!("eth C L ip4 client4 nat4 tcp {client} 80 {flags}");
    let (verdict, tried) = judge(datapath, &frame(&text));
    (verdict, tried.frame)
}

/// The source port of a frame of IPv4.
fn source_port(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[34], frame[35]])
}

/// The server answers what it was sent.
fn answer(datapath: &Datapath, sent: &[u8], flags: &str) -> Verdict {
    let [a, b, c, d] = [sent[30], sent[31], sent[32], sent[33]];
    let [e, f, g, h] = [sent[26], sent[27], sent[28], sent[29]];
    let port = source_port(sent);
    let text = format!("eth S1 L ip4 {a}.{b}.{c}.{d} {e}.{f}.{g}.{h} tcp 8080 {port} {flags}");
    judge(datapath, &frame(&text)).0
}

#[test]
fn four_ports_of_two_addresses_towards_three_servers_are_24_connections() {
    let Some(mut datapath) = balancer(4, &["return4", "own4"]) else { return };
    let mut sent = Vec::new();
    // Clients until each server has had more than its share.
    for client in 1_000..1_200 {
        let (verdict, frame) = send(&datapath, client, "S");
        match verdict {
            Verdict::SendNat => sent.push((client, frame)),
            other => assert_eq!(other, Verdict::DropNatPorts),
        }
    }
    assert_eq!(sent.len(), 24);
    for (client, frame) in &sent {
        assert_eq!(answer(&datapath, frame, "SA"), Verdict::SendNatReturn);
        assert_eq!(send(&datapath, *client, "FA").0, Verdict::SendNat);
        assert_eq!(answer(&datapath, frame, "FA"), Verdict::SendNatReturn);
    }
    assert_eq!(datapath.give_back(|_| LATER).unwrap(), 0, "the FIN timeout has not passed");
    assert_eq!(datapath.give_back(|_| NOW).unwrap(), 24);
    assert_eq!([1, 2, 3].map(|server| datapath.free_ports(server)), [8, 8, 8]);
    let again = (1_000..1_200).filter(|client| send(&datapath, *client, "S").0 == Verdict::SendNat);
    assert_eq!(again.count(), 24);
}

#[test]
fn the_port_that_was_given_back_first_is_lent_first() {
    let Some(mut datapath) = balancer(3, &["return4"]) else { return };
    datapath.publish(0, &[Entry::settled(1); RING_SIZE]).unwrap();
    let port = |datapath: &Datapath, client| source_port(&send(datapath, client, "S").1);
    assert_eq!([1, 2, 3].map(|client| port(&datapath, client)), [5_000, 5_001, 5_002]);
    // A client that breaks off says RST once; that is over sooner than the one after it.
    for client in [2, 3, 1] {
        assert_eq!(send(&datapath, client, "R").0, Verdict::SendNat);
        assert_eq!(datapath.give_back(|_| NOW).unwrap(), 1);
    }
    assert_eq!([4, 5, 6].map(|client| port(&datapath, client)), [5_001, 5_002, 5_000]);
}

#[test]
fn a_connection_of_which_nothing_is_heard_is_forgotten() {
    let Some(mut datapath) = balancer(4, &["return4"]) else { return };
    let (_, frame) = send(&datapath, 1_000, "S");
    assert_eq!(datapath.give_back(|_| LATER).unwrap(), 0);
    assert_eq!(datapath.give_back(|_| SILENT).unwrap(), 1);
    assert_eq!(answer(&datapath, &frame, "A"), Verdict::PassOther);
    assert_eq!(send(&datapath, 1_000, "A").0, Verdict::DropNatUnknown);
}

#[test]
fn what_processors_remember_of_a_connection_ends_with_it() {
    let Some(mut datapath) = balancer(4, &["return4"]) else { return };
    let (_, sent) = send(&datapath, 1_000, "S");
    for _ in 0..20 {
        let (verdict, again) = send(&datapath, 1_000, "A");
        assert_eq!((verdict, &again[..36]), (Verdict::SendNat, &sent[..36]));
        assert_eq!(answer(&datapath, &sent, "A"), Verdict::SendNatReturn);
    }
    assert_eq!(datapath.give_back(|_| SILENT).unwrap(), 1);
    assert_eq!(send(&datapath, 1_000, "A").0, Verdict::DropNatUnknown);
    assert_eq!(answer(&datapath, &sent, "A"), Verdict::PassOther);
}

#[test]
fn ports_of_connections_that_found_the_tables_full_are_found_again() {
    let Some(mut datapath) = balancer(1_000, &["return4"]) else { return };
    let sent = |datapath: &Datapath, clients: Range<u32>| {
        clients.map(|client| send(datapath, client, "S").0).collect::<Vec<_>>()
    };
    let verdicts = sent(&datapath, 1_000..2_400);
    let of = |verdict| verdicts.iter().filter(|other| **other == verdict).count();
    let (lent, full) = (of(Verdict::SendNat), of(Verdict::DropNatFull));
    assert_eq!((lent, lent + full), (SIZES.nat as usize, 1_400));
    let free =
        |datapath: &Datapath| (1..=3).map(|server| datapath.free_ports(server)).sum::<usize>();
    assert_eq!(free(&datapath), 3_000 - 1_400, "taken in vain");
    datapath.give_back(|_| LATER).unwrap();
    assert_eq!(free(&datapath), 3_000 - lent);
    assert_eq!(datapath.give_back(|_| SILENT).unwrap(), lent);
    assert_eq!(free(&datapath), 3_000);
    assert!(sent(&datapath, 3_000..3_100).iter().all(|verdict| *verdict == Verdict::SendNat));
}

#[test]
fn servers_without_connections_leave_together_and_the_others_stay() {
    let Some(mut datapath) = balancer(4, &["return4"]) else { return };
    datapath.publish(0, &[Entry::settled(1); RING_SIZE]).unwrap();
    assert_eq!(send(&datapath, 1_000, "S").0, Verdict::SendNat);
    let mut leave = |numbers: &[u16]| {
        let removed = datapath.remove_servers(numbers).unwrap();
        let opened = removed.into_iter().map(|(number, count)| (number, count.opened)).collect();
        assert_eq!(datapath.give_back(|_| SILENT).unwrap(), usize::from(numbers.len() > 1));
        opened
    };
    let (first, then): (Vec<_>, Vec<_>) = (leave(&[1, 2, 3]), leave(&[1]));
    assert_eq!((first, then), (vec![(2, 0), (3, 0)], vec![(1, 1)]));
}

#[test]
fn a_number_is_of_one_server_and_a_server_has_one_number() {
    let Some(mut datapath) = balancer(4, &["return4"]) else { return };
    let server =
        |name, port| Server { address: ip(name), port, service: None, mac: mac("S1"), is_up: true };
    let error = datapath.set_server(1, &server("two4", 8_081)).unwrap_err();
    assert_eq!(error.to_string(), "server 1 is 10.0.1.1:8080; another needs a number of its own");
    let error = datapath.set_server(4, &server("two4", 8_080)).unwrap_err();
    assert_eq!(error.to_string(), "10.0.1.2:8080 is server 2 already");
    let error = datapath.set_server(33, &server("two4", 8_081)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "server 33 is too large: the tables were made for numbers below 33"
    );
}
