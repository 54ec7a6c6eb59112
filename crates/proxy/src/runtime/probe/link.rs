//! Checks that go by the link of forwarded packets instead of straight to the server.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{
        HealthCheck,
        forwarding::{Protocol, ServerLink},
        socket_path,
    },
    time::Duration,
};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::upstream::unix;

/// Who can send what leaves this machine by the link of forwarded packets.
pub trait Detour: fmt::Debug + Send + Sync {
    /// For `time` what leaves from this port of ours to `server` goes by `link`, and what comes
    /// back looks as if it had not.
    ///
    /// # Errors
    /// The system's.
    fn lend(
        &self,
        port: u16,
        server: (SocketAddr, Protocol),
        link: ServerLink,
        time: Duration,
    ) -> io::Result<()>;
}

/// A link, and who sends by it.
#[derive(Clone, Debug)]
pub(in crate::runtime) struct Lane {
    pub(in crate::runtime) link: ServerLink,
    pub(in crate::runtime) detour: Arc<dyn Detour>,
}

/// Opens the connection of a check.
pub(super) async fn connect(
    server: SocketAddr,
    lane: Option<&Lane>,
    check: &HealthCheck,
) -> io::Result<TcpStream> {
    if let Some(path) = socket_path(server) {
        return TcpStream::from_std(unix::open(&path)?);
    }
    let Some(lane) = lane else { return TcpStream::connect(server).await };
    let socket = if server.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(any(server))?;
    lane.lend(socket.local_addr()?.port(), (server, Protocol::Tcp), check)?;
    socket.connect(server).await
}

/// Opens a socket for the datagrams of a check.
pub(super) async fn associate(
    server: SocketAddr,
    lane: Option<&Lane>,
    check: &HealthCheck,
) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any(server)).await?;
    if let Some(lane) = lane {
        lane.lend(socket.local_addr()?.port(), (server, Protocol::Udp), check)?;
    }
    socket.connect(server).await?;
    Ok(socket)
}

impl Lane {
    fn lend(
        &self,
        port: u16,
        server: (SocketAddr, Protocol),
        check: &HealthCheck,
    ) -> io::Result<()> {
        self.detour.lend(port, server, self.link, check.timeout + FAREWELL)
    }
}

fn any(like: SocketAddr) -> SocketAddr {
    if like.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() }
}

/// Both sides say that they are done after the check is.
const FAREWELL: Duration = Duration::from_secs(5);
