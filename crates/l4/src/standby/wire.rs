//! The socket between balancers: sealed datagrams to and from known peers, never waited for.

use std::net::{SocketAddr, UdpSocket};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::{
    Settings, StandbyError,
    seal::{Seal, Side},
};

/// The socket and its peers.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: UdpSocket,
    seal: Seal,
    peers: Vec<Peer>,
    /// Datagrams of nobody that is known, or that do not bear the seal.
    pub(crate) refused: u64,
    buffer: Box<[u8; DATAGRAM_MAX]>,
}

/// Another balancer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Bytes with the headers of UDP, IP and Ethernet.
    pub(crate) sent: u64,
    /// The same of what was received.
    pub(crate) received: u64,
}

impl Wire {
    pub(crate) fn bind(settings: &Settings) -> Result<Self, StandbyError> {
        let seal = Seal::read(&settings.key_file, settings.router)?;
        let address = settings.bind;
        let socket = UdpSocket::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            // Beyond what the machine allows by itself; what does not fit is told again.
            let _ = set_socket_recv_buffer_size_force(&socket, ROOM);
            Ok(socket)
        });
        let socket = socket.map_err(|source| StandbyError::Bind { address, source })?;
        let peer = |address: &SocketAddr| Peer { address: *address, sent: 0, received: 0 };
        let peers = settings.peers.iter().map(peer).collect();
        Ok(Self { socket, seal, peers, refused: 0, buffer: Box::new([0; DATAGRAM_MAX]) })
    }

    pub(crate) fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// The next datagram that a peer has said as this side, with which of the peers that is.
    pub(crate) fn receive(&mut self, side: Side) -> Option<(usize, &[u8])> {
        // Strangers cannot keep us here.
        for _ in 0..REFUSED_AT_ONCE {
            let (length, from) = self.socket.recv_from(&mut *self.buffer).ok()?;
            let sealed = &self.buffer[..length];
            let peer = self.peers.iter_mut().enumerate().find(|(_, peer)| peer.is(&from));
            let Some((at, peer)) = peer else {
                self.refused += 1;
                continue;
            };
            let Some(opened) = self.seal.open(side, sealed).map(<[u8]>::len) else {
                // A peer in the same role, as after a partition, is no stranger.
                self.refused += u64::from(self.seal.open(side.other(), sealed).is_none());
                continue;
            };
            peer.received += on_the_wire(&from, length);
            return Some((at, &self.buffer[..opened]));
        }
        None
    }

    /// Sends a datagram as this side, or loses it where that would take time.
    pub(crate) fn send(&mut self, side: Side, peer: usize, mut datagram: Vec<u8>) {
        let Some(peer) = self.peers.get_mut(peer) else { return };
        self.seal.close(side, &mut datagram);
        if self.socket.send_to(&datagram, peer.address).is_ok() {
            peer.sent += on_the_wire(&peer.address, datagram.len());
        }
    }
}

impl Peer {
    fn is(&self, address: &SocketAddr) -> bool {
        (self.address.ip(), self.address.port()) == (address.ip(), address.port())
    }
}

/// Bytes of a frame that carries so many.
fn on_the_wire(to: &SocketAddr, payload: usize) -> u64 {
    let ip = if to.is_ipv6() { 40 } else { 20 };
    (ETHERNET + ip + UDP + payload) as u64
}

const ETHERNET: usize = 14;
const UDP: usize = 8;

/// Larger than any datagram of ours.
const DATAGRAM_MAX: usize = 2_048;

/// Refused datagrams that are read at once.
const REFUSED_AT_ONCE: usize = 1_024;

/// Bytes for what has come and was not read, as the kernel counts them: a burst of each of a few
/// peers.
const ROOM: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    /// Two balancers that know each other, and wait for what the other says.
    fn wires() -> [Wire; 2] {
        let key = tempfile::NamedTempFile::new().unwrap();
        fs::write(key.path(), "0123456789abcdef").unwrap();
        let sockets = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [one, other] = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
        let mut peers = [other, one].into_iter();
        sockets.map(|socket| {
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let seal = Seal::read(key.path(), 51).unwrap();
            let peers = peers.next().map(|address| Peer { address, sent: 0, received: 0 });
            let peers = peers.into_iter().collect();
            Wire { socket, seal, peers, refused: 0, buffer: Box::new([0; DATAGRAM_MAX]) }
        })
    }

    #[test]
    fn a_peer_that_is_active_as_well_after_a_partition_is_not_counted_as_refused() {
        let [mut one, mut other] = wires();
        one.send(Side::Active, 0, b"facts".to_vec());
        one.send(Side::Standby, 0, b"answer".to_vec());
        assert_eq!(other.receive(Side::Standby), Some((0, &b"answer"[..])));
        assert_eq!(other.refused, 0);
        one.socket.send_to(&[7; 64], one.peers[0].address).unwrap();
        one.send(Side::Standby, 0, b"more".to_vec());
        assert_eq!(other.receive(Side::Standby), Some((0, &b"more"[..])));
        assert_eq!(other.refused, 1, "what bears no seal is");
    }
}
