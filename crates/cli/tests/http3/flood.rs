//! First packets from addresses that never answer.

use std::{
    fs,
    net::{Ipv4Addr, UdpSocket},
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use loadline_core::time;
use loadline_measure::record::LoadRecord;

use crate::{clients::python, edge::Edge, load::bench, skipped::skipped};

#[test]
fn a_flood_of_first_packets_leaves_clients_that_are_there_alone() {
    let (mut edge, other) = (Edge::start(), Edge::start());
    let Some(initials) = initials(edge.port) else { return skipped("aioquic") };
    let quiet = measure(&edge.url(), || ());
    let (ended, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (loaded, beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| measure(&other.url(), || ()));
        let loaded = measure(&edge.url(), || {
            scope.spawn(|| flood(edge.port, &initials, &ended, &sent));
        });
        ended.store(true, Relaxed);
        (loaded, beside.join().unwrap())
    });
    let sent = sent.load(Relaxed);
    for (((what, quiet), (_, loaded)), (_, beside)) in quiet.iter().zip(&loaded).zip(&beside) {
        let [before, during, other] = [quiet, loaded, beside].map(|record| record.response.p99);
        println!("{what}: p99 {before:?}, {during:?} beside {sent} first packets, {other:?} alone");
        for record in [quiet, loaded] {
            assert_eq!(record.outcomes.ok, record.planned, "{what}: {:?}", record.outcomes);
        }
        // A machine that is busy otherwise makes those late as well whom nobody floods.
        assert!(during < before.max(other) * 4 + ALLOWED, "{what}");
    }
    assert!(sent > 100_000, "{sent} first packets were sent");
    edge.assert_sound();
}

/// Clients over TCP and over QUIC, who are there when `act` is called.
fn measure(url: &str, act: impl FnOnce()) -> Vec<(&'static str, LoadRecord)> {
    // A second one would be opened where the first is late, in the flood, as by a new client.
    let load = ["--rate", "200", "--connections", "1", "--duration", "6s"];
    let url = format!("{url}/1000");
    thread::scope(|scope| {
        let measure = |version| {
            let arguments = [&[version, &*url][..], &load].concat();
            scope.spawn(move || (version, bench(&arguments)))
        };
        let measures = ["--http1.1", "--http3"].map(measure);
        thread::sleep(Duration::from_secs(1));
        act();
        measures.map(|it| it.join().unwrap()).into()
    })
}

/// First packets of clients, each of 1,200 bytes.
fn initials(port: u16) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("initials");
    let mut program = Command::new(python("aioquic")?);
    let program = program.arg(crate::edge::script("aioquic_client.py"));
    let program = program.args(["initials", &port.to_string(), "2000"]).arg(&file);
    crate::edge::said(program);
    Some(fs::read(file).unwrap())
}

/// Sends them from many addresses, 50,000 a second.
fn flood(port: u16, initials: &[u8], ended: &AtomicBool, sent: &AtomicU64) {
    let address = |n: u16| Ipv4Addr::new(127, 1, (n >> 8) as u8, n as u8);
    let sockets = (0..ADDRESSES).map(|n| {
        let socket = UdpSocket::bind((address(n), 0)).unwrap();
        socket.connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        socket
    });
    let sockets: Vec<UdpSocket> = sockets.collect();
    let mut packets = sockets.iter().cycle().zip(initials.chunks(1_200).cycle());
    let begun = Instant::now();
    while !ended.load(Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * PER_SECOND) as u64;
        for _ in sent.load(Relaxed)..due {
            let Some((socket, packet)) = packets.next() else { return };
            // Fails where the buffer of the receiver is full, or nobody listens any more.
            let _ = socket.send(packet);
        }
        sent.store(due, Relaxed);
        thread::sleep(Duration::from_millis(1));
    }
}

const ADDRESSES: u16 = 10_000;
const PER_SECOND: f64 = 50_000.0;

/// Tests beside this one, and the flood itself, have two cores.
const ALLOWED: time::Duration = time::Duration::from_millis(200);
