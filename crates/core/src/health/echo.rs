//! ICMP echo messages as bytes (RFC 792 for IPv4, RFC 4443 section 4 for IPv6).
//!
//! ```text
//! type 1 | code 1 | checksum 2 | identifier 2 | sequence 2 | token 8 | number 8 | filler 40
//! ```
//! Lengths are in bytes; all numbers stand in network order. An answer repeats everything but
//! the type and the checksum. Identifier and sequence have 16 bits each and are chosen by others
//! too, so the random token says that the message is ours, and the number says which.

use core::net::IpAddr;

/// What distinguishes the echo messages of one sender from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Whether it speaks ICMP for IPv6.
    v6: bool,
    /// The identifier it writes; none where the kernel writes its own and hands over only the
    /// answers to that.
    identifier: Option<u16>,
    /// Random, in every message.
    token: u64,
}

/// An answer to one of our messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The number of the request.
    pub number: u64,
    /// The length of the ICMP message.
    pub bytes: usize,
    /// How many routers more the answer could have passed; known where the kernel hands over the
    /// IP header.
    pub ttl: Option<u8>,
}

impl Sender {
    /// A sender to `peer`; the identifier is used where the kernel writes none, and the token is
    /// random.
    #[must_use]
    pub const fn new(peer: IpAddr, identifier: Option<u16>, token: u64) -> Self {
        Self { v6: peer.is_ipv6(), identifier, token }
    }

    /// The request with this number. The checksum is written for IPv4 alone: that of IPv6 covers
    /// the IP addresses too, and the kernel writes it.
    #[must_use]
    pub fn request(&self, number: u64) -> [u8; MESSAGE_BYTES] {
        let mut message = [0; MESSAGE_BYTES];
        message[0] = if self.v6 { 128 } else { 8 };
        message[4..6].copy_from_slice(&self.identifier.unwrap_or_default().to_be_bytes());
        message[6..8].copy_from_slice(&sequence(number).to_be_bytes());
        message[8..16].copy_from_slice(&self.token.to_be_bytes());
        message[16..24].copy_from_slice(&number.to_be_bytes());
        for (at, byte) in message.iter_mut().enumerate().skip(24) {
            *byte = at as u8;
        }
        if !self.v6 {
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        message
    }

    /// The answer that `packet` is, if it is one to a message of ours. `with_header` says that an
    /// IPv4 header stands before the message.
    #[must_use]
    pub fn reply(&self, packet: &[u8], with_header: bool) -> Option<Reply> {
        let (ttl, message) = if with_header { split_header(packet)? } else { (None, packet) };
        let answer = [if self.v6 { 129 } else { 0 }, 0];
        let number = u64::from_be_bytes(message.get(16..24)?.try_into().ok()?);
        let ours = message.starts_with(&answer)
            && self.identifier.is_none_or(|ours| message[4..6] == ours.to_be_bytes())
            && message[6..8] == sequence(number).to_be_bytes()
            && message[8..16] == self.token.to_be_bytes();
        ours.then_some(Reply { number, bytes: message.len(), ttl })
    }
}

/// The low 16 bits: the sequence begins again after 65536 messages, the number does not.
fn sequence(number: u64) -> u16 {
    (number & 0xFFFF) as u16
}

/// The time to live, and what follows the IPv4 header.
fn split_header(packet: &[u8]) -> Option<(Option<u8>, &[u8])> {
    let words = usize::from(packet.first()? & 0x0F);
    Some((Some(*packet.get(8)?), packet.get(words * 4..)?))
}

/// The internet checksum (RFC 1071): the complement of the sum of all 16-bit words, carries added
/// again. The message has an even length.
fn checksum(message: &[u8]) -> u16 {
    let words = message.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let mut sum: u32 = words.map(u32::from).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// The length of a message, as ping sends: 8 of header and 56 of data.
pub const MESSAGE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};
    use proptest::prelude::*;

    const V4: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(core::net::Ipv6Addr::LOCALHOST);

    /// What a host answers to a message.
    fn answered(mut message: [u8; MESSAGE_BYTES]) -> [u8; MESSAGE_BYTES] {
        message[0] = if message[0] == 8 { 0 } else { 129 };
        message
    }

    #[test]
    fn the_answer_to_a_request_is_known_by_its_number() {
        for peer in [V4, V6] {
            let sender = Sender::new(peer, Some(7), 42);
            let answer = answered(sender.request(70_001));
            let reply = Reply { number: 70_001, bytes: 64, ttl: None };
            assert_eq!(sender.reply(&answer, false), Some(reply), "{peer}");
        }
    }

    #[test]
    fn requests_and_answers_to_others_are_not_ours() {
        let ours = Sender::new(V4, Some(7), 42);
        assert_eq!(ours.reply(&ours.request(1), false), None, "our own request, on the loopback");
        for other in [Sender::new(V4, Some(8), 42), Sender::new(V4, Some(7), 43)] {
            assert_eq!(ours.reply(&answered(other.request(1)), false), None, "{other:?}");
        }
        let mut answer = answered(ours.request(1));
        answer[7] = 2;
        assert_eq!(ours.reply(&answer, false), None, "a sequence that is not that of the number");
    }

    #[test]
    fn an_identifier_that_the_kernel_wrote_is_its_business() {
        let mut answer = answered(Sender::new(V4, None, 42).request(1));
        answer[4..6].copy_from_slice(&[0xAB, 0xCD]);
        assert!(Sender::new(V4, None, 42).reply(&answer, false).is_some());
    }

    #[test]
    fn the_header_of_ipv4_tells_the_time_to_live() {
        let sender = Sender::new(V4, Some(7), 42);
        let mut packet = vec![0; 24];
        (packet[0], packet[8]) = (0x46, 56);
        packet.extend(answered(sender.request(3)));
        let reply = Reply { number: 3, bytes: 64, ttl: Some(56) };
        assert_eq!(sender.reply(&packet, true), Some(reply));
    }

    #[test]
    fn the_checksum_of_a_message_with_its_checksum_is_zero() {
        let message = Sender::new(V4, Some(7), 0xFFFF_FFFF_FFFF_FFFF).request(65_535);
        assert_eq!(checksum(&message), 0);
    }

    proptest! {
        #[test]
        fn no_packet_panics(packet: Vec<u8>, v6: bool, header: bool) {
            let peer = if v6 { V6 } else { V4 };
            prop_assert_eq!(Sender::new(peer, Some(7), 42).reply(&packet, header), None);
        }
    }
}
