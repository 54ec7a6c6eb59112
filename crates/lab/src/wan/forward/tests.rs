//! The network as a whole, packet by packet, without a clock.

use std::net::{IpAddr, Ipv4Addr};

use loadline_core::units::{BitRate, Ratio};
use proptest::prelude::*;

use super::{super::segment::tests::uncut, *};
use crate::topology::{Limit, mesh};

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// An IPv4 packet of `length` bytes, all headers included.
fn packet(from: [u8; 4], to: [u8; 4], length: u16) -> Vec<u8> {
    let mut frame = vec![0; HEADER + usize::from(length)];
    let ip = &mut frame[HEADER..];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[9] = 17;
    ip[12..16].copy_from_slice(&from);
    ip[16..20].copy_from_slice(&to);
    frame
}

const DE: [u8; 4] = [10, 1, 0, 1];
const POP: [u8; 4] = [10, 2, 0, 1];
const US: [u8; 4] = [10, 3, 0, 1];
const ANYCAST: [u8; 4] = [10, 9, 9, 9];

/// Germany, an edge 0.6 ms away, the United States 55 ms away from both; the address of the edge
/// is at both of the latter.
fn three_hosts() -> Topology {
    let host = |name: &str, addresses: &[[u8; 4]]| {
        let addresses: Vec<IpAddr> = addresses.iter().map(|a| Ipv4Addr::from(*a).into()).collect();
        HostSpec::new(name, &addresses)
    };
    let hosts = vec![host("de", &[DE]), host("pop", &[POP, ANYCAST]), host("us", &[US, ANYCAST])];
    let delay = |a: &usize, b: &usize| if *a.max(b) == 2 { micros(55_000) } else { micros(600) };
    Topology { hosts, links: mesh(&[0, 1, 2], delay), seed: 1 }
}

fn all_due(forwarder: &mut Forwarder) -> Vec<(Instant, usize)> {
    let mut all = Vec::new();
    while let Some(due) = forwarder.next_due() {
        all.extend(forwarder.take(due).map(|delivery| (delivery.due, delivery.to)));
    }
    all
}

#[test]
fn a_packet_arrives_at_the_host_with_its_address_after_the_delay_unchanged() {
    let mut forwarder = Forwarder::new(&three_hosts());
    let sent = packet(DE, US, 100);
    forwarder.offer(at(5), 0, &sent, 0);
    assert_eq!(forwarder.take(at(55_004)), None);
    let delivery = forwarder.take(at(55_005)).unwrap();
    assert_eq!(delivery, Delivery { due: at(55_005), to: 2, frame: sent });
}

#[test]
fn an_anycast_address_is_answered_by_the_nearest_and_by_another_when_that_is_further() {
    let mut forwarder = Forwarder::new(&three_hosts());
    forwarder.offer(at(0), 0, &packet(DE, ANYCAST, 100), 0);
    assert_eq!(all_due(&mut forwarder), [(at(600), 1)]);
    forwarder.change(at(0), LinkSpec::new(0, 1, micros(60_000)));
    forwarder.offer(at(0), 0, &packet(DE, ANYCAST, 100), 0);
    assert_eq!(all_due(&mut forwarder), [(at(55_000), 2)]);
}

#[test]
fn what_is_for_nobody_is_counted_and_answered_and_what_is_for_all_is_ignored() {
    let mut forwarder = Forwarder::new(&three_hosts());
    forwarder.offer(at(0), 0, &packet(DE, [10, 4, 0, 1], 100), 0);
    assert_eq!(all_due(&mut forwarder), [(at(0), 0)]);
    forwarder.offer(at(0), 0, &packet(DE, [224, 0, 0, 22], 100), 0);
    assert_eq!(all_due(&mut forwarder), []);
    assert_eq!((forwarder.unroutable, forwarder.malformed), (1, 0));
    forwarder.offer(at(0), 0, &[0; 40], 0);
    assert_eq!((forwarder.unroutable, forwarder.malformed), (1, 1));
}

#[test]
fn hosts_without_a_link_do_not_reach_each_other() {
    let mut topology = three_hosts();
    topology.links.retain(|link| (link.from, link.to) != (0, 2));
    let mut forwarder = Forwarder::new(&topology);
    forwarder.offer(at(0), 0, &packet(DE, US, 100), 0);
    assert_eq!(forwarder.unroutable, 1);
    forwarder.offer(at(0), 2, &packet(US, DE, 100), 0);
    assert_eq!(all_due(&mut forwarder).last(), Some(&(at(55_000), 0)));
}

#[test]
fn tcp_is_cut_where_each_packet_counts_and_whole_elsewhere() {
    let ends = |up: Option<Limit>, change: fn(&mut LinkSpec)| {
        let mut topology = three_hosts();
        topology.hosts[0].up = up;
        let link = topology.links.iter_mut().find(|l| (l.from, l.to) == (0, 1)).unwrap();
        change(link);
        let mut forwarder = Forwarder::new(&topology);
        forwarder.offer(at(0), 0, &uncut(true, 3_000, 1_400), 0);
        let arrived = all_due(&mut forwarder).len();
        let counted: u64 = forwarder.counters().iter().map(|link| link.packets).sum();
        assert_eq!(counted, 3, "whole or cut, it is three packets");
        arrived
    };
    let limit = |megabits: u64| Limit {
        rate: BitRate::new(megabits * 1_000_000),
        queue: Bytes::new(1_000_000),
    };
    assert_eq!(ends(None, |_| {}), 1);
    assert_eq!(ends(Some(limit(1_000)), |_| {}), 1);
    assert_eq!(ends(Some(limit(999)), |_| {}), 3);
    assert_eq!(ends(None, |link| link.loss = Ratio::ppm(1)), 3);
    assert_eq!(ends(None, |link| link.reorder = Ratio::ppm(1)), 3);
    assert_eq!(ends(None, |link| link.jitter = micros(1)), 1);
}

#[test]
fn a_down_limit_is_shared_in_the_order_of_arrival_not_of_departure() {
    let mut topology = three_hosts();
    let limit = Limit { rate: BitRate::new(8_000_000), queue: Bytes::new(10_000) };
    topology.hosts[1].down = Some(limit);
    let mut forwarder = Forwarder::new(&topology);
    // From far away, arriving at 55 ms; then from near by, arriving at 1.6 ms. A kilobyte takes
    // 1 ms.
    forwarder.offer(at(0), 2, &packet(US, POP, 1_000), 0);
    forwarder.offer(at(1_000), 0, &packet(DE, POP, 1_000), 0);
    assert_eq!(all_due(&mut forwarder), [(at(2_600), 1), (at(56_000), 1)]);
}

#[test]
fn an_up_limit_is_shared_by_all_links_and_drops_what_finds_no_room() {
    let mut topology = three_hosts();
    let limit = Limit { rate: BitRate::new(8_000_000), queue: Bytes::new(2_000) };
    topology.hosts[0].up = Some(limit);
    let mut forwarder = Forwarder::new(&topology);
    for to in [POP, US, POP] {
        forwarder.offer(at(0), 0, &packet(DE, to, 1_000), 0);
    }
    assert_eq!(all_due(&mut forwarder), [(at(1_600), 1), (at(57_000), 2)]);
    let dropped: Vec<u64> = forwarder.counters().iter().map(|link| link.dropped_up).collect();
    assert_eq!(dropped.iter().sum::<u64>(), 1);
}

#[test]
fn a_hundred_megabits_are_a_hundred_megabits() {
    let mut topology = three_hosts();
    let limit = Limit { rate: BitRate::new(100_000_000), queue: Bytes::new(250_000) };
    topology.links.iter_mut().for_each(|link| link.limit = Some(limit));
    let mut forwarder = Forwarder::new(&topology);
    // 120 Mbit/s are offered for one second.
    for i in 0..10_000 {
        forwarder.offer(at(100 * i), 0, &packet(DE, POP, 1_500), 0);
    }
    let all = all_due(&mut forwarder);
    let took = all[all.len() - 1].0.since(all[0].0).as_secs_f64();
    let megabits = (all.len() - 1) as f64 * 1_500.0 * 8.0 / took / 1e6;
    assert!((megabits - 100.0).abs() < 0.01, "{megabits}");
}

#[test]
fn counters_begin_again_at_a_reset() {
    let mut forwarder = Forwarder::new(&three_hosts());
    forwarder.offer(at(0), 0, &packet(DE, US, 100), 0);
    assert_eq!(all_due(&mut forwarder).len(), 1);
    assert_eq!(forwarder.counters().iter().map(|link| link.bytes).sum::<u64>(), 100);
    forwarder.reset_counters();
    assert_eq!(forwarder.counters().iter().map(|link| link.bytes).sum::<u64>(), 0);
    assert_eq!(forwarder.counters().len(), 6);
}

/// A network with every trait a link can have.
fn any_topology() -> impl Strategy<Value = Topology> {
    let limit = prop::option::of((1_000_000u64..2_000_000_000, 2_000u64..100_000));
    let limit = limit.prop_map(|limit| {
        limit.map(|(rate, queue)| Limit { rate: BitRate::new(rate), queue: Bytes::new(queue) })
    });
    let shares = (0u32..200_000, 0u32..200_000);
    (limit.clone(), limit.clone(), limit, shares, 0u64..5_000, any::<u64>()).prop_map(
        |(up, down, link_limit, (loss, reorder), jitter, seed)| {
            let mut topology = three_hosts();
            topology.hosts[0].up = up;
            topology.hosts[2].down = down;
            topology.seed = seed;
            for link in &mut topology.links {
                link.limit = link_limit;
                link.loss = Ratio::ppm(loss);
                link.reorder = Ratio::ppm(reorder);
                link.jitter = micros(jitter);
            }
            topology
        },
    )
}

proptest! {
    #[test]
    fn every_packet_offered_is_counted_in_exactly_one_place(
        topology in any_topology(),
        packets in prop::collection::vec((0u64..1_000, 0usize..3, 0usize..4, 1u16..4_000), 1..200),
    ) {
        let mut forwarder = Forwarder::new(&topology);
        let addresses = [DE, POP, US, ANYCAST];
        let (mut now, mut offered) = (0, 0);
        for (gap, from, to, size) in packets {
            now += gap;
            let (frame, count) = if size % 3 == 0 {
                let mut frame = uncut(true, usize::from(size), 1_000);
                frame[HEADER + 16..HEADER + 20].copy_from_slice(&addresses[to]);
                (frame, u64::from(size).div_ceil(1_000))
            } else {
                (packet(addresses[from], addresses[to], 40 + size), 1)
            };
            forwarder.offer(at(now), from, &frame, 0);
            // What a host sends itself never comes here; if it does, it is for nobody.
            offered += if from == to { 0 } else { count };
            while forwarder.take(at(now)).is_some() {}
        }
        all_due(&mut forwarder);
        let fates = forwarder.counters().into_iter().map(|link| {
            let dropped = link.dropped_up + link.dropped_queue + link.dropped_down;
            link.packets + link.lost + dropped
        });
        prop_assert_eq!(fates.sum::<u64>(), offered);
    }

    #[test]
    fn no_frame_whatever_its_bytes_breaks_the_router(
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        version in 0u8..3,
        link in 0u16..20,
    ) {
        if let Some(first) = frame.get_mut(HEADER + usize::from(link)) {
            *first = [0x45, 0x60, *first][usize::from(version)];
        }
        let mut forwarder = Forwarder::new(&three_hosts());
        let lossy = LinkSpec { loss: Ratio::ppm(1), ..LinkSpec::new(0, 1, micros(1)) };
        forwarder.change(at(0), lossy);
        forwarder.offer(at(0), 0, &frame, link);
        all_due(&mut forwarder);
    }
}
