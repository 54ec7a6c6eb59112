//! A socket for ICMP echo messages to one address.
//!
//! Linux has two kinds. The datagram socket is for everybody whose group is in
//! `net.ipv4.ping_group_range`; the kernel writes the identifier and hands over the answers to it
//! alone. The raw socket is for root (`CAP_NET_RAW`); it sees every ICMP packet that comes from
//! the address, those meant for others and, on the loopback, its own requests too.
//!
//! The kernel notes when an answer came (`SO_TIMESTAMPNS`), as ping has it: the wake-up of this
//! process is no part of the round trip.
//!
//! Both are wrapped as a UDP socket of the runtime, which to the system is a descriptor that
//! sends and receives packets, as these are.

use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
};

use loadline_core::{
    health::echo::{Reply, Sender},
    time::{Duration, Instant},
};
use nix::{
    cmsg_space,
    sys::{
        socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns},
        time::TimeSpec,
    },
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{io::Interest, net::UdpSocket};

use loadline_linux::clock;

/// Sends requests to one address and receives its answers.
pub(super) struct Echo {
    socket: UdpSocket,
    sender: Sender,
    kind: Kind,
    v6: bool,
    buffer: Box<[u8]>,
}

/// Which socket it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Unprivileged.
    Datagram,
    /// For root.
    Raw,
}

/// Why there is no socket.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Neither kind may be opened.
    NotAllowed(io::Error),
    /// The address cannot be sent to.
    Unreachable(io::Error),
}

impl Echo {
    /// Opens the socket that is allowed; `identifier` tells the raw sockets of one process apart.
    pub(super) fn open(peer: SocketAddr, identifier: u16) -> Result<Self, Refusal> {
        let ip = peer.ip();
        let (socket, kind) = match create(ip, Type::DGRAM) {
            Ok(socket) => (socket, Kind::Datagram),
            // Of the two reasons the second is the one that root could change.
            Err(_) => (create(ip, Type::RAW).map_err(Refusal::NotAllowed)?, Kind::Raw),
        };
        socket.connect(&peer.into()).map_err(Refusal::Unreachable)?;
        let socket = UdpSocket::from_std(socket.into()).map_err(Refusal::Unreachable)?;
        let written = (kind == Kind::Raw).then_some(identifier);
        let sender = Sender::new(ip, written, rand::random());
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Ok(Self { socket, sender, kind, v6: peer.is_ipv6(), buffer })
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Sends the request with this number.
    pub(super) async fn send(&self, number: u64) -> io::Result<()> {
        self.socket.send(&self.sender.request(number)).await.map(drop)
    }

    /// Waits for the next answer to a request of this socket, and says when it came.
    pub(super) async fn receive(&mut self) -> io::Result<(Reply, Instant)> {
        let with_header = self.kind == Kind::Raw && !self.v6;
        loop {
            let (socket, buffer) = (&self.socket, &mut self.buffer);
            let read = socket.async_io(Interest::READABLE, || read(socket, buffer));
            let (length, at) = read.await?;
            if let Some(reply) = self.sender.reply(&self.buffer[..length], with_header) {
                return Ok((reply, at));
            }
        }
    }
}

/// Reads a packet, and when it came.
fn read(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Instant)> {
    let (mut slices, mut space) = ([IoSliceMut::new(buffer)], cmsg_space!(TimeSpec));
    let message =
        recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::empty())?;
    let (now, wall) = (clock::now(), clock::since_1970());
    let noted = message.cmsgs()?.find_map(|told| match told {
        ControlMessageOwned::ScmTimestampns(noted) => Some(Duration::from_std(noted.into())),
        _ => None,
    });
    // A clock that was set meanwhile says nothing.
    let age = noted.map(|noted| wall.saturating_sub(noted)).filter(|age| *age < OLDEST);
    let came = now.as_nanos().saturating_sub(age.unwrap_or_default().as_nanos());
    Ok((message.bytes, Instant::from_nanos(came)))
}

fn create(peer: IpAddr, kind: Type) -> io::Result<Socket> {
    let (domain, protocol) = match peer {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let socket = Socket::new(domain, kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    setsockopt(&socket, ReceiveTimestampns, &true)?;
    Ok(socket)
}

/// The longest that this process may take to read an answer.
const OLDEST: Duration = Duration::from_secs(10);

/// Longer than a message of ours with the longest header; what is longer is not ours.
const BUFFER_BYTES: usize = 512;
