//! The router without its clock and its descriptors: packets go in with the instant they came, and
//! come out with the instant they are due.
//!
//! ```text
//! offer: destination -> nearest host -> cut, if each packet counts -> up limit -> link -> agenda
//! take:  agenda -> down limit -> out, or back onto the agenda for when the limit lets it go
//! ```

use std::{collections::HashMap, net::IpAddr};

use loadline_core::{
    time::{Duration, Instant},
    units::Bytes,
};

use super::{
    counters::LinkCounters,
    due_queue::{Buffers, DueQueue, Parcel},
    link::{Link, PacketFate, is_slow},
    packet::Packet,
    port::HEADER,
    segment::Cut,
    shaper::Shaper,
    unreachable,
};
use crate::topology::{HostSpec, LinkSpec, Topology};

/// All hosts and links at work.
#[derive(Debug)]
pub(super) struct Forwarder {
    hosts: Vec<Host>,
    /// That from `a` to `b` is number `a * hosts + b`.
    links: Vec<Option<Box<Path>>>,
    /// Which hosts have an address.
    routes: HashMap<IpAddr, Vec<usize>>,
    seed: u64,
    compensation: Duration,
    due_queue: DueQueue,
    buffers: Buffers,
    /// Packets for nobody.
    pub(super) unroutable: u64,
    /// What is no IP packet.
    pub(super) malformed: u64,
}

/// A packet that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) due: Instant,
    /// The receiver's place in the topology.
    pub(super) to: usize,
    /// Virtio header and IP packet; to be given back.
    pub(super) frame: Vec<u8>,
}

#[derive(Debug)]
struct Host {
    up: Option<Shaper>,
    down: Option<Shaper>,
    /// Whether one of them is slow enough for TCP to be cut before it.
    slow_up: bool,
    slow_down: bool,
}

#[derive(Debug)]
struct Path {
    link: Link,
    /// Whether TCP is cut before it goes this way.
    cuts: bool,
    counters: LinkCounters,
}

impl Forwarder {
    /// The network of `topology`, which must have been checked, with nothing under way.
    pub(super) fn new(topology: &Topology) -> Self {
        let mut routes: HashMap<IpAddr, Vec<usize>> = HashMap::new();
        for (host, spec) in topology.hosts.iter().enumerate() {
            for &address in &spec.addresses {
                routes.entry(address).or_default().push(host);
            }
        }
        let hosts: Vec<Host> = topology.hosts.iter().map(Host::new).collect();
        let mut this = Self {
            links: (0..hosts.len() * hosts.len()).map(|_| None).collect(),
            hosts,
            routes,
            seed: topology.seed,
            compensation: Duration::ZERO,
            due_queue: DueQueue::default(),
            buffers: Buffers::default(),
            unroutable: 0,
            malformed: 0,
        };
        topology.links.iter().for_each(|link| this.change(Instant::ZERO, *link));
        this
    }

    /// Makes `spec`, which must have been checked, what goes between its hosts from `now` on.
    pub(super) fn change(&mut self, now: Instant, spec: LinkSpec) {
        let ends = self.hosts[spec.from].slow_up || self.hosts[spec.to].slow_down;
        let number = self.number(spec.from, spec.to);
        let path = self.links[number].get_or_insert_with(|| {
            let counters = LinkCounters { from: spec.from, to: spec.to, ..LinkCounters::default() };
            Box::new(Path { link: Link::new(spec, self.seed), cuts: false, counters })
        });
        path.link.change(now, spec);
        path.cuts = ends || path.link.tells_packets_apart();
    }

    /// Takes so much off every delay.
    pub(super) fn compensate(&mut self, one_way: Duration) {
        self.compensation = one_way;
    }

    /// Takes a frame that host `from` sent and that was read at `now`, with `link` bytes between
    /// its virtio and its IP header. `now` may not decrease from call to call.
    pub(super) fn offer(&mut self, now: Instant, from: usize, frame: &[u8], link: u16) {
        let Some(packet) = Packet::parse(frame, link) else {
            self.malformed += 1;
            return;
        };
        let Some(number) = self.route(from, &packet) else {
            return self.refuse(now, from, &packet);
        };
        let cuts = self.links[number].as_ref().is_some_and(|path| path.cuts);
        match Cut::new(packet).filter(|_| cuts) {
            Some(cut) => {
                for index in 0..cut.count() {
                    let mut frame = self.buffers.take(HEADER + cut.longest());
                    cut.write(index, &mut frame);
                    let size = Bytes::new((frame.len() - HEADER) as u64);
                    self.carry(now, number, frame, (1, size));
                }
            }
            None => {
                let mut frame = self.buffers.take(HEADER + packet.ip.len());
                frame.extend_from_slice(&packet.virtio.bytes());
                frame.extend_from_slice(packet.ip);
                self.carry(now, number, frame, packet.on_the_wire());
            }
        }
    }

    /// A packet that is due by `now`, the earliest first.
    pub(super) fn take(&mut self, now: Instant) -> Option<Delivery> {
        loop {
            let (due, mut parcel) = self.due_queue.pop(now)?;
            let down = self.hosts[parcel.to].down.as_mut().filter(|_| !parcel.arrived);
            let Some(down) = down else {
                self.count_carried(&parcel);
                return Some(Delivery { due, to: parcel.to, frame: parcel.frame });
            };
            match down.admit(due, parcel.size) {
                Some(leave) => {
                    parcel.arrived = true;
                    self.due_queue.push(leave, parcel);
                }
                None => {
                    let link = parcel.link.and_then(|number| self.links[number].as_mut());
                    if let Some(path) = link {
                        path.counters.dropped_down += parcel.packets;
                    }
                    self.buffers.give(parcel.frame);
                }
            }
        }
    }

    /// When the next packet is to be taken; none where nothing is under way.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due_queue.next_due()
    }

    /// Takes a buffer back.
    pub(super) fn give(&mut self, frame: Vec<u8>) {
        self.buffers.give(frame);
    }

    /// What was counted on each link.
    pub(super) fn counters(&self) -> Vec<LinkCounters> {
        self.links.iter().flatten().map(|path| path.counters).collect()
    }

    /// Counts from zero again.
    pub(super) fn reset_counters(&mut self) {
        (self.unroutable, self.malformed) = (0, 0);
        for LinkCounters { from, to, .. } in self.counters() {
            let number = self.number(from, to);
            if let Some(path) = &mut self.links[number] {
                path.counters = LinkCounters { from, to, ..LinkCounters::default() };
            }
        }
    }

    fn number(&self, from: usize, to: usize) -> usize {
        from * self.hosts.len() + to
    }

    /// The link to the nearest host with the packet's destination address.
    fn route(&self, from: usize, packet: &Packet<'_>) -> Option<usize> {
        let hosts = self.routes.get(&packet.destination())?;
        let numbers = hosts.iter().map(|&host| self.number(from, host));
        let delay = |number: &usize| self.links[*number].as_ref().map(|p| p.link.spec().delay);
        numbers.filter(|number| delay(number).is_some()).min_by_key(delay)
    }

    fn refuse(&mut self, now: Instant, from: usize, packet: &Packet<'_>) {
        // Neighbours' and routers' talk that every interface begins with.
        if packet.destination().is_multicast() {
            return;
        }
        self.unroutable += 1;
        let mut frame = self.buffers.take(HEADER + packet.ip.len());
        if !unreachable::answer(packet, &mut frame) {
            return self.buffers.give(frame);
        }
        let size = Bytes::new((frame.len() - HEADER) as u64);
        let (packets, link) = (1, None);
        let parcel = Parcel { frame, to: from, link, packets, size, held: false, arrived: true };
        self.due_queue.push(now, parcel);
    }

    /// One packet, or TCP uncut, onto link `number`.
    fn carry(&mut self, now: Instant, number: usize, frame: Vec<u8>, wire: (u64, Bytes)) {
        let (packets, size) = wire;
        let Some(path) = &mut self.links[number] else { return self.buffers.give(frame) };
        let counters = &mut path.counters;
        let leave = match &mut self.hosts[counters.from].up {
            Some(up) => up.admit(now, size),
            None => Some(now),
        };
        let Some(leave) = leave else {
            counters.dropped_up += packets;
            return self.buffers.give(frame);
        };
        let (due, held) = match path.link.carry(leave, size, self.compensation) {
            PacketFate::Due(due) => (due, false),
            PacketFate::Held(due) => (due, true),
            PacketFate::Lost => {
                counters.lost += packets;
                return self.buffers.give(frame);
            }
            PacketFate::NoRoom => {
                counters.dropped_queue += packets;
                return self.buffers.give(frame);
            }
        };
        let (to, link) = (counters.to, Some(number));
        let parcel = Parcel { frame, to, link, packets, size, held, arrived: false };
        self.due_queue.push(due, parcel);
    }

    fn count_carried(&mut self, parcel: &Parcel) {
        let link = parcel.link.and_then(|number| self.links[number].as_mut());
        if let Some(path) = link {
            path.counters.packets += parcel.packets;
            path.counters.bytes += parcel.size.get();
            path.counters.reordered += if parcel.held { parcel.packets } else { 0 };
        }
    }
}

impl Host {
    fn new(spec: &HostSpec) -> Self {
        Self {
            up: spec.up.map(Shaper::new),
            down: spec.down.map(Shaper::new),
            slow_up: spec.up.is_some_and(is_slow),
            slow_down: spec.down.is_some_and(is_slow),
        }
    }
}

#[cfg(test)]
mod tests;
