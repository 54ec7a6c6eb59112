//! Frames of the vectors, changed at random: whatever arrives, the program ends it by a verdict of
//! the table, sends it to the server that the ring names, and leaves no checksum wrong that was
//! right.
//!
//! `LOADLINE_FUZZ=10000000` is how many frames, `LOADLINE_SEED=7` where they begin.

use std::{env, net::IpAddr};

use loadline_core::{
    fleet::forwarding::{Method, Times},
    time::Duration,
};
use loadline_l4::{Action, Datapath, Hook, Server, TestRunResult, Verdict, ring::Ring};

use crate::{
    frame::{ip, mac},
    reference::Packet,
    vectors::frames,
    world::{SIZES, bare, is_possible, maglev, named, serve},
};

/// What `make test` has time for.
const FRAMES: u64 = 200_000;

/// After so many the counters are compared, and the ports of NAT given back.
const ROUND: u64 = 5_000;

const AT_ONCE: Times = Times { fin: Duration::ZERO, stale: Duration::ZERO };

#[test]
fn no_frame_goes_astray() {
    try_all(Hook::Xdp);
}

#[test]
fn no_frame_goes_astray_in_traffic_control() {
    try_all(Hook::TrafficControl);
}

fn try_all(hook: Hook) {
    let number = |name: &str| env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let count = number("LOADLINE_FUZZ").unwrap_or(FRAMES);
    let seed = number("LOADLINE_SEED").unwrap_or(1);
    let Some(mut balancer) = Balancer::new() else { return };
    balancer.datapath.try_at(hook).unwrap();
    let (bases, mut draw) = (frames(), Draw(seed));
    let mut ends = [0; 4];
    for round in 0..count.div_ceil(ROUND) {
        let mut expected = balancer.counted();
        for _ in 0..ROUND {
            let given = mutated(&bases, &mut draw);
            if !is_possible(hook, &given) {
                continue;
            }
            let tried = balancer.datapath.try_packet(&given).unwrap();
            let wrong = balancer.wrong(&given, &tried);
            assert_eq!(
                wrong, None,
                "seed {seed}, round {round}\n{given:02x?}\n{:02x?}",
                tried.frame
            );
            expected[tried.action as usize] += 1;
            ends[tried.action as usize] += 1;
        }
        assert_eq!(
            balancer.counted(),
            expected,
            "seed {seed}, round {round}: verdicts and actions"
        );
        balancer.datapath.give_back(|_| AT_ONCE).unwrap();
    }
    let [_, dropped, passed, sent] = ends;
    assert!(dropped.min(passed).min(sent) * 20 > count, "one-sided: {ends:?}");
}

/// A balancer with a service of each method in each family, and three servers for each.
struct Balancer {
    datapath: Datapath,
    services: Vec<Service>,
}

struct Service {
    address: IpAddr,
    method: Method,
    ring: Ring,
}

impl Balancer {
    fn new() -> Option<Self> {
        let mut datapath = bare(SIZES, 1_024, &["return4", "return6"])?;
        let mut services = Vec::new();
        for method in [Method::Nat, Method::Mac, Method::Ipip] {
            for v6 in [false, true] {
                let number = services.len() as u16;
                let name = named(&method.to_string(), v6);
                serve(&mut datapath, &name, number.into(), method);
                let servers = [1, 2, 3].map(|n| number * 3 + n);
                for server in servers {
                    datapath.set_server(server, &server_of(server, v6)).unwrap();
                }
                let ring = Ring::new(&maglev(&servers));
                datapath.publish(number.into(), ring.entries()).unwrap();
                services.push(Service { address: ip(&name), method, ring });
            }
        }
        Some(Self { datapath, services })
    }

    /// How many packets ended by each action, by the verdicts that were counted.
    fn counted(&self) -> [u64; 4] {
        let mut counted = [0; 4];
        for (verdict, count) in self.datapath.verdicts().unwrap() {
            let action = match verdict {
                Verdict::PassOther | Verdict::PassDecapsulated => Action::Pass,
                verdict if verdict <= Verdict::SendIcmp => Action::Send,
                _ => Action::Drop,
            };
            counted[action as usize] += count.packets;
        }
        counted
    }

    /// What is wrong with how a frame ended, if anything.
    fn wrong(&self, given: &[u8], tried: &TestRunResult) -> Option<&'static str> {
        match tried.action {
            Action::Drop => None,
            Action::Pass => (tried.frame != given).then_some("what is passed has been changed"),
            Action::Send => self.wrongly_sent(given, &tried.frame),
            Action::Unknown => Some("no such action"),
        }
    }

    fn wrongly_sent(&self, given: &[u8], sent: &[u8]) -> Option<&'static str> {
        let Some(packet) = Packet::in_frame(given) else { return Some("not IP, and sent") };
        if sent[6..12] != given[..6] {
            return Some("not from our link address");
        }
        let about = packet.quoted(given);
        // An error is about what its receiver sent: the flow turned round.
        let (to, source, ports) = match &about {
            None => (packet.destination(given), packet.source(given), packet.ports(given)),
            Some(about) => {
                let [from, to] = about.ports(given);
                (about.source(given), about.destination(given), [to, from])
            }
        };
        let flow = about.unwrap_or(packet);
        let to_us = |service: &&Service| octets(service.address) == to;
        let Some(service) = self.services.iter().find(to_us) else {
            return self.wrongly_returned(packet, given, sent);
        };
        let server = service.ring.entries()[flow.position(source, ports)].current();
        if sent[..6] != server_of(server, packet.v6).mac {
            return Some("to another server than the ring's");
        }
        match service.method {
            Method::Mac => (sent[12..] != given[12..]).then_some("mac changed the packet"),
            Method::Nat => wrongly_rewritten(packet, given, sent, server),
            Method::Ipip => wrongly_wrapped(packet, given, sent, server),
        }
    }

    /// What was sent though it was not for a service: a response, or an error about what we sent.
    fn wrongly_returned(&self, packet: Packet, given: &[u8], sent: &[u8]) -> Option<&'static str> {
        let returns = octets(ip(&named("return", packet.v6)));
        if packet.destination(given) != returns {
            return Some("neither to a service nor to a return address");
        }
        if sent[..6] != mac("C") {
            return Some("an answer that is not sent to the client");
        }
        let answer = Packet::in_frame(sent)?;
        if answer.source(sent) != octets(ip(&named("nat", packet.v6))) {
            return Some("an answer that is not from the service");
        }
        (packet.verifies(given) && !answer.verifies(sent)).then_some("a checksum of an answer")
    }
}

fn wrongly_rewritten(
    packet: Packet,
    given: &[u8],
    sent: &[u8],
    server: u16,
) -> Option<&'static str> {
    let Some(after) = Packet::in_frame(sent) else { return Some("nat broke the packet") };
    if after.destination(sent) != octets(server_of(server, packet.v6).address) {
        return Some("nat sent it to another address than the server's");
    }
    if after.source(sent) != octets(ip(&named("return", packet.v6))) {
        return Some("nat sent it from another address than the return address");
    }
    if packet.verifies(given) && !after.verifies(sent) {
        return Some("a checksum does not verify after nat");
    }
    let header = packet.quoted(given).map_or(packet.transport + 20, |quoted| quoted.transport + 8);
    let behind = header.min(given.len());
    (given[behind..] != sent[behind..]).then_some("nat changed data")
}

fn wrongly_wrapped(packet: Packet, given: &[u8], sent: &[u8], server: u16) -> Option<&'static str> {
    let grown = packet.transport - packet.ip;
    let inside = sent.get(packet.ip + grown..);
    if inside != Some(&given[packet.ip..]) || sent[12..packet.ip] != given[12..packet.ip] {
        return Some("ipip changed the packet");
    }
    let Some(outer) = Packet::in_frame(sent) else { return Some("ipip broke the packet") };
    if outer.destination(sent) != octets(server_of(server, packet.v6).address)
        || outer.source(sent) != octets(ip(&named("own", packet.v6)))
    {
        return Some("the tunnel is from or to somebody else");
    }
    if !outer.verifies(sent) || outer.protocol != if packet.v6 { 41 } else { 4 } {
        return Some("the outer header is wrong");
    }
    (outer.end - outer.transport != packet.end - packet.ip).then_some("the outer length is wrong")
}

/// The server of this number: its link address and its address end in it.
fn server_of(number: u16, v6: bool) -> Server {
    let address = match v6 {
        true => IpAddr::from([0xfd00, 0, 0, 1, 0, 0, 0, number]),
        false => IpAddr::from([10, 0, 1, number as u8]),
    };
    Server { address, port: 0, service: None, mac: [2, 0, 0, 0, 2, number as u8], is_up: true }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// A frame of the vectors with a few changes; every second one with checksums that are right.
fn mutated(bases: &[Vec<u8>], draw: &mut Draw) -> Vec<u8> {
    let mut frame = bases[draw.below(bases.len())].clone();
    for _ in 0..draw.below(4) {
        mutate(&mut frame, draw);
    }
    if draw.below(2) == 0
        && let Some(packet) = Packet::in_frame(&frame)
    {
        packet.repair(&mut frame);
    }
    frame
}

fn mutate(frame: &mut Vec<u8>, draw: &mut Draw) {
    // Most of what matters is in the headers.
    let reach = if draw.below(4) == 0 { frame.len() } else { frame.len().min(90) };
    let at = draw.below(reach);
    match draw.below(8) {
        0 => frame[at] ^= 1 << draw.below(8),
        1 => frame[at] = draw.below(256) as u8,
        2 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][draw.below(5)],
        3 => frame.swap(at, at / 2),
        4 => frame.truncate(at.max(SHORTEST)),
        5 => frame.extend((0..draw.below(40)).map(|byte| byte as u8)),
        // Another client, by port or address: other places of the ring.
        6 if frame.len() > 40 => (0..2).for_each(|n| frame[34 + n] = draw.below(256) as u8),
        _ if frame.len() > 40 => frame[28 + draw.below(2)] = draw.below(256) as u8,
        _ => {}
    }
}

/// The kernel tries no frame that is shorter than a link header.
const SHORTEST: usize = 14;

/// Numbers that look random and are the same for a seed (xorshift64*, Vigna 2016).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit as u64) as usize
    }
}
