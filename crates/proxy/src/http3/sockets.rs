//! The UDP sockets of a listener, and which process and worker reads which.
//!
//! They are one SO_REUSEPORT group: a socket for each worker, in [`GENERATIONS`] sets. Whoever
//! serves *holds* one generation. A process that follows another is given all sockets, takes a
//! generation that nobody holds, and has the kernel send new clients there; packets of older
//! connections still come to the sockets of the older process, by the generation in their ids
//! ([`steering`](super::steering)). All are bound at the start, while the process may still bind
//! low ports, and none is closed before its last process ends, since the group counts them by
//! their order.
//!
//! Holding is keeping the write end of a pipe open: the read end, which is passed on, tells every
//! other process, however the holder ended. A reload that switches HTTP/3 off and on takes another
//! generation as well, so that two endpoints never read one socket.
//!
//! Where the kernel takes no program there is one socket and one generation, and a process waits
//! until the one before it has ended.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use aws_lc_rs::{
    hkdf::{HKDF_SHA256, Prk, Salt},
    rand,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::steering::{Ids, Steering};
use crate::listener::{bounds::QUIC_PACKETS, syscalls::steer};

/// The UDP sockets of a listener.
#[derive(Debug)]
pub(crate) struct QuicSockets {
    address: SocketAddr,
    /// Of each generation.
    slots: usize,
    group: Mutex<Option<Group>>,
}

/// Sockets that are bound.
#[derive(Debug)]
struct Group {
    secret: [u8; 32],
    generations: Vec<Generation>,
    /// The lease of this process.
    current: Weak<Lease>,
    /// The same, until a worker has it.
    reserved: Option<Arc<Lease>>,
}

/// The UDP sockets of a listener, for whoever takes them over.
#[derive(Clone, Debug)]
pub struct HandoverQuic {
    /// What ids and tokens are made with.
    pub secret: [u8; 32],
    /// All generations.
    pub generations: Vec<Generation>,
}

/// The sockets of one generation.
#[derive(Clone, Debug)]
pub struct Generation {
    /// In the order of the workers.
    pub sockets: Vec<Arc<UdpSocket>>,
    /// Closed at its other end when nobody holds the generation; none where nobody ever has.
    pub held: Option<Arc<OwnedFd>>,
}

/// A generation that this process holds. Dropped when the last endpoint has let go of it.
#[derive(Debug)]
pub(super) struct Lease {
    generation: usize,
    sockets: Vec<Arc<UdpSocket>>,
    /// The write end.
    _held: OwnedFd,
}

/// What one endpoint is made of.
pub(super) struct Joined {
    pub(super) lease: Arc<Lease>,
    pub(super) socket: Arc<UdpSocket>,
    pub(super) ids: Ids,
    /// What address tokens are made with.
    pub(super) tokens: Prk,
}

impl QuicSockets {
    /// Sockets at `address` for so many workers; not bound yet.
    pub(crate) const fn new(address: SocketAddr, slots: usize) -> Self {
        Self { address, slots, group: Mutex::new(None) }
    }

    /// Sockets of the process before; none where there are none in `passed`.
    pub(crate) fn passed_on(address: SocketAddr, passed: HandoverQuic) -> Option<Self> {
        let HandoverQuic { secret, generations } = passed;
        let slots = generations.first()?.sockets.len();
        let is_even = generations.iter().all(|it| it.sockets.len() == slots);
        let group = Group { secret, generations, current: Weak::new(), reserved: None };
        (slots > 0 && is_even).then(|| Self { address, slots, group: Mutex::new(Some(group)) })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many endpoints there may be.
    pub(crate) const fn slots(&self) -> usize {
        self.slots
    }

    /// The sockets, for a process that is to follow this one; none while they are not bound.
    pub(crate) fn pass_on(&self) -> Option<HandoverQuic> {
        let group = self.lock();
        let Group { secret, generations, .. } = group.as_ref()?;
        Some(HandoverQuic { secret: *secret, generations: generations.clone() })
    }

    /// Binds what is not bound.
    ///
    /// # Errors
    /// The kernel's. A port that another process has is in use, even if that process shares it.
    pub(crate) fn open(&self) -> io::Result<()> {
        let mut group = self.lock();
        if group.is_none() {
            *group = Some(Group::bind(self.address, self.slots)?);
        }
        Ok(())
    }

    /// Has new clients come here from now on; they wait until workers read. Where it fails, a
    /// worker tries again.
    pub(crate) fn reserve(&self) {
        if let Some(group) = self.lock().as_mut()
            && group.current.strong_count() == 0
        {
            group.reserved = group.hold().ok();
        }
    }

    /// What the endpoint at `slot` is made of; none where there is no socket for it.
    ///
    /// # Errors
    /// The kernel's, and `AddrInUse` while processes before this one hold every generation.
    pub(super) fn join(&self, slot: usize) -> io::Result<Option<Joined>> {
        self.open()?;
        let mut group = self.lock();
        let Some(group) = group.as_mut() else { return Ok(None) };
        let lease = match group.reserved.take().or_else(|| group.current.upgrade()) {
            Some(lease) => lease,
            None => group.hold()?,
        };
        let Some(socket) = lease.sockets.get(slot) else { return Ok(None) };
        let ids = group.steering().ids(number(slot), number(lease.generation));
        let tokens = Salt::new(HKDF_SHA256, &[]).extract(&group.secret);
        Ok(Some(Joined { socket: socket.clone(), lease, ids, tokens }))
    }

    /// Whether new clients come to the sockets of `lease`.
    pub(super) fn is_current(&self, lease: &Arc<Lease>) -> bool {
        self.lock().as_ref().is_some_and(|group| group.current.as_ptr() == Arc::as_ptr(lease))
    }

    /// Takes no more clients in at the sockets of `lease`; connections there go on.
    pub(super) fn leave(&self, lease: &Arc<Lease>) {
        if let Some(group) = self.lock().as_mut()
            && group.current.as_ptr() == Arc::as_ptr(lease)
        {
            group.current = Weak::new();
        }
    }

    /// Has no clients wait for workers who cannot serve them.
    pub(super) fn unreserve(&self) {
        if let Some(group) = self.lock().as_mut() {
            group.reserved = None;
        }
    }

    /// Closes the sockets where nobody serves: clients are told at once that nobody is there.
    pub(super) fn close_idle(&self) {
        let mut group = self.lock();
        if group.as_ref().is_some_and(|group| !group.generations.iter().any(Generation::is_held)) {
            *group = None;
        }
    }

    /// Lets new clients come here again, after a process that was to follow did not serve.
    pub(crate) fn reclaim(&self) {
        let group = self.lock();
        let Some(group) = group.as_ref() else { return };
        let Some(lease) = group.current.upgrade() else { return };
        if let Err(error) = group.direct_to(lease.generation) {
            tracing::warn!(address = %self.address, %error, "HTTP/3 takes no new clients");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Group>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    /// Sockets that are steered, or one where they cannot be.
    fn bind(address: SocketAddr, slots: usize) -> io::Result<Self> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| io::Error::other("no random bytes"))?;
        // Who shares a port does not see who else has it. Where that is a listener of version 4,
        // `[::]` is left the other version.
        let only_v6 = match alone(address, false) {
            Err(error) if address.is_ipv6() && error.kind() == io::ErrorKind::AddrInUse => true,
            free => free.map(|_| false)?,
        };
        if only_v6 {
            alone(address, only_v6)?;
        }
        let generation = || -> io::Result<Generation> {
            let sockets = (0..slots).map(|_| Ok(Arc::new(shared(address, only_v6)?)));
            Ok(Generation { sockets: sockets.collect::<io::Result<_>>()?, held: None })
        };
        let generations = (0..GENERATIONS).map(|_| generation()).collect::<io::Result<_>>()?;
        let mut group = Self { secret, generations, current: Weak::new(), reserved: None };
        if let Err(error) = group.direct_to(0) {
            tracing::warn!(
                %address, %error,
                "the kernel does not distribute QUIC by connection id: one worker serves all of it"
            );
            group.generations.clear();
            let sockets = vec![Arc::new(alone(address, only_v6)?)];
            group.generations.push(Generation { sockets, held: None });
        }
        Ok(group)
    }

    /// Holds a generation that nobody holds, and has new clients come to it.
    fn hold(&mut self) -> io::Result<Arc<Lease>> {
        let free = self.generations.iter().position(|generation| !generation.is_held());
        let index = free.ok_or_else(|| {
            io::Error::new(io::ErrorKind::AddrInUse, "connections of processes before are left")
        })?;
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        self.direct_to(index)?;
        let generation = &mut self.generations[index];
        generation.held = Some(Arc::new(read));
        let sockets = generation.sockets.clone();
        let size = usize::try_from(QUIC_PACKETS.get()).unwrap_or(usize::MAX);
        for socket in &sockets {
            // The kernel takes as much as net.core.rmem_max and wmem_max allow.
            let _ = SockRef::from(&**socket).set_recv_buffer_size(size);
            let _ = SockRef::from(&**socket).set_send_buffer_size(size);
        }
        let lease = Arc::new(Lease { generation: index, sockets, _held: write });
        self.current = Arc::downgrade(&lease);
        Ok(lease)
    }

    /// Lets clients that are new come to the sockets of a generation.
    fn direct_to(&self, generation: usize) -> io::Result<()> {
        let all: usize = self.generations.iter().map(|it| it.sockets.len()).sum();
        match self.generations[generation].sockets.first() {
            Some(socket) if all > 1 => {
                steer(&**socket, &self.steering().program(number(generation)))
            }
            _ => Ok(()),
        }
    }

    fn steering(&self) -> Steering {
        let [a, b, c, d, ..] = self.secret;
        let slots = self.generations.first().map_or(1, |generation| generation.sockets.len());
        Steering::new(
            u32::from_be_bytes([a, b, c, d]),
            number(slots),
            number(self.generations.len()),
        )
    }
}

impl Generation {
    fn is_held(&self) -> bool {
        let Some(held) = &self.held else { return false };
        let mut ends = [PollFd::new(&**held, PollFlags::empty())];
        let told = poll(&mut ends, Some(&Timespec::default()));
        told.is_err() || !ends[0].revents().contains(PollFlags::HUP)
    }
}

impl Drop for Lease {
    /// What comes for connections that are over is not kept for nobody.
    fn drop(&mut self) {
        for socket in &self.sockets {
            let _ = SockRef::from(&**socket).set_recv_buffer_size(0);
        }
    }
}

fn socket(address: SocketAddr, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if only_v6 {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn alone(address: SocketAddr, only_v6: bool) -> io::Result<UdpSocket> {
    let socket = socket(address, only_v6)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A socket of a group, which keeps next to nothing until somebody reads it.
fn shared(address: SocketAddr, only_v6: bool) -> io::Result<UdpSocket> {
    let socket = socket(address, only_v6)?;
    socket.set_reuse_port(true)?;
    socket.set_recv_buffer_size(0)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// Processes, or states of one, that can have connections at a time.
const GENERATIONS: usize = 4;

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, Ipv6Addr},
        time::Duration,
    };

    use quinn::ConnectionIdGenerator as _;

    use super::*;

    /// Sockets for two workers, and what sends to them.
    fn open() -> (QuicSockets, UdpSocket) {
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect(address).unwrap();
        (QuicSockets::new(address, 2), client)
    }

    /// A successor with the same sockets.
    fn successor(of: &QuicSockets) -> QuicSockets {
        QuicSockets::passed_on(of.address(), of.pass_on().unwrap()).unwrap()
    }

    fn packet(first: u8, id: &[u8]) -> Vec<u8> {
        let version: &[u8] = if first & 0x80 == 0 { &[] } else { &[0, 0, 0, 1, 8] };
        [&[first], version, id, &[0; 20]].concat()
    }

    /// Whether the next packet of a socket is this one.
    fn comes(joined: &Joined, sent: &[u8]) -> bool {
        let mut room = [0; 100];
        joined.socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        joined.socket.recv(&mut room).is_ok_and(|length| room[..length] == *sent)
    }

    #[test]
    fn packets_of_a_connection_come_to_the_socket_that_gave_its_id() {
        let (sockets, client) = open();
        let joined = [0, 1].map(|slot| sockets.join(slot).unwrap().unwrap());
        for joined in joined.iter().cycle().take(20) {
            let id = joined.ids.clone().generate_cid();
            for first in [0x40, 0xe0, 0xc0] {
                let packet = packet(first, &id);
                client.send(&packet).unwrap();
                assert!(comes(joined, &packet), "{first:x}");
            }
        }
        assert!(sockets.join(2).unwrap().is_none());
    }

    #[test]
    fn new_clients_come_to_the_process_that_follows_and_older_connections_stay() {
        let (sockets, client) = open();
        let old = sockets.join(0).unwrap().unwrap();
        let next = successor(&sockets);
        let new = next.join(0).unwrap().unwrap();
        let id = old.ids.clone().generate_cid();
        let (first, later) = (packet(0xc0, &id), packet(0x40, &id));
        client.send(&first).unwrap();
        client.send(&later).unwrap();
        assert!(comes(&new, &first) && comes(&old, &later));
        sockets.reclaim();
        client.send(&first).unwrap();
        assert!(comes(&old, &first), "after an upgrade that failed");
    }

    #[test]
    fn a_generation_is_free_when_its_last_endpoint_has_gone_and_not_before() {
        let (sockets, _) = open();
        let mut all = vec![successor_of_nobody(&sockets)];
        while all.len() < GENERATIONS {
            let next = successor(&all.last().unwrap().0);
            let joined = next.join(0).unwrap().unwrap();
            all.push((next, joined));
        }
        let last = successor(&all.last().unwrap().0);
        assert_eq!(last.join(0).err().map(|it| it.kind()), Some(io::ErrorKind::AddrInUse));
        let (_, gone) = all.remove(1);
        let generation = gone.lease.generation;
        drop(gone);
        assert_eq!(last.join(0).unwrap().unwrap().lease.generation, generation);
    }

    fn successor_of_nobody(sockets: &QuicSockets) -> (QuicSockets, Joined) {
        sockets.open().unwrap();
        let first = successor(sockets);
        let joined = first.join(0).unwrap().unwrap();
        (first, joined)
    }

    #[test]
    fn a_port_that_somebody_has_is_in_use_even_if_it_is_shared() {
        let (sockets, _) = open();
        sockets.open().unwrap();
        let other = QuicSockets::new(sockets.address(), 2);
        assert_eq!(other.open().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        sockets.close_idle();
        other.open().unwrap();
    }

    #[test]
    fn both_versions_may_have_the_same_port() {
        let free = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let four = QuicSockets::new((Ipv4Addr::UNSPECIFIED, port).into(), 2);
        let six = QuicSockets::new((Ipv6Addr::UNSPECIFIED, port).into(), 2);
        four.open().unwrap();
        six.open().unwrap();
    }

    #[test]
    fn switched_off_and_on_again_it_leaves_older_connections_their_sockets() {
        let (sockets, _) = open();
        let first = sockets.join(0).unwrap().unwrap();
        sockets.leave(&first.lease);
        let second = sockets.join(0).unwrap().unwrap();
        assert!(sockets.is_current(&second.lease) && !sockets.is_current(&first.lease));
        assert_ne!(first.lease.generation, second.lease.generation);
        sockets.close_idle();
        assert!(sockets.pass_on().is_some(), "connections are left");
    }
}
