//! What the sender is told where no host has the address: "destination unreachable", as a router
//! says it (RFC 792, RFC 4443), so that a connection fails at once and not after its time-out.
//!
//! It is said in the name of the address itself, as the router has none. Nothing is said about
//! ICMP that is itself an error, nor about what was sent to many at once.

use super::{
    packet::{IPV4_HEADER, IPV6_HEADER, Packet, Virtio},
    segment::{folded, sum},
};

/// Writes the response to `packet` into `out`, which is emptied first; whether there is one.
pub(super) fn answer(packet: &Packet<'_>, out: &mut Vec<u8>) -> bool {
    out.clear();
    let is_error = if packet.is_v4() {
        packet.ip[9] == ICMP && packet.ip.get(icmp_v4(packet)).is_none_or(|kind| *kind != ECHO)
    } else {
        packet.ip[6] == ICMP_V6 && packet.ip.get(IPV6_HEADER).is_none_or(|kind| *kind < ECHO_V6)
    };
    if is_error || packet.destination().is_multicast() || packet.source().is_unspecified() {
        return false;
    }
    out.extend_from_slice(&Virtio::default().bytes());
    let answer = if packet.is_v4() { answer_v4 } else { answer_v6 };
    answer(packet.ip, out);
    true
}

fn icmp_v4(packet: &Packet<'_>) -> usize {
    usize::from(packet.ip[0] & 15) * 4
}

fn answer_v4(packet: &[u8], out: &mut Vec<u8>) {
    let quoted = &packet[..packet.len().min(QUOTED_V4)];
    let start = out.len();
    let length = (IPV4_HEADER + ERROR_HEADER + quoted.len()) as u16;
    out.extend_from_slice(&[0x45, 0]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 0, HOPS, ICMP, 0, 0]);
    out.extend_from_slice(&packet[16..20]);
    out.extend_from_slice(&packet[12..16]);
    let ip = !folded(sum(&out[start..]));
    out[start + 10..start + 12].copy_from_slice(&ip.to_be_bytes());
    let icmp = out.len();
    out.extend_from_slice(&[UNREACHABLE, NO_NETWORK, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(quoted);
    let checksum = !folded(sum(&out[icmp..]));
    out[icmp + 2..icmp + 4].copy_from_slice(&checksum.to_be_bytes());
}

fn answer_v6(packet: &[u8], out: &mut Vec<u8>) {
    let quoted = &packet[..packet.len().min(QUOTED_V6)];
    let start = out.len();
    let length = (ERROR_HEADER + quoted.len()) as u16;
    out.extend_from_slice(&[0x60, 0, 0, 0]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[ICMP_V6, HOPS]);
    out.extend_from_slice(&packet[24..40]);
    out.extend_from_slice(&packet[8..24]);
    let icmp = out.len();
    out.extend_from_slice(&[UNREACHABLE_V6, NO_ROUTE, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(quoted);
    let pseudo = sum(&out[start + 8..start + 40]) + u32::from(length) + u32::from(ICMP_V6);
    let checksum = !folded(pseudo + sum(&out[icmp..]));
    out[icmp + 2..icmp + 4].copy_from_slice(&checksum.to_be_bytes());
}

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// Echo request of ICMP, which is no error.
const ECHO: u8 = 8;
/// First ICMPv6 type that is no error.
const ECHO_V6: u8 = 128;
const UNREACHABLE: u8 = 3;
const NO_NETWORK: u8 = 0;
const UNREACHABLE_V6: u8 = 1;
const NO_ROUTE: u8 = 0;
const ERROR_HEADER: usize = 8;
const HOPS: u8 = 64;
/// With its headers the response is at most 576 bytes long, as RFC 1812 recommends.
const QUOTED_V4: usize = 548;
/// With its headers the response fits the smallest IPv6 path, 1,280 bytes.
const QUOTED_V6: usize = 1_232;

#[cfg(test)]
mod tests {
    use super::{super::segment::tests::uncut, *};

    fn answered(frame: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        answer(&Packet::parse(frame, 0).unwrap(), &mut out).then_some(out)
    }

    #[test]
    fn the_answer_goes_back_and_its_checksums_are_right() {
        for v4 in [true, false] {
            let asked = uncut(v4, 2_000, 1_000);
            let frame = answered(&asked).unwrap();
            let (asked, told) =
                (Packet::parse(&asked, 0).unwrap(), Packet::parse(&frame, 0).unwrap());
            assert_eq!(told.destination(), asked.source());
            assert_eq!(told.source(), asked.destination());
            if v4 {
                assert_eq!(told.ip.len(), 576);
                assert_eq!(folded(sum(&told.ip[..20])), 0xffff);
                assert_eq!(folded(sum(&told.ip[20..])), 0xffff);
            } else {
                assert_eq!(told.ip.len(), 1_280);
                let pseudo = sum(&told.ip[8..40]) + 1_240 + u32::from(ICMP_V6);
                assert_eq!(folded(pseudo + sum(&told.ip[40..])), 0xffff);
            }
        }
    }

    #[test]
    fn nothing_is_said_about_errors_but_about_pings() {
        for v4 in [true, false] {
            let error = answered(&uncut(v4, 100, 100)).unwrap();
            assert_eq!(answered(&error), None, "an error about an error");
            let mut ping = error;
            let (at, kind) = if v4 { (30, ECHO) } else { (50, ECHO_V6) };
            ping[at] = kind;
            assert!(answered(&ping).is_some());
        }
    }
}
