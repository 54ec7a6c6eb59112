//! Two balancers that tell each other over UDP: what one forwards the other would forward alike.

use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    thread,
    time::{Duration as Time, Instant},
};

use loadline_core::{
    fleet::forwarding::{Method, Times},
    state::{PeerLink, Role, StandbyPeer},
    time::Duration,
    units::Rate,
};
use loadline_l4::{
    Datapath, Server, ServerName, Sizes, TestRunResult,
    ring::{Entry, RING_SIZE, Ring},
    standby::{Settings, Standby},
};
use loadline_measure::formula::replication::{Packing, Updates, traffic};

use crate::{
    frame::{ip, mac},
    standby::{balancer, number, numbers, packet},
    world::{SIZES, bare, maglev, serve},
};

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// One of two balancers with their ends of the wire. Which is active is said by an address that the
/// machine has, or has not.
fn end(test: u8, at: u8, key: &str) -> Standby {
    let mut key_file = tempfile::NamedTempFile::new().unwrap();
    writeln!(key_file, "{key}").unwrap();
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let place = |at: u8| SocketAddr::from(([127, high, low, 2 * test + at + 1], 4_343));
    let address = if at == 0 { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(192, 0, 2, 1) };
    let standby = Standby::new(&Settings {
        bind: place(at),
        peers: vec![place(1 - at)],
        key_file: key_file.path().to_owned(),
        router: 51,
        addresses: vec![IpAddr::from(address)],
    });
    standby.unwrap()
}

/// Both of them, the active first.
struct Pair {
    ends: [Standby; 2],
    datapaths: [Datapath; 2],
    /// The last number that a server was given.
    given: u16,
}

impl Pair {
    fn new(test: u8, active: Datapath, standby: Datapath) -> Self {
        Self { ends: [0, 1].map(|at| end(test, at, KEY)), datapaths: [active, standby], given: 0 }
    }

    fn turn(&mut self) {
        let number = &mut |_| {
            self.given += 1;
            Some(self.given)
        };
        for (end, datapath) in self.ends.iter_mut().zip(&mut self.datapaths) {
            end.turn(datapath, number).unwrap();
        }
    }

    /// What one knows of the other.
    fn peer(&self, at: usize) -> StandbyPeer {
        self.ends[at].state().peers.remove(0)
    }

    /// Until the standby knows all that the active does.
    fn agree(&mut self) {
        until("the standby knows everything", || {
            self.turn();
            let told = self.peer(0);
            (told.link, told.behind) == (PeerLink::Whole, Some(0))
        });
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Time::from_millis(1));
    }
}

/// Connections of these clients, by NAT and by MAC, as the balancer forwards them.
fn send(
    datapath: &Datapath,
    v6: bool,
    clients: std::ops::Range<u16>,
    flags: &str,
) -> Vec<TestRunResult> {
    let methods = ["nat", "mac"].into_iter().flat_map(|it| clients.clone().map(move |at| (it, at)));
    let one = |(method, at)| datapath.try_packet(&packet(method, v6, at, flags)).unwrap();
    methods.map(one).collect()
}

/// A balancer whose ring of `mac` has just changed, so that flows are written down, with 20
/// connections of each method.
fn active(v6: bool) -> Option<Datapath> {
    let mut active = balancer(v6, 0, 1 << 16)?;
    active.publish(0, Ring::new(&maglev(&numbers(0, 0))).entries()).unwrap();
    let mut ring = Ring::new(&maglev(&numbers(1, 0)));
    ring.assign(Datapath::now(), &[number(0, 1, 0); RING_SIZE]);
    active.publish(1, ring.entries()).unwrap();
    send(&active, v6, 1_000..1_020, "S");
    Some(active)
}

#[test]
fn a_standby_that_counts_servers_otherwise_forwards_every_connection_alike() {
    for v6 in [false, true] {
        let (Some(active), Some(mut standby)) = (active(v6), balancer(v6, 1, 0)) else { return };
        // Its own ring says something else.
        standby.publish(0, &[Entry::settled(number(2, 0, 1)); RING_SIZE]).unwrap();
        standby.publish(1, &[Entry::settled(number(2, 1, 1)); RING_SIZE]).unwrap();
        let mut pair = Pair::new(u8::from(v6), active, standby);
        pair.agree();
        send(&pair.datapaths[0], v6, 1_020..1_040, "S");
        // Some end: their ports are free again.
        send(&pair.datapaths[0], v6, 1_000..1_005, "R");
        pair.datapaths[0].give_back(|_| OVER).unwrap();
        pair.agree();
        assert_eq!((pair.ends[0].role(), pair.ends[1].role()), (Role::Active, Role::Standby));
        assert_eq!(pair.ends[1].state().unplaced, 0);
        let [active, standby] = &mut pair.datapaths;
        standby.take_over().unwrap();
        let same = send(active, v6, 1_000..1_040, "A") == send(standby, v6, 1_000..1_040, "A");
        assert!(same, "IPv6: {v6}");
        let free = |datapath: &Datapath, shift| {
            numbers(0, shift).iter().map(|it| datapath.free_ports(*it)).sum::<usize>()
        };
        assert_eq!(free(standby, 1), free(active, 0));
        let counts = pair.peer(0).counts;
        assert_eq!((counts.resynchronizations, counts.datagrams_lost), (1, 0));
        assert_eq!(counts.records_sent, pair.peer(1).counts.records_received);
    }
}

#[test]
fn a_server_that_only_the_active_knows_is_taken_over_with_its_connections() {
    let (Some(active), Some(mut standby)) = (active(false), bare(SIZES, 40, &["return4"])) else {
        return;
    };
    serve(&mut standby, "nat4", 3, Method::Nat);
    serve(&mut standby, "mac4", 2, Method::Mac);
    let mut pair = Pair::new(2, active, standby);
    pair.agree();
    let [active, standby] = &mut pair.datapaths;
    standby.take_over().unwrap();
    let same = send(active, false, 1_000..1_020, "A") == send(standby, false, 1_000..1_020, "A");
    assert!(same);
    assert_eq!(pair.ends[1].state().unplaced, 0);
}

/// A pair of which the standby has no server in its file.
fn pair_without_servers(test: u8) -> Option<Pair> {
    let (active, mut standby) = (active(false)?, bare(SIZES, 40, &["return4"])?);
    serve(&mut standby, "nat4", 3, Method::Nat);
    serve(&mut standby, "mac4", 2, Method::Mac);
    let mut pair = Pair::new(test, active, standby);
    pair.agree();
    Some(pair)
}

#[test]
fn the_number_of_a_server_that_left_the_active_is_free_at_the_standby() {
    let Some(mut pair) = pair_without_servers(9) else { return };
    assert_eq!(pair.ends[1].servers().count(), 6);
    let gone = number(1, 1, 0);
    assert_eq!(pair.datapaths[0].remove_servers(&[gone]).unwrap().len(), 1);
    pair.agree();
    assert_eq!(pair.ends[1].servers().count(), 5);
}

#[test]
fn a_server_that_the_file_has_by_now_is_up_where_its_own_balancer_finds_it_up() {
    let Some(mut pair) = pair_without_servers(10) else { return };
    let name = |name: &str| ServerName { address: ip(name), port: 8_080, service: None };
    let [ours, theirs] = ["one4", "two4"].map(|it| pair.datapaths[1].number_of(name(it)).unwrap());
    pair.ends[1].claim(|number| number == ours);
    for at in ["one4", "two4"] {
        let active = &mut pair.datapaths[0];
        let number = active.number_of(name(at)).unwrap();
        let down = Server { is_up: false, ..active.server(number).unwrap() };
        active.set_server(number, &down).unwrap();
    }
    pair.agree();
    let is_up = [ours, theirs].map(|number| pair.datapaths[1].server(number).unwrap().is_up);
    assert_eq!(is_up, [true, false]);
}

#[test]
fn a_standby_that_begins_anew_or_was_missed_out_is_told_everything_again() {
    let (Some(active), Some(standby)) = (active(false), balancer(false, 1, 0)) else { return };
    let mut pair = Pair::new(3, active, standby);
    pair.agree();
    let Some(fresh) = balancer(false, 2, 0) else { return };
    pair.datapaths[1] = fresh;
    // Its socket is closed before there is another.
    pair.ends[1] = end(4, 1, KEY);
    pair.ends[1] = end(3, 1, KEY);
    until("it has joined again", || {
        pair.turn();
        pair.peer(0).counts.resynchronizations == 2
    });
    pair.agree();
    let [active, standby] = &mut pair.datapaths;
    standby.take_over().unwrap();
    let same = send(active, false, 1_000..1_020, "A") == send(standby, false, 1_000..1_020, "A");
    assert!(same);
}

#[test]
fn events_that_found_no_room_are_made_good_by_reading_the_tables() {
    let (Some(mut active), Some(standby)) = (balancer(false, 0, 1), balancer(false, 1, 0)) else {
        return;
    };
    let mut ring = Ring::new(&maglev(&numbers(1, 0)));
    ring.assign(Datapath::now(), &[number(0, 1, 0); RING_SIZE]);
    active.publish(1, ring.entries()).unwrap();
    let mut pair = Pair::new(5, active, standby);
    pair.agree();
    let flows = 1_000..3_000;
    for client in flows.clone() {
        drop(pair.datapaths[0].try_packet(&packet("mac", false, client, "S")).unwrap());
    }
    pair.agree();
    let [active, standby] = &mut pair.datapaths;
    standby.take_over().unwrap();
    for client in flows {
        let ask = packet("mac", false, client, "A");
        assert_eq!(active.try_packet(&ask).unwrap(), standby.try_packet(&ask).unwrap());
    }
}

#[test]
fn nobody_follows_who_has_not_the_key() {
    let (Some(active), Some(standby)) = (active(false), balancer(false, 1, 0)) else { return };
    let mut pair = Pair::new(6, active, standby);
    pair.ends[1] = end(7, 1, KEY);
    pair.ends[1] = end(6, 1, "0123456789abcdef0123456789abcdeF");
    until("a datagram is refused", || {
        pair.turn();
        pair.ends[1].state().refused > 0
    });
    assert_eq!((pair.peer(0).link, pair.peer(1).link), (PeerLink::Silent, PeerLink::Silent));
    assert_eq!(pair.peer(1).counts.records_received, 0);
}

/// A second of IBM's example: 3,500 NAT connections a second that begin, are closed 100 ms later
/// and forgotten 100 ms after that, told in turns of 10 ms.
#[test]
fn three_and_a_half_thousand_connections_a_second_take_less_than_the_formula() {
    let (Some(active), Some(standby)) = (large(), large()) else { return };
    let mut pair = Pair::new(8, active, standby);
    pair.agree();
    let sent = |pair: &Pair| {
        let counts = pair.peer(0).counts;
        (counts.bytes_sent + counts.bytes_received, counts.records_sent)
    };
    let (before, start) = (sent(&pair), Instant::now());
    let mut latest = Duration::ZERO;
    for turn in 0..TURNS + 3 * LIFE {
        let batch = |turn: u16, flags| {
            for client in (1_000 + turn * BATCH..).take(BATCH.into()) {
                pair.datapaths[0].try_packet(&packet("nat", false, client, flags)).unwrap();
            }
        };
        if turn < TURNS {
            batch(turn, "S");
        }
        if (LIFE..TURNS + LIFE).contains(&turn) {
            batch(turn - LIFE, "R");
        }
        if turn % LIFE == 0 {
            let fin = Duration::from_std(TURN * u32::from(LIFE));
            pair.datapaths[0].give_back(|_| Times { fin, ..OVER }).unwrap();
        }
        pair.turn();
        let (due, now) = (TURN * u32::from(turn + 1), start.elapsed());
        latest = latest.max(Duration::from_std(now.saturating_sub(due)));
        thread::sleep(due.saturating_sub(now));
    }
    pair.agree();
    let after = sent(&pair);
    let (bytes, records) = (after.0 - before.0, after.1 - before.1);
    let connections = u64::from(TURNS * BATCH);
    let formula = Packing::OF_THE_STUDY;
    let formula = traffic(Rate::per_sec(connections), Updates::Once, formula).unwrap();
    let published = formula.updates.get() + formula.headers.get();
    println!("{records} records in {bytes} bytes both ways; the formula says {published}");
    // Unless the machine held it up for so long that a connection was closed before it was told of.
    let is_late = latest >= Duration::from_std(TURN * u32::from(LIFE));
    assert!(is_late || records >= 3 * connections, "each begins, closes and is over: {records}");
    assert!(bytes < published, "{bytes} bytes, {published} by the formula");
}

/// A balancer with ports for all of them.
fn large() -> Option<Datapath> {
    let sizes = Sizes { nat: 16_384, events: 1 << 20, ..SIZES };
    let mut datapath = bare(sizes, 20_000, &["return4"])?;
    serve(&mut datapath, "nat4", 0, Method::Nat);
    let (address, mac) = (ip("one4"), mac("S1"));
    datapath
        .set_server(1, &Server { address, port: 8_080, service: None, mac, is_up: true })
        .unwrap();
    datapath.publish(0, &[Entry::settled(1); RING_SIZE]).unwrap();
    Some(datapath)
}

/// Everything that is closed is over at once.
const OVER: Times = Times { fin: Duration::ZERO, stale: Duration::from_secs(60) };

/// Longer than it takes on a busy machine.
const PATIENCE: Time = Time::from_secs(30);

const TURNS: u16 = 100;
const BATCH: u16 = 35;
/// Turns from the beginning of a connection to its end, and from there until it is forgotten.
const LIFE: u16 = 10;
const TURN: Time = Time::from_millis(10);
