//! How many packets of clients that nobody knows are looked at.
//!
//! A first packet costs a key exchange or a Retry, whoever sent it, and its address may be forged.
//! More of them than a worker can make connections of are dropped unread: connections that there
//! are go on, and a client that is true sends again within a second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use loadline_core::{
    decide::budget::{Allowance, Budget},
    time::Instant,
    units::Rate,
};

/// What one socket takes of them.
#[derive(Debug)]
pub(super) struct FirstPackets {
    allowance: Allowance,
    budget: Budget,
    dropped: AtomicU64,
}

impl FirstPackets {
    pub(super) fn new() -> Self {
        let allowance = Allowance::new(Rate::per_sec(PER_SECOND), Some(BURST));
        Self { allowance, budget: Budget::default(), dropped: AtomicU64::new(0) }
    }

    /// Whether a packet is to be read. The time is asked for where it matters.
    pub(super) fn admit(&self, packet: &[u8], now: impl FnOnce() -> Instant) -> bool {
        if !is_first(packet) || self.budget.take(&self.allowance, now()) {
            return true;
        }
        self.dropped.fetch_add(1, Relaxed);
        false
    }

    /// How many were dropped since this was asked last.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.swap(0, Relaxed)
    }
}

/// Whether a packet is of a client that has not shown yet that its address is its own: an Initial
/// without a token (RFC 9000, 17.2.2), or one of a version that has to be negotiated (17.2.1).
fn is_first(packet: &[u8]) -> bool {
    let Some((&first, rest)) = packet.split_first().filter(|(first, _)| **first & LONG != 0) else {
        return false;
    };
    let Some((version, rest)) = rest.split_first_chunk() else { return false };
    if *version != VERSION_1 {
        return true;
    }
    let token = behind_id(rest).and_then(behind_id).and_then(<[u8]>::first);
    first & TYPE == INITIAL && token == Some(&0)
}

/// What is behind an id and its length.
fn behind_id(bytes: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = bytes.split_first()?;
    rest.get(usize::from(length)..)
}

/// Packets with a long header.
const LONG: u8 = 0x80;
const TYPE: u8 = 0x30;
const INITIAL: u8 = 0x00;
const VERSION_1: [u8; 4] = [0, 0, 0, 1];

/// More handshakes than a worker has time for, and of Retry a tenth of its time.
pub(super) const PER_SECOND: u64 = 10_000;

/// Clients that come back all at once, as after a network was away, are served one after another.
const BURST: u32 = 2_000;

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;

    use super::*;

    /// A packet with a destination id, a source id and the bytes behind them.
    fn packet(first: u8, version: [u8; 4], rest: &[u8]) -> Vec<u8> {
        [&[first][..], &version, &[8], &[7; 8], &[3], &[9; 3], rest, &[0; 40]].concat()
    }

    #[test]
    fn a_flood_of_first_packets_is_dropped_and_those_of_connections_never() {
        let packets = FirstPackets::new();
        let now = || Instant::ZERO + Duration::from_secs(9);
        let admit = |packet: &[u8]| packets.admit(packet, now);
        let flood = packet(0xc3, VERSION_1, &[0]);
        assert_eq!((0..50_000).filter(|_| admit(&flood)).count(), BURST as usize);
        assert_eq!(packets.dropped(), 50_000 - u64::from(BURST));
        let unknown = packet(0xc3, [0xa, 0xa, 0xa, 0xa], &[]);
        assert!(!admit(&unknown), "it would have to be answered, too");
        for (what, packet) in [
            ("short header", vec![0x41; 60]),
            ("with a token", packet(0xc0, VERSION_1, &[0x40, 0x47])),
            ("handshake", packet(0xe0, VERSION_1, &[0])),
            ("0-RTT", packet(0xd0, VERSION_1, &[0])),
            ("cut", packet(0xc0, VERSION_1, &[])[..12].to_vec()),
            ("empty", Vec::new()),
        ] {
            assert!(admit(&packet), "{what}");
        }
        assert_eq!(packets.dropped(), 1);
        let later = || now() + Duration::from_secs(1);
        assert!(packets.admit(&flood, later));
    }
}
