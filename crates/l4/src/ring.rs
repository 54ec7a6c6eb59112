//! Which server a packet goes to when packets are forwarded, so that no flow moves.
//!
//! A flow's hash gives its position in the ring of the service, a Maglev table. Looking every flow
//! up in a table costs more than all the rest of forwarding (cache misses), so the ring alone
//! answers wherever it can. An [`Entry`] has
//!
//! - `current`: the server of connections that begin,
//! - `base`: the server of every flow that is not in the flow table,
//! - `recorded`: whether its flows are looked up, and written down where they are missing.
//!
//! ```text
//!             assign: the table gives the entry another server
//!  settled  ------------------------------------------------->  recorded
//!  current = base          the base stays                       every flow seen is written down
//!     ^                                                            |  recorded for `stale`
//!     |  no flow is on another server                              v
//!     +-------------------------------------------------------  base = current
//! ```
//!
//! Why no flow moves: in a settled entry all flows are on `current = base`. `assign` changes
//! `current` alone, which only connections that begin ask for, and they are written down. After
//! `stale` every flow that is alive has sent a packet, so it is written down, and the base, which
//! is for all others, may follow. An entry settles when all that is written down says the same as
//! the entry. What was written down must then be forgotten before the entry is recorded again: it
//! would speak for a later flow with the same ports.
//!
//! A packet that opens a connection can be told with TCP alone. With UDP a flow that begins in an
//! entry that has just changed is taken for an old one and follows the base.
//!
//! With `Affinity::Client` all that a client sends is one flow, known by its address, of which no
//! packet opens anything: another connection of it may be there already. A ring that rests keeps
//! clients together by itself; `stale` is then what `Affinity::lasts` says.
//!
//! Sources: Maglev (NSDI 2016) for the ring; Beamer (NSDI 2018) keeps the previous server of an
//! entry, Cheetah (NSDI 2020) avoids the table in the steady state, each in its own way.

use std::net::SocketAddr;

use loadline_core::{
    decide::policy::maglev,
    time::{Duration, Instant},
};

/// Entries of a ring, a prime.
pub const RING_SIZE: usize = maglev::TABLE_SIZE;

/// The largest number of a server; zero means none.
pub const SERVER_MAX: u16 = 0x7fff;

/// A member of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingServer {
    /// What its place in the ring depends on.
    pub address: SocketAddr,
    /// Its share, relative to the others'.
    pub weight: u32,
    /// What the ring calls it, from 1 to [`SERVER_MAX`].
    pub number: u16,
}

/// The Maglev table of these members: [`RING_SIZE`] numbers of servers, all zero where nobody has a
/// weight.
#[must_use]
pub fn table(members: &[RingServer]) -> Box<[u16]> {
    let members: Vec<&RingServer> = members.iter().filter(|member| member.weight > 0).collect();
    if members.is_empty() {
        return vec![0; RING_SIZE].into_boxed_slice();
    }
    let mut table = maglev::table(members.iter().map(|member| (member.address, member.weight)));
    table.iter_mut().for_each(|place| *place = members[usize::from(*place)].number);
    table
}

/// One entry of a ring, as it lies in the kernel: `current` in bits 0 to 14, `base` in bits 16 to
/// 30, `recorded` in bit 31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry(u32);

impl Entry {
    /// An entry whose flows are all on `server`.
    #[must_use]
    pub const fn settled(server: u16) -> Self {
        Self::new(server, server, false)
    }

    pub(crate) const fn new(current: u16, base: u16, recorded: bool) -> Self {
        let (current, base) = (current & SERVER_MAX, base & SERVER_MAX);
        Self((recorded as u32) << 31 | (base as u32) << 16 | current as u32)
    }

    /// The server of connections that begin.
    #[must_use]
    pub const fn current(self) -> u16 {
        self.0 as u16 & SERVER_MAX
    }

    /// The server of flows that are not in the flow table.
    #[must_use]
    pub const fn base(self) -> u16 {
        (self.0 >> 16) as u16 & SERVER_MAX
    }

    /// Whether the flow table is asked, and written.
    #[must_use]
    pub const fn is_recorded(self) -> bool {
        self.0 >> 31 == 1
    }

    /// The same entry where servers have other numbers.
    #[must_use]
    pub fn renumbered(self, number: impl Fn(u16) -> u16) -> Self {
        Self::new(number(self.current()), number(self.base()), self.is_recorded())
    }

    /// What [`Entry::to_bits`] gave.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// As it lies in the kernel.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// What the forwarder does with a packet. `flow` is what the flow table says, `opens` whether
    /// the packet begins a connection, `is_up` whether a server is there.
    ///
    /// `None` where no server is up. This is what `bpf/choose.h` does, as it is proved here.
    #[must_use]
    pub fn choose(
        self,
        flow: Option<u16>,
        opens: bool,
        is_up: impl Fn(u16) -> bool,
    ) -> Option<Choice> {
        let up = |server: u16| Some(server).filter(|server| is_up(*server));
        if !self.is_recorded() {
            return up(self.current()).map(|server| Choice { server, is_new: false });
        }
        if let Some(server) = flow.and_then(up) {
            return Some(Choice { server, is_new: false });
        }
        let base = if flow.is_none() && !opens { up(self.base()) } else { None };
        let server = base.or_else(|| up(self.current()))?;
        Some(Choice { server, is_new: true })
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Number of the server.
    pub server: u16,
    /// Whether the flow is to be written down with this server.
    pub is_new: bool,
}

/// The ring of one service with what must be known to change it.
#[derive(Debug)]
pub struct Ring {
    entries: Box<[Entry]>,
    /// Since when an entry is recorded without a break.
    since: Box<[Instant]>,
}

impl Ring {
    /// A ring of a service that has no flows yet. `table` has a number of a server for each entry.
    #[must_use]
    pub fn new(table: &[u16]) -> Self {
        let entries = table.iter().map(|server| Entry::settled(*server)).collect();
        Self { entries, since: vec![Instant::ZERO; table.len()].into_boxed_slice() }
    }

    /// A ring of a service that has been another's until now, exactly as it was there. What is
    /// recorded counts as recorded from now on: some flows may not have been told in time.
    #[must_use]
    pub fn resume(now: Instant, entries: &[Entry]) -> Self {
        Self { entries: entries.into(), since: vec![now; entries.len()].into_boxed_slice() }
    }

    /// The entries, for the forwarder.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Gives new connections to the servers of `table`, which has as many entries. Flows stay.
    pub fn assign(&mut self, now: Instant, table: &[u16]) {
        let slots = self.entries.iter_mut().zip(&mut self.since).zip(table);
        for ((entry, since), server) in slots {
            if entry.current() == *server {
                continue;
            }
            if !entry.is_recorded() {
                *since = now;
            }
            *entry = Entry::new(*server, entry.base(), true);
        }
    }

    /// Lets the base follow where every flow must have been seen, and gives up recording where
    /// nobody is elsewhere. `stale` is how long a flow may be silent and still count as alive, with
    /// what a packet may be under way inside the forwarder. `flows` are the position and server of
    /// all in the flow table that have not been silent for so long; they must have been read after
    /// the last change of this ring was in force.
    ///
    /// The positions returned have settled. When that is in force, and before the next `assign`,
    /// their flows are to be removed from the flow table.
    pub fn settle(
        &mut self,
        now: Instant,
        stale: Duration,
        flows: impl Iterator<Item = (u32, u16)>,
    ) -> Vec<u32> {
        let mut elsewhere = vec![false; self.entries.len()];
        for (position, server) in flows {
            if let Some(entry) = self.entries.get(position as usize) {
                elsewhere[position as usize] |= entry.current() != server;
            }
        }
        let mut settled = Vec::new();
        for (position, entry) in self.entries.iter_mut().enumerate() {
            if !entry.is_recorded() || now.since(self.since[position]) < stale {
                continue;
            }
            // The base that follows now may still be asked for by a packet on its way, so the
            // entry settles the next time at the earliest.
            if entry.base() != entry.current() {
                *entry = Entry::new(entry.current(), entry.current(), true);
            } else if !elsewhere[position] {
                *entry = Entry::settled(entry.current());
                settled.push(position as u32);
            }
        }
        settled
    }
}

#[cfg(test)]
mod tests;
