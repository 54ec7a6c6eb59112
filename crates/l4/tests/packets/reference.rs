//! What the program computes, written down a second time: the place of a flow in the ring, and the
//! checksums of a frame.

use crate::frame::checksum;

/// Where the parts of an IP packet are in its frame. Options and extension headers are not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) ip: usize,
    pub(crate) v6: bool,
    pub(crate) transport: usize,
    pub(crate) end: usize,
    pub(crate) protocol: u8,
}

impl Packet {
    /// The packet behind at most two VLAN tags.
    pub(crate) fn in_frame(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        while at < 20 && matches!(word(frame, at)?, 0x8100 | 0x88a8) {
            at += 4;
        }
        let packet = match word(frame, at)? {
            0x0800 => Self::at(frame, at + 2, false)?,
            0x86dd => Self::at(frame, at + 2, true)?,
            _ => return None,
        };
        let length = match packet.v6 {
            true => usize::from(word(frame, packet.ip + 4)?) + 40,
            false => usize::from(word(frame, packet.ip + 2)?),
        };
        let end = (packet.ip + length).min(frame.len());
        (packet.transport <= end).then_some(Self { end, ..packet })
    }

    /// The packet of an IP header at `ip`, up to the end of the frame.
    fn at(frame: &[u8], ip: usize, v6: bool) -> Option<Self> {
        let transport = ip + if v6 { 40 } else { 20 };
        let protocol = *frame.get(ip + if v6 { 6 } else { 9 })?;
        let end = frame.len();
        (transport <= end).then_some(Self { ip, v6, transport, end, protocol })
    }

    /// The packet that an ICMP error quotes, by whatever length.
    pub(crate) fn quoted(&self, frame: &[u8]) -> Option<Self> {
        let is_icmp = self.protocol == if self.v6 { 58 } else { 1 };
        is_icmp.then(|| Self::at(frame, self.transport + 8, self.v6))?
    }

    pub(crate) fn source<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        if self.v6 { &frame[self.ip + 8..][..16] } else { &frame[self.ip + 12..][..4] }
    }

    pub(crate) fn destination<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        if self.v6 { &frame[self.ip + 24..][..16] } else { &frame[self.ip + 16..][..4] }
    }

    /// Source and destination port.
    pub(crate) fn ports(&self, frame: &[u8]) -> [[u8; 2]; 2] {
        let at = |at: usize| [frame[at], frame[at + 1]];
        [at(self.transport), at(self.transport + 2)]
    }

    /// The place in the ring of a flow from this address and port to that port: words as they
    /// lie in memory, multiplied and folded, and the upper bits of the product with the size.
    pub(crate) fn position(&self, source: &[u8], ports: [[u8; 2]; 2]) -> usize {
        let words: Vec<u32> = source.chunks(4).map(native).collect();
        let [[a, b], [c, d]] = ports;
        let ports = u32::from_ne_bytes([a, b, c, d]);
        let mut hash = 0xdead_beef + u64::from(self.protocol);
        if self.v6 {
            hash = mix(mix(hash, words[1], words[2]), words[3], 0);
        }
        hash = mix(hash, words[0], ports).wrapping_mul(GOLDEN_RATIO) >> 32;
        ((hash * 65_537) >> 32) as usize
    }

    /// Where the checksums are and what they should be; UDP over IPv4 may have none.
    fn checksums(&self, frame: &[u8]) -> Vec<(usize, u16)> {
        let mut found = Vec::new();
        if !self.v6 {
            found.push((self.ip + 10, without(&frame[self.ip..self.transport], 10, &[])));
        }
        let at = match self.protocol {
            6 => 16,
            17 => 6,
            1 | 58 => 2,
            _ => return found,
        };
        let segment = &frame[self.transport..self.end];
        if segment.len() < at + 2 || (self.protocol == 17 && segment[6..8] == [0, 0]) {
            return found;
        }
        let mut pseudo = [self.source(frame), self.destination(frame)].concat();
        pseudo.extend([0, self.protocol]);
        pseudo.extend((segment.len() as u16).to_be_bytes());
        let pseudo = if self.protocol == 1 { &[] } else { &pseudo[..] };
        let sum = match without(segment, at, pseudo) {
            0 if self.protocol == 17 => 0xffff,
            sum => sum,
        };
        found.push((self.transport + at, sum));
        found
    }

    /// Whether all checksums are right.
    pub(crate) fn verifies(&self, frame: &[u8]) -> bool {
        self.checksums(frame).iter().all(|(at, sum)| word(frame, *at) == Some(*sum))
    }

    /// Makes all checksums right.
    pub(crate) fn repair(&self, frame: &mut [u8]) {
        for (at, sum) in self.checksums(frame) {
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// The checksum of `bytes` behind `before`, where the checksum itself at `at` counts as zero.
fn without(bytes: &[u8], at: usize, before: &[u8]) -> u16 {
    let mut bytes = [before, bytes].concat();
    bytes[before.len() + at..][..2].fill(0);
    checksum(&bytes)
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

fn native(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(hash: u64, low: u32, high: u32) -> u64 {
    let words = u64::from(low) | u64::from(high) << 32;
    let hash = (hash ^ words).wrapping_mul(GOLDEN_RATIO);
    hash ^ hash >> 32
}
