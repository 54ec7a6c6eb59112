//! Maglev hashing: the same key to the same server, on every edge and across changes.
//!
//! A table of [`TABLE_SIZE`] entries gives each entry a server; a key belongs to the server at
//! `hash(key) * TABLE_SIZE / 2^64`. To fill the table the servers take turns, each taking the next
//! free entry of its own permutation `(offset + n * skip) mod TABLE_SIZE`, with offset and skip
//! from a hash of its address. A server of weight `w` takes its turn in `w / w_max` of the rounds.
//! So the table depends on addresses and weights alone: not on the order of the file, not on the
//! edge, not on the time.
//!
//! When one of `n` equal servers leaves, its `1 / n` of the keys move and about 0.5 % of the
//! others. When the server of a key is closed (full, tried), the key is hashed again and again, so
//! that the keys of one server go evenly to all others. (The entries that follow a server's own
//! are not even: with 5 servers some took over twice as many as others.) When all are full nobody
//! is chosen.
//!
//! Not where keys are of unequal heat: a hot key loads its server whatever it has to do; use
//! bounded hash. Not where the servers keep nothing per key: least requests balances better.
//!
//! Source: Eisenbud et al., Maglev, NSDI 2016; weights as in Envoy's `MaglevTable` and Katran.

use alloc::{boxed::Box, vec, vec::Vec};
use core::{
    iter::successors,
    net::{IpAddr, SocketAddr},
};

use crate::decide::{
    plan::ServerPlan,
    policy::{
        About,
        draw::{part, splitmix64},
    },
};

pub(super) const ABOUT: About = About {
    name: "maglev",
    meaning: "Maglev hashing of what `hash` names.",
    hashes: true,
    ..About::PLAIN
};

/// A table from keys to places.
#[derive(Debug)]
pub(crate) struct Maglev {
    table: Box<[u16]>,
}

impl Maglev {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        Self { table: table(servers.iter().map(|one| (one.state.address(), one.weight))) }
    }

    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        key: u64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let mut preferred = self.preferred(servers, key);
        preferred.find(|server| open(server)).or_else(|| {
            let (before, after) =
                servers.split_at(part(splitmix64(key), servers.len() as u64) as usize);
            after.iter().chain(before).find(|server| open(server))
        })
    }

    /// The servers to try for a key, the best first, not all different.
    pub(super) fn preferred<'a>(
        &self,
        servers: &'a [ServerPlan],
        key: u64,
    ) -> impl Iterator<Item = &'a ServerPlan> {
        // Hashed from the first on, because nobody vouches that the upper bits of a key are as
        // good as the lower ones.
        let hashes = successors(Some(splitmix64(key)), |hash| Some(splitmix64(*hash)));
        hashes.take(PROBES_MAX).map(|hash| {
            let entry = part(hash, self.table.len() as u64) as usize;
            &servers[usize::from(self.table[entry])]
        })
    }
}

/// A server while the table is filled.
struct Taker {
    address: SocketAddr,
    place: u16,
    weight: u64,
    /// What it has taken, in entries times the largest weight.
    taken: u64,
    /// The next entry of its permutation.
    next: u32,
    skip: u32,
}

impl Taker {
    fn new(place: usize, (address, weight): (SocketAddr, u32)) -> Self {
        let hash = hash(address);
        Self {
            address,
            place: place as u16,
            weight: u64::from(weight),
            taken: 0,
            next: part(hash, TABLE_SIZE as u64) as u32,
            skip: part(splitmix64(hash), TABLE_SIZE as u64 - 1) as u32 + 1,
        }
    }

    /// Takes the next free entry; there must be one.
    fn take(&mut self, used: &mut [u64]) -> usize {
        loop {
            let entry = self.next as usize;
            let after = self.next + self.skip;
            self.next = if after >= TABLE_SIZE as u32 { after - TABLE_SIZE as u32 } else { after };
            let (word, bit) = (entry / 64, 1 << (entry % 64));
            if used[word] & bit == 0 {
                used[word] |= bit;
                return entry;
            }
        }
    }
}

/// The table for servers and their weights, of which at least one is not zero: places in the order
/// given.
#[must_use]
pub fn table(servers: impl Iterator<Item = (SocketAddr, u32)>) -> Box<[u16]> {
    let mut takers: Vec<Taker> =
        servers.enumerate().map(|(place, server)| Taker::new(place, server)).collect();
    takers.sort_unstable_by_key(|taker| taker.address);
    fill(&mut takers)
}

fn fill(takers: &mut [Taker]) -> Box<[u16]> {
    let mut table = vec![0; TABLE_SIZE].into_boxed_slice();
    // The entries in use, a bit each, so that the search stays in the nearest cache.
    let mut used = [0; TABLE_SIZE.div_ceil(64)];
    let heaviest = takers.iter().map(|taker| taker.weight).max().unwrap_or(1);
    let mut free = TABLE_SIZE;
    for round in 1.. {
        for taker in takers.iter_mut().filter(|taker| round * taker.weight >= taker.taken) {
            taker.taken += heaviest;
            table[taker.take(&mut used)] = taker.place;
            free -= 1;
            if free == 0 {
                return table;
            }
        }
    }
    table
}

/// A hash of the address that is the same on every machine.
fn hash(address: SocketAddr) -> u64 {
    let bits = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let upper = splitmix64((bits >> 64) as u64);
    splitmix64(splitmix64(upper ^ bits as u64) ^ u64::from(address.port()))
}

/// A prime, so that every skip makes a permutation; the paper's smaller size.
pub const TABLE_SIZE: usize = 65_537;

/// With nine of ten servers closed, one request in a thousand has to look at all of them.
const PROBES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{assert_shares, counts, draws, everyone, servers};

    fn spread(table: &[u16], len: usize) -> Vec<usize> {
        let mut entries = vec![0; len];
        table.iter().for_each(|place| entries[usize::from(*place)] += 1);
        entries
    }

    /// Parts of the table that changed: all of it, and what did not belong to those who left.
    fn disruption(len: usize, gone: usize) -> (f64, f64) {
        let before = servers(&vec![1; len]);
        let after: Vec<_> = servers(&vec![1; len]).into_iter().skip(gone).collect();
        let (old, new) = (Maglev::new(&before), Maglev::new(&after));
        let pairs = old.table.iter().zip(&new.table);
        let pairs =
            pairs.map(|(old, new)| (before[usize::from(*old)].index, &after[usize::from(*new)]));
        let changed = pairs.filter(|(old, new)| *old != new.index);
        let (all, stayed) = changed.fold((0, 0), |(all, stayed), (old, _)| {
            (all + 1, stayed + usize::from(usize::from(old) >= gone))
        });
        (all as f64 / TABLE_SIZE as f64, stayed as f64 / TABLE_SIZE as f64)
    }

    #[test]
    fn equal_servers_have_equally_many_entries_but_for_one() {
        for len in [1, 3, 10, 100, 1_000] {
            let entries = spread(&Maglev::new(&servers(&vec![1; len])).table, len);
            let (least, most) = (entries.iter().min(), entries.iter().max());
            let (least, most) = (*least.unwrap(), *most.unwrap());
            assert!(least == TABLE_SIZE / len && most - least <= 1, "{len}: {least} to {most}");
        }
    }

    #[test]
    fn entries_are_in_proportion_to_weights() {
        let weights = [100, 200, 50, 1_000, 1];
        let entries = spread(&Maglev::new(&servers(&weights)).table, 5);
        for (entries, weight) in entries.iter().zip(weights) {
            let expected = TABLE_SIZE as f64 * f64::from(weight) / 1_351.0;
            assert!(libm::fabs(*entries as f64 - expected) < 3.0, "{entries} for {weight}");
        }
    }

    /// The bounds are those of a simulation over several removals, with a fifth on top.
    #[test]
    fn few_keys_move_but_those_of_who_left() {
        for (len, gone, all, stayed) in
            [(10, 1, 0.1031, 0.0034), (100, 1, 0.0154, 0.0054), (100, 5, 0.0589, 0.0094)]
        {
            let (moved, needlessly) = disruption(len, gone);
            assert!(moved < all * 1.2, "{len} without {gone}: {moved} moved");
            assert!(needlessly < stayed * 1.2, "{len} without {gone}: {needlessly} needlessly");
        }
    }

    #[test]
    fn the_order_of_the_file_does_not_matter() {
        let forth = servers(&[3, 1, 2, 5]);
        let back: Vec<_> = servers(&[3, 1, 2, 5]).into_iter().rev().collect();
        let (one, other) = (Maglev::new(&forth), Maglev::new(&back));
        for key in draws().take(1_000) {
            let (one, other) =
                (one.choose(&forth, key, everyone), other.choose(&back, key, everyone));
            assert_eq!(one.unwrap().state.address(), other.unwrap().state.address());
        }
    }

    #[test]
    fn the_keys_of_a_closed_server_go_evenly_to_the_others_and_no_other_moves() {
        let servers = servers(&[1; 5]);
        let policy = Maglev::new(&servers);
        let mut taken_over = [0.0; 5];
        for key in draws().take(40_000) {
            let preferred = policy.choose(&servers, key, everyone).unwrap();
            let now = policy.choose(&servers, key, |server| server.index != 2).unwrap();
            assert!(preferred.index == 2 || preferred.index == now.index);
            taken_over[usize::from(now.index)] += f64::from(u8::from(preferred.index == 2));
        }
        assert_shares(&taken_over, &[1.0, 1.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn keys_that_differ_in_few_bits_are_spread_all_the_same() {
        let servers = servers(&[1; 4]);
        let policy = Maglev::new(&servers);
        let mut key = 0;
        let counts = counts(4, |_| {
            key += 1;
            policy.choose(&servers, key, everyone)
        });
        assert_shares(&counts, &[1.0; 4]);
    }

    #[test]
    fn the_one_open_server_is_found() {
        let servers = servers(&[1; 1_000]);
        let policy = Maglev::new(&servers);
        let found = policy.choose(&servers, 3, |server| server.index == 700);
        assert_eq!(found.map(|server| server.index), Some(700));
        assert!(policy.choose(&servers, 3, |_| false).is_none());
    }
}
