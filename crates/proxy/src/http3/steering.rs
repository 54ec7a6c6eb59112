//! Which socket of a listener a packet belongs to, told by its connection id.
//!
//! The UDP sockets of a listener are one SO_REUSEPORT group, `slots` of them for each of some
//! *generations*: processes that follow one another (see [`sockets`](super::sockets)). The kernel
//! gives each packet to the socket whose index the program of the group returns. With an id of
//! six bytes `a` (32 bits) and `b` (16 bits) or more, a secret odd `k`, and all arithmetic in 32
//! bits:
//!
//! ```text
//! v = ((a * k) >> 16) xor b
//! Initial, 0-RTT:    present generation * slots + v mod slots
//! everything else:   v mod (slots * generations)
//! ```
//!
//! An id that we gave out has its generation and slot in `v`, so that all packets of a connection
//! come to one socket, whatever address they come from. An id that a client drew falls to any
//! slot, always the same, and `v mod slots` says the same of both kinds. Who does not know `k`
//! does not see which ids belong to one socket; it is an obstacle, not encryption.
//!
//! The last two bytes of an id are random, or the number of this edge where the file gives it one:
//! a balancer in front that forwards packets finds the edge by it (`l4/bpf/choose.h`).

use std::time::Duration;

use aws_lc_rs::{error::Unspecified, rand};
use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JEQ, BPF_JMP,
    BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MEM, BPF_MOD, BPF_MUL, BPF_RET, BPF_RSH, BPF_ST, BPF_W,
    BPF_X, BPF_XOR, sock_filter,
};
use quinn::{ConnectionId, ConnectionIdGenerator};

/// How packets find the sockets of one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steering {
    key: u32,
    /// Sockets of each generation.
    slots: u32,
    generations: u32,
}

impl Steering {
    /// For a group of `generations` times `slots` sockets, neither of which is 0; their product is
    /// at most 2^16.
    pub(super) const fn new(key: u32, slots: u32, generations: u32) -> Self {
        Self { key: key | 1, slots, generations }
    }

    /// What an id says of its socket.
    const fn value(self, [a, b, c, d, e, f, ..]: [u8; ID_LEN]) -> u32 {
        let mixed = u32::from_be_bytes([a, b, c, d]).wrapping_mul(self.key) >> 16;
        mixed ^ u32::from_be_bytes([0, 0, e, f])
    }

    /// The program for the group, by which clients that are new come to the sockets of
    /// `generation`. A packet too short for an id goes to the first socket of all.
    pub(super) fn program(self, generation: u32) -> Vec<sock_filter> {
        let all = self.slots * self.generations;
        vec![
            // X is where the id begins: behind the first byte, or version and length as well.
            step(BPF_LDX | BPF_IMM, 1),
            step(BPF_LD | BPF_B | BPF_ABS, 0),
            jump(BPF_JSET, LONG, [0, 1]),
            step(BPF_LDX | BPF_IMM, 6),
            step(BPF_LD | BPF_W | BPF_IND, 0),
            step(BPF_ALU | BPF_MUL | BPF_K, self.key),
            step(BPF_ALU | BPF_RSH | BPF_K, 16),
            step(BPF_ST, 0),
            step(BPF_LD | BPF_H | BPF_IND, 4),
            step(BPF_LDX | BPF_MEM, 0),
            step(BPF_ALU | BPF_XOR | BPF_X, 0),
            step(BPF_ST, 1),
            step(BPF_LD | BPF_B | BPF_ABS, 0),
            step(BPF_ALU | BPF_AND | BPF_K, LONG | NOT_FIRST),
            jump(BPF_JEQ, LONG, [0, 4]),
            step(BPF_LD | BPF_MEM, 1),
            step(BPF_ALU | BPF_MOD | BPF_K, self.slots),
            step(BPF_ALU | BPF_ADD | BPF_K, generation * self.slots),
            step(BPF_RET | BPF_A, 0),
            step(BPF_LD | BPF_MEM, 1),
            step(BPF_ALU | BPF_MOD | BPF_K, all),
            step(BPF_RET | BPF_A, 0),
        ]
    }

    /// What gives out ids for the socket at `slot` of `generation`.
    pub(super) const fn ids(self, slot: u32, generation: u32) -> Ids {
        Ids { steering: self, index: generation * self.slots + slot, server: None }
    }
}

/// Gives out the ids of one socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    steering: Steering,
    /// Index of the socket in its group.
    index: u32,
    /// The number of this edge.
    server: Option<u16>,
}

impl Ids {
    /// The same with the number of this edge in each.
    pub(super) const fn of_server(self, server: Option<u16>) -> Self {
        Self { server, ..self }
    }

    /// An id made of random bytes.
    fn made(self, id: [u8; ID_LEN], draw: u32) -> [u8; ID_LEN] {
        let all = self.steering.slots * self.steering.generations;
        let values = (VALUES - self.index).div_ceil(all);
        let value = self.index + all * (draw % values);
        let [a, b, c, d, _, _, g, h] = id;
        let [g, h] = self.server.map_or([g, h], u16::to_be_bytes);
        let [.., e, f] = (self.steering.value([a, b, c, d, 0, 0, g, h]) ^ value).to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let (mut id, mut draw) = ([0; ID_LEN], [0; 4]);
        let drawn: Result<(), Unspecified> =
            rand::fill(&mut id).and_then(|()| rand::fill(&mut draw));
        drawn.expect("the system has random bytes");
        ConnectionId::new(&self.made(id, u32::from_be_bytes(draw)))
    }

    fn cid_len(&self) -> usize {
        ID_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

pub(super) const fn step(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Goes on so many steps further where the test of `k` succeeds, and where it fails.
pub(super) const fn jump(test: u32, k: u32, [jt, jf]: [u8; 2]) -> sock_filter {
    sock_filter { code: (BPF_JMP | test | BPF_K) as u16, jt, jf, k }
}

/// In the first byte of a packet with a long header (RFC 9000, 17.2).
const LONG: u32 = 0x80;

/// In the first byte of Handshake and Retry packets, not of Initial and 0-RTT.
const NOT_FIRST: u32 = 0x20;

/// Bytes of the ids that we give out.
const ID_LEN: usize = 8;

/// How many values an id can have.
const VALUES: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn draws() -> impl Iterator<Item = ([u8; ID_LEN], u32)> {
        (0_u64..5_000).map(|index| {
            let drawn = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (drawn.to_be_bytes(), (drawn >> 7) as u32)
        })
    }

    #[test]
    fn an_id_says_its_socket_whatever_else_is_in_it() {
        for (slots, generations) in [(1, 1), (2, 4), (3, 4), (256, 4), (1_000, 4)] {
            let steering = Steering::new(0x1234_5678, slots, generations);
            for (id, draw) in draws() {
                let slot = draw % slots;
                let ids = steering.ids(slot, 1 % generations);
                let value = steering.value(ids.made(id, draw));
                assert_eq!(value % (slots * generations), ids.index);
                assert_eq!(value % slots, slot);
            }
        }
    }

    #[test]
    fn an_id_has_the_number_of_its_edge_in_the_last_two_bytes() {
        let ids = Steering::new(0x1234_5678, 2, 4).ids(1, 3).of_server(Some(0x0107));
        for (id, draw) in draws() {
            let made = ids.made(id, draw);
            assert_eq!(made[6..], [1, 7]);
            assert_eq!(ids.steering.value(made) % 8, ids.index, "and still says its socket");
        }
    }

    #[test]
    fn the_ids_of_clients_fall_to_all_sockets_alike() {
        let steering = Steering::new(0x1234_5678, 5, 4);
        let mut counts = [0; 5];
        for (id, _) in draws() {
            counts[(steering.value(id) % 5) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
