//! Limits the first packets of clients, which cost work before the client has proven its address.
//!
//! A first packet costs a key exchange or a Retry, whoever sent it, and its address may be forged.
//! Packets beyond what a worker can make connections of are dropped unread: connections that exist
//! go on, and a real client sends again within a second. Those with a token have a limit of their
//! own: a client that answers a Retry gets through a flood of packets without one, and whether a
//! token is valid is not known before it is read. In a flood the kernel drops most of them before
//! they cost a wakeup and a copy, by a [filter](super::socket_filter) that lets a random share of
//! each kind through; the limits themselves are held here.

use std::{
    mem,
    net::UdpSocket,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use loadline_core::{
    decide::budget::{Allowance, Budget},
    time::{Duration, Instant},
    units::Rate,
};

use super::socket_filter;

/// Limits the first packets read from one socket.
#[derive(Debug)]
pub(super) struct FirstPackets {
    socket: Arc<UdpSocket>,
    allowance: Allowance,
    /// Of those without a token, and with one.
    budgets: [Budget; 2],
    floods: Mutex<[Flood; 2]>,
}

/// What a first packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    NoToken,
    Token,
}

/// How many come, and which share of them the kernel lets through.
#[derive(Debug)]
struct Flood {
    /// Start of the window.
    since: Instant,
    /// Packets the filter passed in this window.
    seen: u64,
    /// Packets of these over the limit.
    over: u64,
    /// Share let through, in parts of 2^32.
    share: u32,
    /// Packets dropped since last asked; those dropped by the kernel are estimated from the share.
    dropped: u64,
}

impl FirstPackets {
    /// Limits this socket, and removes a filter left by an earlier owner.
    pub(super) fn new(socket: Arc<UdpSocket>) -> Self {
        let allowance = Allowance::new(Rate::per_sec(PER_SECOND), Some(BURST));
        let flood = || Flood { since: Instant::ZERO, seen: 0, over: 0, share: ALL, dropped: 0 };
        let (budgets, floods) = (Default::default(), Mutex::new([flood(), flood()]));
        let packets = Self { socket, allowance, budgets, floods };
        packets.let_through([ALL; 2]);
        packets
    }

    /// Whether a packet is to be read. The time is asked for where it matters.
    pub(super) fn admit(&self, packet: &[u8], now: impl FnOnce() -> Instant) -> bool {
        let Some(first) = first(packet) else { return true };
        let now = now();
        let admitted = first.of(self.budgets.each_ref()).take(&self.allowance, now);
        let mut floods = self.lock();
        let flood = first.of(floods.each_mut());
        flood.seen += 1;
        flood.over += u64::from(!admitted);
        flood.dropped += u64::from(!admitted);
        self.adjust(&mut floods, now);
        admitted
    }

    /// Notices that a flood is over, although nothing comes any more.
    pub(super) fn review(&self, now: Instant) {
        self.adjust(&mut self.lock(), now);
    }

    /// How many were dropped since this was asked last.
    pub(super) fn take_dropped(&self) -> u64 {
        self.lock().each_mut().map(|flood| mem::take(&mut flood.dropped)).iter().sum()
    }

    fn adjust(&self, floods: &mut [Flood; 2], now: Instant) {
        let before = floods.each_ref().map(|flood| flood.share);
        let shares = floods.each_mut().map(|flood| flood.review(now));
        if shares != before {
            self.let_through(shares);
        }
    }

    /// Where the kernel takes no filter, all are dropped here.
    fn let_through(&self, shares: [u32; 2]) {
        let filter = (shares != [ALL; 2]).then_some(shares);
        if let Err(error) = socket_filter::limit_first_packets(&self.socket, filter) {
            tracing::debug!(%error, "no filter for first packets");
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Flood; 2]> {
        self.floods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FirstPackets {
    fn drop(&mut self) {
        self.let_through([ALL; 2]);
    }
}

impl First {
    /// What is kept for it.
    fn of<T>(self, [no_token, token]: [T; 2]) -> T {
        match self {
            Self::NoToken => no_token,
            Self::Token => token,
        }
    }
}

impl Flood {
    /// Ends a window that has lasted long enough. The share to be let through: all while none is
    /// over the limit, and as many as the limit takes, and a little more, while there are more.
    fn review(&mut self, now: Instant) -> u32 {
        let elapsed = now.since(self.since);
        if elapsed < WINDOW {
            return self.share;
        }
        let came = self.seen as f64 * f64::from(ALL) / f64::from(self.share);
        let limit = PER_SECOND as f64 * elapsed.as_secs_f64();
        let flooded = self.over > 0 || self.share != ALL;
        self.dropped += (came as u64).saturating_sub(self.seen);
        self.share = match flooded && came > limit {
            true => ((MARGIN * limit / came).clamp(LEAST, 1.0) * f64::from(ALL)) as u32,
            false => ALL,
        };
        (self.since, self.seen, self.over) = (now, 0, 0);
        self.share
    }
}

/// Whether a packet is of a client that may be new: an Initial (RFC 9000, 17.2.2), or one of a
/// version that has to be negotiated (17.2.1).
fn first(packet: &[u8]) -> Option<First> {
    let (&first, rest) = packet.split_first().filter(|(first, _)| **first & LONG != 0)?;
    let (version, rest) = rest.split_first_chunk()?;
    if *version != VERSION_1 {
        return Some(First::NoToken);
    }
    let token = *behind_id(rest).and_then(behind_id)?.first()?;
    let kind = if token == 0 { First::NoToken } else { First::Token };
    (first & TYPE == INITIAL).then_some(kind)
}

/// Bytes behind an id and its length.
fn behind_id(bytes: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = bytes.split_first()?;
    rest.get(usize::from(length)..)
}

/// Packets with a long header.
const LONG: u8 = 0x80;
const TYPE: u8 = 0x30;
const INITIAL: u8 = 0x00;
const VERSION_1: [u8; 4] = [0, 0, 0, 1];

/// More handshakes than a worker has time for, and of Retry a twentieth of its time.
pub(super) const PER_SECOND: u64 = 5_000;

/// Clients that come back all at once, as after a network was away, are served one after another.
const BURST: u32 = 2_000;

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(100);

/// The share that lets every packet through.
const ALL: u32 = u32::MAX;

/// Packets let through by chance, relative to the limit.
const MARGIN: f64 = 1.25;

/// Less is never let through, so that it is seen when the flood ends.
const LEAST: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A packet with a destination id, a source id and the bytes behind them.
    fn packet(first: u8, version: [u8; 4], rest: &[u8]) -> Vec<u8> {
        [&[first][..], &version, &[8], &[7; 8], &[3], &[9; 3], rest, &[0; 40]].concat()
    }

    /// For a socket of loopback, and what sends to it.
    fn open() -> (FirstPackets, UdpSocket) {
        let [socket, client] = [0; 2].map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        client.connect(socket.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        (FirstPackets::new(Arc::new(socket)), client)
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(9) + Duration::from_millis(ms)
    }

    /// A first packet with a token.
    fn with_token() -> Vec<u8> {
        packet(0xc0, VERSION_1, &[1, 9])
    }

    /// Packets that are nobody's first.
    fn others() -> [(&'static str, Vec<u8>); 3] {
        [
            ("short header", vec![0x41; 60]),
            ("handshake", packet(0xe0, VERSION_1, &[0])),
            ("0-RTT", packet(0xd0, VERSION_1, &[0])),
        ]
    }

    #[test]
    fn a_flood_of_first_packets_is_dropped_and_those_of_connections_never() {
        let (packets, _client) = open();
        let admit = |packet: &[u8]| packets.admit(packet, || at(0));
        let flood = packet(0xc3, VERSION_1, &[0]);
        assert_eq!((0..50_000).filter(|_| admit(&flood)).count(), BURST as usize);
        assert_eq!(packets.take_dropped(), 50_000 - u64::from(BURST));
        let unknown = packet(0xc3, [0xa, 0xa, 0xa, 0xa], &[]);
        assert!(!admit(&unknown), "it would have to be answered, too");
        let cut = packet(0xc0, VERSION_1, &[])[..12].to_vec();
        for (what, packet) in others().into_iter().chain([("cut", cut), ("empty", Vec::new())]) {
            assert!(admit(&packet), "{what}");
        }
        assert_eq!(packets.take_dropped(), 1);
        assert!(packets.admit(&flood, || at(1_000)));
    }

    #[test]
    fn a_token_gets_through_a_flood_without_and_no_flood_gets_through_by_it() {
        let (packets, _client) = open();
        let admit = |packet: &[u8]| packets.admit(packet, || at(0));
        let flood = packet(0xc3, VERSION_1, &[0]);
        assert_eq!((0..50_000).filter(|_| admit(&flood)).count(), BURST as usize);
        let long = packet(0xc0, VERSION_1, &[0x40, 0x47]);
        assert!(admit(&long) && admit(&with_token()), "those who answer a Retry");
        assert_eq!((2..50_000).filter(|_| admit(&with_token())).count() + 2, BURST as usize);
        assert_eq!(packets.take_dropped(), 2 * (50_000 - u64::from(BURST)));
    }

    #[test]
    fn in_a_flood_the_kernel_drops_first_packets_alone_and_all_come_when_it_is_over() {
        let (packets, client) = open();
        let socket = packets.socket.clone();
        let come_through = |packet: &[u8], count: usize| {
            let mut room = [0; 100];
            let sent = (0..count).map(|_| client.send(packet).unwrap());
            sent.filter(|_| socket.recv(&mut room).is_ok()).count()
        };
        let first = packet(0xc3, VERSION_1, &[0]);
        assert_eq!(come_through(&first, 1_000), 1_000);
        let flood = |packet: &[u8], from: u64| {
            (0..=5_000).for_each(|n| {
                packets.admit(packet, || at(from + n / 50));
            });
        };
        flood(&first, 0);
        let unknown = packet(0xc3, [0xa, 0xa, 0xa, 0xa], &[]);
        for first in [&first, &unknown] {
            // An eighth.
            assert!((1_000..1_500).contains(&come_through(first, 10_000)));
        }
        let token = ("with a token", with_token());
        for (what, packet) in others().into_iter().chain([token]) {
            assert_eq!(come_through(&packet, 100), 100, "{what}");
        }
        packets.review(at(250));
        assert_eq!(come_through(&first, 1_000), 1_000);
        flood(&with_token(), 350);
        assert!((1_000..1_500).contains(&come_through(&with_token(), 10_000)));
        assert_eq!(come_through(&first, 1_000), 1_000, "of those without there is no flood");
        packets.review(at(550));
        flood(&first, 600);
        assert!(come_through(&first, 1_000) < 1_000);
        drop(packets);
        assert_eq!(come_through(&first, 1_000), 1_000, "for whoever has the socket next");
    }
}
