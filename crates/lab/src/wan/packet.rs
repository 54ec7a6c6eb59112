//! What the router must know of a packet: where it goes, how long it is, into how many it is to
//! be cut.
//!
//! Inside the router a frame is a virtio header and an IP packet; what an Ethernet port has between
//! the two is taken away when it is read and made again when it is written. The virtio header
//! (`struct virtio_net_hdr`, in the machine's byte order):
//!
//! | byte | field |
//! |---|---|
//! | 0 | flags: 1, the checksum is still to be made |
//! | 1 | what the packet is to be cut into: nothing, TCP over IPv4, TCP over IPv6 |
//! | 2 | length of all headers; a hint |
//! | 4 | payload of each packet it is cut into |
//! | 6, 8 | where the checksum's range starts in the frame, and the checksum within it |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use loadline_core::units::Bytes;

use super::port::HEADER;

/// The virtio header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Virtio {
    pub(super) flags: u8,
    pub(super) kind: u8,
    pub(super) header_length: u16,
    pub(super) payload: u16,
    pub(super) checksum_start: u16,
    pub(super) checksum_offset: u16,
}

/// One IP packet, perhaps of TCP still to be cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) virtio: Virtio,
    pub(super) ip: &'a [u8],
}

impl Virtio {
    /// The header as the kernel gives it.
    pub(super) fn read(bytes: &[u8; HEADER]) -> Self {
        let [flags, kind, ..] = *bytes;
        let number = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags,
            kind,
            header_length: number(2),
            payload: number(4),
            checksum_start: number(6),
            checksum_offset: number(8),
        }
    }

    /// The header as the kernel takes it.
    pub(super) fn bytes(&self) -> [u8; HEADER] {
        let [a, b] = self.header_length.to_ne_bytes();
        let [c, d] = self.payload.to_ne_bytes();
        let [e, f] = self.checksum_start.to_ne_bytes();
        let [g, h] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.kind, a, b, c, d, e, f, g, h]
    }

    /// The same header where `more` bytes stand before the IP packet.
    pub(super) fn behind(self, more: u16) -> Self {
        let shifted = |at: u16| if at == 0 { 0 } else { at.saturating_add(more) };
        Self {
            header_length: shifted(self.header_length),
            checksum_start: shifted(self.checksum_start),
            ..self
        }
    }

    fn without(self, less: u16) -> Self {
        Self {
            header_length: self.header_length.saturating_sub(less),
            checksum_start: self.checksum_start.saturating_sub(less),
            ..self
        }
    }
}

impl<'a> Packet<'a> {
    /// The packet in `frame`, where `link` bytes stand between virtio and IP header; none where
    /// it is not IP, or shorter than it says. What follows the packet is left out.
    pub(super) fn parse(frame: &'a [u8], link: u16) -> Option<Self> {
        let (virtio, rest) = frame.split_first_chunk::<HEADER>()?;
        let ip = rest.get(usize::from(link)..)?;
        let length = match ip.first()? >> 4 {
            4 if ip.len() >= IPV4_HEADER => usize::from(u16::from_be_bytes([ip[2], ip[3]])),
            6 if ip.len() >= IPV6_HEADER => {
                IPV6_HEADER + usize::from(u16::from_be_bytes([ip[4], ip[5]]))
            }
            _ => return None,
        };
        let shortest = if ip[0] >> 4 == 4 { IPV4_HEADER } else { IPV6_HEADER };
        let ip = ip.get(..length).filter(|ip| ip.len() >= shortest)?;
        Some(Self { virtio: Virtio::read(virtio).without(link), ip })
    }

    /// Whether it is of IP version 4; otherwise it is of version 6.
    pub(super) fn is_v4(&self) -> bool {
        self.ip[0] >> 4 == 4
    }

    /// Who sent it.
    pub(super) fn source(&self) -> IpAddr {
        self.address(12, 8)
    }

    /// Whom it is for.
    pub(super) fn destination(&self) -> IpAddr {
        self.address(16, 24)
    }

    fn address(&self, v4: usize, v6: usize) -> IpAddr {
        if self.is_v4() {
            let bytes: [u8; 4] = self.ip[v4..v4 + 4].try_into().expect("four bytes were taken");
            return Ipv4Addr::from(bytes).into();
        }
        let bytes: [u8; 16] = self.ip[v6..v6 + 16].try_into().expect("sixteen bytes were taken");
        Ipv6Addr::from(bytes).into()
    }

    /// How many packets it is on the wire, and the bytes of them all.
    pub(super) fn on_the_wire(&self) -> (u64, Bytes) {
        let length = self.ip.len() as u64;
        let headers = self.headers() as u64;
        let each = u64::from(self.virtio.payload);
        if self.virtio.kind == WHOLE || each == 0 || headers >= length {
            return (1, Bytes::new(length));
        }
        let count = (length - headers).div_ceil(each);
        (count, Bytes::new(length + (count - 1) * headers))
    }

    /// Bytes of the IP and TCP headers of a packet to be cut; the whole length where they do not
    /// fit.
    pub(super) fn headers(&self) -> usize {
        let tcp = usize::from(self.virtio.checksum_start);
        let tcp_length = self.ip.get(tcp + TCP_DATA_OFFSET).map(|byte| usize::from(byte >> 4) * 4);
        tcp_length.map_or(self.ip.len(), |length| (tcp + length).min(self.ip.len()))
    }
}

/// [`Virtio::kind`] of a packet that is not to be cut.
pub(super) const WHOLE: u8 = 0;

/// Where a TCP header tells its own length, in units of four bytes, in the upper half.
const TCP_DATA_OFFSET: usize = 12;

/// The shortest.
pub(super) const IPV4_HEADER: usize = 20;
/// Without extension headers.
pub(super) const IPV6_HEADER: usize = 40;
