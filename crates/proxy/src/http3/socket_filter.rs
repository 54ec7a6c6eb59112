//! A socket filter (classic BPF, no privilege needed) that drops first packets of new clients.
//!
//! What a first packet is, is said in [`first_packets`](super::first_packets): a long header, and
//! another version than 1, or an Initial. Those with a token are told apart from all others.

use std::{io, net::UdpSocket};

use libc::{
    BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JSET, BPF_K, BPF_LD, BPF_MISC,
    BPF_RET, BPF_TAX, BPF_W, BPF_X, SKF_AD_OFF, SKF_AD_RANDOM, sock_filter,
};
use socket2::{SockFilter, SockRef};

use super::steering::{jump, step};

/// Lets so many of 2^32 first packets through to a socket, without a token and with one, by chance;
/// all without numbers.
///
/// # Errors
/// The kernel's.
pub(super) fn limit_first_packets(socket: &UdpSocket, shares: Option<[u32; 2]>) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match shares {
        Some(shares) => {
            let steps = program(shares);
            socket.attach_filter(&steps.map(|it| SockFilter::new(it.code, it.jt, it.jf, it.k)))
        }
        None => match socket.detach_filter() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        },
    }
}

/// What it reads begins with the UDP header. A packet that is too short for what is looked for is
/// none of QUIC and is dropped.
fn program([no_token, token]: [u32; 2]) -> [sock_filter; 20] {
    let [accept, drop] = [u32::MAX, 0];
    let random = SKF_AD_OFF.wrapping_add(SKF_AD_RANDOM).cast_unsigned();
    [
        step(BPF_LD | BPF_B | BPF_ABS, FIRST),
        jump(BPF_JSET, LONG, [0, 16]),
        step(BPF_LD | BPF_W | BPF_ABS, FIRST + 1),
        jump(BPF_JEQ, VERSION_1, [0, 10]),
        step(BPF_LD | BPF_B | BPF_ABS, FIRST),
        jump(BPF_JSET, NOT_INITIAL, [12, 0]),
        // X is where the length of the source id is, and then that of what is before the token's.
        step(BPF_LD | BPF_B | BPF_ABS, FIRST + 5),
        step(BPF_ALU | BPF_ADD | BPF_K, FIRST + 6),
        step(BPF_MISC | BPF_TAX, 0),
        step(BPF_LD | BPF_B | BPF_IND, 0),
        step(BPF_ALU | BPF_ADD | BPF_X, 0),
        step(BPF_MISC | BPF_TAX, 0),
        step(BPF_LD | BPF_B | BPF_IND, 1),
        jump(BPF_JEQ, 0, [0, 2]),
        step(BPF_LD | BPF_W | BPF_ABS, random),
        jump(BPF_JGE, no_token, [3, 2]),
        step(BPF_LD | BPF_W | BPF_ABS, random),
        jump(BPF_JGE, token, [1, 0]),
        step(BPF_RET | BPF_K, accept),
        step(BPF_RET | BPF_K, drop),
    ]
}

/// Where the packet of QUIC begins, behind the UDP header.
const FIRST: u32 = 8;

/// In the first byte of a packet with a long header (RFC 9000, 17.2).
const LONG: u32 = 0x80;
const VERSION_1: u32 = 1;

/// Bits of the first byte of a packet with a long header that is not an Initial.
const NOT_INITIAL: u32 = 0x30;
