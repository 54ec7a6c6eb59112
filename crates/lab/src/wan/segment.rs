//! Cutting TCP that a kernel sent uncut, as its network card would have done.
//!
//! Each packet has a copy of the headers with its own lengths, sequence number and, for IPv4,
//! identification. PSH and FIN stay with the last, CWR with the first. The TCP checksum is left to
//! the receiving kernel, as with every packet that never saw a wire; the field holds the sum of
//! the pseudo header.

use super::packet::{IPV4_HEADER, IPV6_HEADER, Packet, Virtio, WHOLE};

/// A packet of TCP to be cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut<'a> {
    packet: Packet<'a>,
    tcp: usize,
    headers: usize,
    each: usize,
    count: usize,
}

impl<'a> Cut<'a> {
    /// How `packet` is cut; none where it is not TCP to be cut, or its headers do not add up.
    pub(super) fn new(packet: Packet<'a>) -> Option<Self> {
        let (kind, shortest) = if packet.is_v4() {
            (TCP_OVER_IPV4, IPV4_HEADER)
        } else {
            (TCP_OVER_IPV6, IPV6_HEADER)
        };
        if packet.virtio.kind & !CONGESTION_MARKED != kind {
            return None;
        }
        let tcp = usize::from(packet.virtio.checksum_start);
        let headers = packet.headers();
        let each = usize::from(packet.virtio.payload);
        let is_right = tcp >= shortest && headers >= tcp + TCP_HEADER && each > 0;
        let payload = packet.ip.len().checked_sub(headers).filter(|length| *length > 0)?;
        is_right.then(|| Self { packet, tcp, headers, each, count: payload.div_ceil(each) })
    }

    /// How many packets there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the longest of them.
    pub(super) fn longest(&self) -> usize {
        self.headers + self.each.min(self.packet.ip.len() - self.headers)
    }

    /// Writes the frame of packet number `index` into `out`, which is emptied first.
    pub(super) fn write(&self, index: usize, out: &mut Vec<u8>) {
        let ip = self.packet.ip;
        let begin = self.headers + index * self.each;
        let end = (begin + self.each).min(ip.len());
        let virtio =
            Virtio { flags: NEEDS_CHECKSUM, kind: WHOLE, payload: 0, ..self.packet.virtio };
        out.clear();
        out.extend_from_slice(&virtio.bytes());
        let start = out.len();
        out.extend_from_slice(&ip[..self.headers]);
        out.extend_from_slice(&ip[begin..end]);
        let new = &mut out[start..];
        if self.packet.is_v4() {
            number_v4(new, index as u16);
        } else {
            put(new, 4, (new.len() - IPV6_HEADER) as u16);
        }
        self.number_tcp(new, index);
    }

    fn number_tcp(&self, ip: &mut [u8], index: usize) {
        let length = (ip.len() - self.tcp) as u32;
        let addresses = if self.packet.is_v4() { &ip[12..20] } else { &ip[8..40] };
        let pseudo = folded(sum(addresses) + TCP + length);
        let tcp = &mut ip[self.tcp..];
        let first = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let sequence = first.wrapping_add((index * self.each) as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if index + 1 < self.count {
            tcp[FLAGS] &= !(FIN | PSH);
        }
        if index > 0 {
            tcp[FLAGS] &= !CWR;
        }
        put(tcp, 16, pseudo);
    }
}

fn number_v4(ip: &mut [u8], index: u16) {
    let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index);
    put(ip, 2, ip.len() as u16);
    put(ip, 4, identification);
    put(ip, 10, 0);
    let header = usize::from(ip[0] & 15) * 4;
    let checksum = !folded(sum(&ip[..header.min(ip.len())]));
    put(ip, 10, checksum);
}

fn put(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// The sum of 16-bit words; an odd byte counts as the upper half of one.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    };
    bytes.chunks(2).map(word).sum()
}

/// The sum with its carries added back in.
pub(super) fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// [`Virtio::flags`]: the TCP or UDP checksum is still to be made.
const NEEDS_CHECKSUM: u8 = 1;
/// [`Virtio::kind`].
const TCP_OVER_IPV4: u8 = 1;
const TCP_OVER_IPV6: u8 = 4;
const CONGESTION_MARKED: u8 = 0x80;

/// The protocol's number.
const TCP: u32 = 6;
/// The shortest.
const TCP_HEADER: usize = 20;
/// Where its flags stand.
const FLAGS: usize = 13;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame of TCP over IPv4 or IPv6 with `payload` bytes, to be cut every `each`.
    pub(in super::super) fn uncut(v4: bool, payload: usize, each: u16) -> Vec<u8> {
        let ip_header = if v4 { IPV4_HEADER } else { IPV6_HEADER };
        let kind = if v4 { TCP_OVER_IPV4 } else { TCP_OVER_IPV6 };
        let start = ip_header as u16;
        let virtio = Virtio {
            flags: NEEDS_CHECKSUM,
            kind,
            payload: each,
            header_length: start + 20,
            checksum_start: start,
            checksum_offset: 16,
        };
        let mut frame = virtio.bytes().to_vec();
        let length = (20 + payload) as u16;
        if v4 {
            frame.extend([0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0xff, 0xff, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
        } else {
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([6, 64]);
            for last in [1, 2] {
                frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
        }
        frame.extend([0, 80, 0, 90, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 0x50]);
        frame.extend([CWR | PSH | FIN | 0x10, 1, 0, 0, 0, 0, 0]);
        frame.extend((0..payload).map(|i| i as u8));
        frame
    }

    fn cut_all(frame: &[u8]) -> Vec<Vec<u8>> {
        let cut = Cut::new(Packet::parse(frame, 0).unwrap()).unwrap();
        let write = |index| {
            let mut out = vec![1, 2, 3];
            cut.write(index, &mut out);
            out
        };
        (0..cut.count()).map(write).collect()
    }

    #[test]
    fn the_payloads_joined_are_the_payload_and_every_length_is_right() {
        for v4 in [true, false] {
            let frame = uncut(v4, 3_000, 1_400);
            let pieces = cut_all(&frame);
            assert_eq!(pieces.len(), 3);
            let whole = Packet::parse(&frame, 0).unwrap();
            let packets: Vec<_> = pieces.iter().map(|p| Packet::parse(p, 0).unwrap()).collect();
            let headers = whole.headers();
            let joined: Vec<u8> =
                packets.iter().flat_map(|p| p.ip[headers..].iter().copied()).collect();
            assert_eq!(joined, whole.ip[headers..]);
            let (count, size) = whole.on_the_wire();
            assert_eq!(count, 3);
            assert_eq!(size.get() as usize, packets.iter().map(|p| p.ip.len()).sum::<usize>());
        }
    }

    #[test]
    fn sequence_numbers_go_on_and_wrap_and_flags_stay_where_they_belong() {
        let tcp = |piece: &[u8]| piece[10 + 20..].to_vec();
        let pieces: Vec<_> = cut_all(&uncut(true, 2_500, 1_000)).iter().map(|p| tcp(p)).collect();
        let sequences: Vec<u32> =
            pieces.iter().map(|tcp| u32::from_be_bytes(tcp[4..8].try_into().unwrap())).collect();
        assert_eq!(sequences, [0xffff_fff0, 984, 1_984]);
        let flags: Vec<u8> = pieces.iter().map(|tcp| tcp[FLAGS]).collect();
        assert_eq!(flags, [0x10 | CWR, 0x10, 0x10 | PSH | FIN]);
    }

    #[test]
    fn the_ipv4_header_is_numbered_and_its_checksum_is_right() {
        for (index, piece) in cut_all(&uncut(true, 2_500, 1_000)).iter().enumerate() {
            let ip = &piece[10..];
            assert_eq!(folded(sum(&ip[..20])), 0xffff);
            let identification = u16::from_be_bytes([ip[4], ip[5]]);
            assert_eq!(identification, 0xffffu16.wrapping_add(index as u16));
        }
    }

    #[test]
    fn the_checksum_field_is_that_of_the_pseudo_header() {
        let pieces = cut_all(&uncut(true, 1_500, 1_000));
        let tcp = &pieces[1][30..];
        // 10.1.0.1 + 10.2.0.1 + 6 + 520
        let expected = 0x0a01 + 1 + 0x0a02 + 1 + 6 + 520;
        assert_eq!(u16::from_be_bytes([tcp[16], tcp[17]]), expected);
    }

    #[test]
    fn what_is_not_tcp_to_be_cut_or_lies_about_its_headers_is_left_whole() {
        let right = uncut(true, 2_500, 1_000);
        let is_cut = |change: fn(&mut Vec<u8>)| {
            let mut frame = right.clone();
            change(&mut frame);
            Packet::parse(&frame, 0).and_then(Cut::new).is_some()
        };
        assert!(is_cut(|_| {}));
        assert!(!is_cut(|frame| frame[1] = 0), "nothing to cut");
        assert!(!is_cut(|frame| frame[1] = 4), "another version");
        assert!(!is_cut(|frame| frame[4..6].fill(0)), "no length of each");
        assert!(!is_cut(|frame| frame[6..8].fill(0)), "TCP within the IP header");
        assert!(!is_cut(|frame| frame[6..8].fill(0xff)), "TCP behind the end");
        assert!(!is_cut(|frame| frame[42] = 0), "a TCP header of no length");
        assert!(!is_cut(|frame| drop(frame.drain(50..))), "cut short");
    }
}
