//! Listening sockets from a process manager, or from the process before an upgrade.
//!
//! They come from a process manager (systemd's socket activation) or from the process that this
//! one follows. Because they are the same sockets, the connections that wait in them are not lost,
//! as they would be if the address were bound again.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    os::fd::{OwnedFd, RawFd},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::net::sockopt::{socket_acceptconn, socket_type};
use socket2::SockRef;

use crate::{
    http3::HandoverQuic,
    listener::{accept, handle::ListenerKey, syscalls},
};

/// Listening sockets for whichever listeners they fit.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<Handed>,
    quic: Vec<(ListenerKey, HandoverQuic)>,
}

#[derive(Debug)]
struct Handed {
    /// The listener it was opened for, where that is known.
    meant: Option<ListenerKey>,
    address: SocketAddr,
    socket: Arc<TcpListener>,
}

/// Takes over a descriptor that the process was started with, by its number. It will not be passed
/// on to children.
///
/// # Errors
/// Where the number is not open, or has been taken before.
pub fn descriptor(number: RawFd) -> io::Result<OwnedFd> {
    static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());
    if !TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(number) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it has been taken before"));
    }
    syscalls::adopt(number)
}

impl Inherited {
    /// Adds a socket for the listener that its address fits.
    ///
    /// # Errors
    /// Where it is not one of TCP that listens.
    pub fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        self.insert(socket, None)
    }

    /// Adds a socket that was opened for the listener at `bind` behind `nth` others of the same
    /// address.
    ///
    /// # Errors
    /// As [`Inherited::add`].
    pub fn add_for(&mut self, socket: OwnedFd, (bind, nth): (SocketAddr, usize)) -> io::Result<()> {
        self.insert(socket, Some(ListenerKey { bind, nth }))
    }

    /// Adds the UDP sockets of the listener at `bind` behind `nth` others of the same address.
    pub fn add_quic(&mut self, quic: HandoverQuic, (bind, nth): (SocketAddr, usize)) {
        self.quic.push((ListenerKey { bind, nth }, quic));
    }

    /// Addresses of sockets that no listener has asked for.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<_> = self.sockets.iter().map(|handed| handed.address).collect();
        addresses.dedup();
        addresses
    }

    fn insert(&mut self, socket: OwnedFd, meant: Option<ListenerKey>) -> io::Result<()> {
        let is_ours =
            socket_acceptconn(&socket)? && socket_type(&socket)? == rustix::net::SocketType::STREAM;
        let address = SockRef::from(&socket).local_addr()?.as_socket();
        let Some(address) = address.filter(|_| is_ours) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a TCP socket that listens",
            ));
        };
        let socket = TcpListener::from(socket);
        accept::set_up(&SockRef::from(&socket))?;
        self.sockets.push(Handed { meant, address, socket: Arc::new(socket) });
        Ok(())
    }

    /// Takes out the sockets for the listener at `key`.
    pub(crate) fn take(&mut self, key: ListenerKey) -> Vec<Arc<TcpListener>> {
        let fits = |handed: &mut Handed| handed.fits(key);
        self.sockets.extract_if(.., fits).map(|handed| handed.socket).collect()
    }

    /// Takes out the UDP sockets for the listener at `key`.
    pub(crate) fn take_quic(&mut self, key: ListenerKey) -> Option<HandoverQuic> {
        let index = self.quic.iter().position(|(meant, _)| *meant == key)?;
        Some(self.quic.swap_remove(index).1)
    }
}

impl Handed {
    fn fits(&self, key: ListenerKey) -> bool {
        match self.meant {
            Some(meant) if meant == key => true,
            _ if key.nth > 0 => false,
            _ => self.address == key.bind || self.covers(key.bind),
        }
    }

    /// `ListenStream=8080` of systemd is every address of both versions.
    fn covers(&self, bind: SocketAddr) -> bool {
        let unspecified = |ip: IpAddr| ip.is_unspecified();
        self.address.port() == bind.port()
            && unspecified(self.address.ip())
            && unspecified(bind.ip())
            && self.address.is_ipv6()
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn listening() -> (OwnedFd, SocketAddr) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (socket.into(), address)
    }

    #[test]
    fn a_socket_goes_to_the_listener_of_its_address_or_to_the_one_it_was_opened_for() {
        let mut inherited = Inherited::default();
        let ((by_address, address), (meant, _)) = (listening(), listening());
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        inherited.add(by_address).unwrap();
        inherited.add_for(meant, (any, 1)).unwrap();
        assert!(inherited.take(ListenerKey { bind: any, nth: 0 }).is_empty());
        assert_eq!(inherited.take(ListenerKey { bind: any, nth: 1 }).len(), 1);
        assert_eq!(inherited.take(ListenerKey { bind: address, nth: 0 }).len(), 1);
        assert!(inherited.addresses().is_empty());
    }

    #[test]
    fn the_wildcard_of_both_versions_is_that_of_one() {
        let mut inherited = Inherited::default();
        let socket = TcpListener::bind("[::]:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        inherited.add(socket.into()).unwrap();
        let bind = SocketAddr::from(([0, 0, 0, 0], port));
        assert_eq!(inherited.take(ListenerKey { bind, nth: 0 }).len(), 1);
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        let mut inherited = Inherited::default();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(inherited.add(datagrams.into()).is_err());
    }

    #[test]
    fn a_number_that_is_not_open_is_refused() {
        assert!(descriptor(1_000_000).is_err());
        assert!(descriptor(-1).is_err());
    }
}
