//! Several balancers, of which one is active and the others know its connections.
//!
//! Who is active is not decided here: it is who has the addresses of the services (`role`), which a
//! VRRP daemon moves (`keepalived`). The active tells what its tables hold (`active`), a standby
//! writes it into its own (`follower`), by datagrams that [`replication`](crate::replication) makes
//! and judges. Nothing here waits: what a socket does not take at once counts as lost, and is told
//! again.
//!
//! ```text
//!                  the addresses come: take over
//!  standby --------------------------------------------> active
//!     ^                                                    |
//!     '-------------- the addresses are gone --------------'
//! ```

mod active;
mod follower;
mod keepalived;
mod role;
mod seal;
mod wire;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::SystemTime,
};

use loadline_core::{
    state::{PeerCounts, Role, Standby as State, StandbyPeer},
    time::{Duration, Instant},
};
use thiserror::Error;

use crate::{datapath::Datapath, error::TableError, replication::Datagram};
use active::Active;
use follower::Follower;
pub use follower::Numbering;
pub use keepalived::VirtualRouter;
use seal::Side;
use wire::Wire;

/// Where the other balancers are, and what they have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Our end.
    pub bind: SocketAddr,
    /// Theirs.
    pub peers: Vec<SocketAddr>,
    /// A file with the key in its first line.
    pub key_file: PathBuf,
    /// The number of the virtual router.
    pub router: u8,
    /// Addresses that the active has, and nobody else.
    pub addresses: Vec<IpAddr>,
}

/// Why it cannot begin.
#[derive(Debug, Error)]
pub enum StandbyError {
    /// The key file cannot be read.
    #[error("cannot read the key of the standby, `{}`", path.display())]
    KeyFile {
        /// Where it should be.
        path: PathBuf,
        /// Why it is not.
        #[source]
        source: io::Error,
    },
    /// The key can be guessed.
    #[error(
        "the key in `{}` is shorter than 16 characters; make one: openssl rand -hex 32",
        path.display()
    )]
    KeyShort {
        /// Where it is.
        path: PathBuf,
    },
    /// The address is not ours, or taken.
    #[error("cannot listen on {address} for the other balancers")]
    Bind {
        /// Address that it was to listen on.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Whether the file at `path` has a key.
///
/// # Errors
/// [`StandbyError::KeyFile`], [`StandbyError::KeyShort`].
pub fn check_key(path: &Path) -> Result<(), StandbyError> {
    seal::Seal::read(path, 0).map(drop)
}

/// One balancer of several.
#[derive(Debug)]
pub struct Standby {
    wire: Wire,
    addresses: Vec<IpAddr>,
    /// Whether packets that come here are forwarded.
    is_attached: bool,
    part: Part,
    /// Since when it has its role.
    since: Instant,
    /// When the addresses are looked for again.
    due: Instant,
    /// What was told before this role, by peer.
    counts: Vec<PeerCounts>,
}

/// What a balancer does in its role.
#[derive(Debug)]
enum Part {
    Active(Active),
    Standby(Box<Follower>),
}

impl Standby {
    /// A balancer that stands by until it is found to have the addresses.
    ///
    /// # Errors
    /// There is no key, or the address cannot be bound.
    pub fn new(settings: &Settings) -> Result<Self, StandbyError> {
        let now = Datapath::now();
        Ok(Self {
            wire: Wire::bind(settings)?,
            addresses: settings.addresses.clone(),
            is_attached: true,
            part: Part::Standby(Box::new(Follower::new(draw()))),
            since: now,
            due: now,
            counts: vec![PeerCounts::default(); settings.peers.len()],
        })
    }

    /// The addresses that the active has are others from now on.
    pub fn watch(&mut self, addresses: Vec<IpAddr>) {
        self.addresses = addresses;
    }

    /// Packets that come here are forwarded from now on, or are not: who forwards none is not
    /// active, whatever addresses it has.
    pub const fn set_attached(&mut self, is_attached: bool) {
        self.is_attached = is_attached;
    }

    /// What it is.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self.part {
            Part::Active(_) => Role::Active,
            Part::Standby(_) => Role::Standby,
        }
    }

    /// Whether this balancer may change rings and forget flows: it is active, or nobody else has
    /// connections to break.
    #[must_use]
    pub fn is_free(&self) -> bool {
        match &self.part {
            Part::Active(_) => true,
            Part::Standby(follower) => follower.receiver().facts().is_empty(),
        }
    }

    /// These servers are as our own file says from now on, whatever the active says of them.
    pub fn claim(&mut self, is_ours: impl Fn(u16) -> bool) {
        if let Part::Standby(follower) = &mut self.part {
            follower.claim(is_ours);
        }
    }

    /// These numbers are nobody's any more.
    pub fn release(&mut self, is_free: impl Fn(u16) -> bool) {
        if let Part::Standby(follower) = &mut self.part {
            follower.release(is_free);
        }
    }

    /// The servers of ours that an active has told of, whose numbers are to stay.
    pub fn servers(&self) -> impl Iterator<Item = u16> {
        let follower = match &self.part {
            Part::Active(_) => None,
            Part::Standby(follower) => Some(follower),
        };
        follower.into_iter().flat_map(|follower| follower.servers())
    }

    /// Hears and tells what there is; servers that only the active knows are given a number by
    /// `number`. To be called every 10 ms or so. True where it has become active just now: rings
    /// are then to be resumed as the datapath has them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn turn(
        &mut self,
        datapath: &mut Datapath,
        number: Numbering<'_>,
    ) -> Result<bool, TableError> {
        let now = Datapath::now();
        let before = self.role();
        if now >= self.due {
            self.due = now + LOOK;
            let has_any = role::has_any(&self.addresses);
            let is_active = has_any.map(|it| it && self.is_attached);
            match is_active.map(|it| if it { Role::Active } else { Role::Standby }) {
                Some(role) if role != before => {
                    self.change_role(role, now, datapath, &mut *number)?;
                }
                _ => {}
            }
        }
        match &mut self.part {
            Part::Active(active) => {
                active.look(datapath)?;
                tell(active, &mut self.wire, now);
            }
            Part::Standby(follower) => {
                hear(follower, &mut self.wire, &mut self.counts, now);
                follower.write(datapath, number)?;
            }
        }
        Ok(before == Role::Standby && self.role() == Role::Active)
    }

    /// What it does.
    #[must_use]
    pub fn state(&self) -> State {
        let now = Datapath::now();
        let unplaced = match &self.part {
            Part::Active(_) => 0,
            Part::Standby(follower) => follower.unplaced(),
        };
        State {
            role: self.role(),
            role_s: now.since(self.since).as_secs_f64(),
            unplaced,
            refused: self.wire.refused,
            peers: (0..self.counts.len()).map(|peer| self.peer(peer, now)).collect(),
        }
    }

    fn peer(&self, peer: usize, now: Instant) -> StandbyPeer {
        let (link, lag, behind) = match &self.part {
            Part::Active(active) => active.link(peer, now),
            Part::Standby(follower) => follower.link(peer, now),
        };
        let at = &self.wire.peers()[peer];
        let mut counts = self.counts(peer);
        (counts.bytes_sent, counts.bytes_received) = (at.sent, at.received);
        StandbyPeer {
            address: at.address.to_string(),
            link,
            lag_s: lag.map(Duration::as_secs_f64),
            behind: behind.map(|facts| facts as u64),
            counts,
        }
    }

    /// What was told to a peer and heard of it, in all roles.
    fn counts(&self, peer: usize) -> PeerCounts {
        let mut counts = self.counts[peer];
        if let Part::Active(active) = &self.part {
            let sent = active.senders()[peer].sent();
            counts.records_sent += sent.records;
            counts.datagrams_sent += sent.datagrams;
            counts.datagrams_lost += sent.lost;
            counts.resynchronizations += sent.joins;
        }
        counts
    }

    fn change_role(
        &mut self,
        role: Role,
        now: Instant,
        datapath: &mut Datapath,
        number: Numbering<'_>,
    ) -> Result<(), TableError> {
        self.counts = (0..self.counts.len()).map(|peer| self.counts(peer)).collect();
        self.since = now;
        if role == Role::Standby {
            self.part = Part::Standby(Box::new(Follower::new(draw())));
            return Ok(());
        }
        if let Part::Standby(follower) = &mut self.part {
            hear(follower, &mut self.wire, &mut self.counts, now);
            follower.write(datapath, number)?;
        }
        datapath.forget_settled()?;
        datapath.take_over()?;
        let draws = self.counts.iter().map(|_| draw());
        self.part = Part::Active(Active::new(epoch(), draws));
        Ok(())
    }
}

/// Receives and sends for the active.
fn tell(active: &mut Active, wire: &mut Wire, now: Instant) {
    for _ in 0..AT_ONCE {
        let Some((peer, datagram)) = wire.receive(Side::Standby) else { break };
        if let Ok(datagram) = Datagram::read(datagram) {
            active.handle(now, peer, &datagram);
        }
    }
    for peer in 0..wire.peers().len() {
        // As many as one answer can speak of, and a few more.
        while let Some(datagram) = active.poll(now, peer) {
            wire.send(Side::Active, peer, datagram);
        }
    }
}

/// Receives and sends for a standby.
fn hear(follower: &mut Follower, wire: &mut Wire, counts: &mut [PeerCounts], now: Instant) {
    for _ in 0..AT_ONCE {
        let Some((peer, datagram)) = wire.receive(Side::Active) else { break };
        let Ok(datagram) = Datagram::read(datagram) else { continue };
        let before = follower.receiver().received();
        // What is of another version is not understood, and what it says is lost.
        let _ = follower.handle(now, peer, &datagram);
        let (after, counts) = (follower.receiver().received(), &mut counts[peer]);
        counts.records_received += after.records - before.records;
        counts.datagrams_received += after.datagrams - before.datagrams;
        counts.datagrams_lost += after.lost - before.lost;
        counts.resynchronizations += after.joins - before.joins;
    }
    while let Some((peer, datagram)) = follower.poll(now) {
        wire.send(Side::Standby, peer, datagram);
    }
}

/// A number that was never drawn before.
fn draw() -> u64 {
    let mut bytes = [0; 8];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => epoch(),
    }
}

/// The time of day, by which the balancer is known that became active last.
fn epoch() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| Duration::from_std(since).as_nanos())
}

/// How often the addresses are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Datagrams that are read in one turn.
const AT_ONCE: usize = 1_024;
