//! A check by ICMP echo: that a host is there, whatever its ports do.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use loadline_core::health::echo::{MESSAGE_BYTES, Sender};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

/// Asks once, and waits for the answer.
///
/// # Errors
/// The kernel's; where this user may send no pings, it says what would allow it.
pub(super) async fn ping(host: IpAddr, token: u64) -> io::Result<()> {
    let (socket, is_raw) = match open(host, Type::DGRAM) {
        Ok(socket) => (socket, false),
        Err(_) => (open(host, Type::RAW).map_err(forbidden)?, true),
    };
    // The kernel writes the identifier of a datagram socket; the token tells raw ones apart.
    let sender = Sender::new(host, is_raw.then_some(IDENTIFIER), token);
    socket.send(&sender.request(0)).await?;
    let mut packet = [0; PACKET_BYTES];
    loop {
        let length = socket.recv(&mut packet).await?;
        if sender.reply(&packet[..length], is_raw && host.is_ipv4()).is_some() {
            return Ok(());
        }
    }
}

/// A socket that to the runtime is one of UDP: a descriptor that sends and receives packets.
fn open(host: IpAddr, kind: Type) -> io::Result<UdpSocket> {
    let (domain, protocol) = match host {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let socket = Socket::new(domain, kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.connect(&SocketAddr::new(host, 0).into())?;
    UdpSocket::from_std(socket.into())
}

fn forbidden(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let why = format!("{error}: a ping takes a group in net.ipv4.ping_group_range, or CAP_NET_RAW");
    io::Error::new(error.kind(), why)
}

/// "ll".
const IDENTIFIER: u16 = 0x6c6c;
/// The longest IPv4 header and a message.
const PACKET_BYTES: usize = 60 + MESSAGE_BYTES;
