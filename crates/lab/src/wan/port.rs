//! Where a host's packets leave it: one descriptor from which the router reads what the host
//! sends, and into which it writes what the host receives.
//!
//! | kind | what it is | takes |
//! |---|---|---|
//! | TUN | the host's own interface, whose other end is the descriptor | an open `/dev/net/tun` |
//! | packet | a socket on the outer end of a veth pair | only namespaces |
//!
//! Both carry TCP as the sender's kernel made it, in pieces of up to 64 KiB behind a virtio header
//! that tells how to cut them: that is what makes gigabits per second possible.

use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType},
};

use super::{kernel, packet::Virtio};

/// One host's connection to the router.
#[derive(Debug)]
pub struct Port {
    descriptor: OwnedFd,
    link: LinkLayer,
}

/// What stands before the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLayer {
    /// Nothing.
    Bare,
    /// An Ethernet header; the host takes what is for this address.
    Ethernet(MacAddress),
}

/// The address of an Ethernet interface.
pub type MacAddress = [u8; 6];

/// Why there is no port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The device is missing or closed to the user.
    #[error("cannot open {TUN_DEVICE}: {source}; a veth pair and `Port::open_packet` do without")]
    Closed {
        /// What the system says.
        source: io::Error,
    },
    /// The interface cannot be made.
    #[error(
        "cannot make the interface `{name}`: {source}; its name must be free and under 16 bytes"
    )]
    Interface {
        /// Name of the interface.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// No socket for whole frames.
    #[error(
        "cannot read frames from the interface `{name}`: {source}; it must be in this namespace"
    )]
    Socket {
        /// The interface's name.
        name: String,
        /// What the system says.
        source: io::Error,
    },
}

impl Port {
    /// Makes the TUN interface `name` in the network namespace of the calling thread, which is to
    /// be the host's. The interface goes when the port is dropped. It still needs its addresses
    /// (each alone: /32, /128 without duplicate detection), to be up with a queue of 10,000
    /// packets, and a default route through it.
    ///
    /// # Errors
    /// [`PortError::Closed`] where `/dev/net/tun` cannot be opened: then take
    /// [`open_packet`](Self::open_packet). [`PortError::Interface`] where the kernel refuses the
    /// interface: the name is taken, or the thread has no rights over its namespace.
    pub fn open_tun(name: &str) -> Result<Self, PortError> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(TUN_DEVICE, flags, Mode::empty())
            .map_err(|source| PortError::Closed { source: source.into() })?;
        let letters: Vec<_> = name.bytes().map(|byte| byte as libc::c_char).collect();
        kernel::attach_tun(descriptor.as_fd(), &letters)
            .map_err(|source| PortError::Interface { name: name.to_owned(), source })?;
        Ok(Self { descriptor, link: LinkLayer::Bare })
    }

    /// A port on the interface `outer` of the calling thread's network namespace, whose peer of
    /// address `inner` is the host's. Make the pair first (both ends up, without ARP and without
    /// addresses of their own making, one queue each, a transmit queue of 10,000 packets); the
    /// inner end needs what [`open_tun`](Self::open_tun) says. An XDP program on it would turn the
    /// passing of uncut TCP off.
    ///
    /// # Errors
    /// [`PortError::Socket`] where there is no such interface, or the thread has no rights over
    /// its namespace.
    pub fn open_packet(outer: &str, inner: MacAddress) -> Result<Self, PortError> {
        let open = || {
            let any = rustix::net::socket_with(
                AddressFamily::INET,
                SocketType::DGRAM,
                SocketFlags::CLOEXEC,
                None,
            )?;
            kernel::packet_socket(rustix::net::netdevice::name_to_index(&any, outer)?)
        };
        let named = |source| PortError::Socket { name: outer.to_owned(), source };
        Ok(Self { descriptor: open().map_err(named)?, link: LinkLayer::Ethernet(inner) })
    }
}

impl Port {
    /// Reads one frame that the host sent: virtio header, [`link_length`](Self::link_length)
    /// bytes, IP packet.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` where there is none.
    pub(super) fn receive(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::io::read(&self.descriptor, into)
    }

    /// Has the host receive a frame: virtio header and IP packet.
    ///
    /// # Errors
    /// The kernel's, where the interface is down or has no room.
    pub(super) fn send(&self, frame: &[u8]) -> rustix::io::Result<usize> {
        let LinkLayer::Ethernet(inner) = self.link else {
            return rustix::io::write(&self.descriptor, frame);
        };
        let (virtio, ip) = frame.split_first_chunk::<HEADER>().ok_or(Errno::INVAL)?;
        let virtio = Virtio::read(virtio).behind(ETHERNET_HEADER).bytes();
        let ethernet = ethernet_header(inner, ip);
        let parts = [&virtio[..], &ethernet, ip].map(IoSlice::new);
        rustix::io::writev(&self.descriptor, &parts)
    }

    /// Bytes between the virtio header and the IP header of what is read.
    pub(super) fn link_length(&self) -> u16 {
        match self.link {
            LinkLayer::Bare => 0,
            LinkLayer::Ethernet(_) => ETHERNET_HEADER,
        }
    }
}

impl Port {
    /// What the port is made of, to be passed to another process: its descriptor, and the inner
    /// address where it is a packet socket.
    #[must_use]
    pub fn into_parts(self) -> (OwnedFd, Option<MacAddress>) {
        let inner = match self.link {
            LinkLayer::Bare => None,
            LinkLayer::Ethernet(inner) => Some(inner),
        };
        (self.descriptor, inner)
    }

    /// The port of those [parts](Self::into_parts).
    #[must_use]
    pub fn from_parts(descriptor: OwnedFd, inner: Option<MacAddress>) -> Self {
        let link = inner.map_or(LinkLayer::Bare, LinkLayer::Ethernet);
        Self { descriptor, link }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// For `inner`, from nobody in particular, of the protocol that the packet's version says.
fn ethernet_header(inner: MacAddress, ip: &[u8]) -> [u8; ETHERNET_HEADER as usize] {
    let [a, b, c, d, e, f] = inner;
    let [high, low] = if ip.first().is_some_and(|byte| byte >> 4 == 6) { IPV6 } else { IPV4 };
    let [r, s, t, u, v, w] = ROUTER;
    [a, b, c, d, e, f, r, s, t, u, v, w, high, low]
}

/// Bytes of the virtio header (`virtio_net_hdr`) before each packet.
pub(super) const HEADER: usize = 10;

/// Bytes of two addresses and the protocol.
const ETHERNET_HEADER: u16 = 14;

/// An address of the kind that anyone may give out.
const ROUTER: MacAddress = [2, 0, 0, 0, 0, 1];

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

const TUN_DEVICE: &str = "/dev/net/tun";
