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
use rustix::io::Errno;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use super::ProbeError;
use crate::upstream::unix;

/// Sends packets of this machine over the link of forwarded packets.
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
///
/// # Errors
/// [`ProbeError::Scarce`] where it is for this machine that there is none.
pub(super) async fn connect(
    server: SocketAddr,
    lane: Option<&Lane>,
    check: &HealthCheck,
) -> Result<TcpStream, ProbeError> {
    if let Some(path) = socket_path(server) {
        return unix::open(&path).and_then(TcpStream::from_std).map_err(scarce);
    }
    let Some(lane) = lane else { return TcpStream::connect(server).await.map_err(scarce) };
    let socket = by_link(server).map_err(scarce)?;
    lane.lend(socket.local_addr()?.port(), (server, Protocol::Tcp), check)?;
    Ok(socket.connect(server).await?)
}

/// A socket with a port of ours. It ends by a RST: in TIME_WAIT the port could not be lent again
/// for a minute, and there are 28,232.
fn by_link(server: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if server.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_zero_linger()?;
    socket.bind(any(server))?;
    Ok(socket)
}

/// Opens a socket for the datagrams of a check.
pub(super) async fn associate(
    server: SocketAddr,
    lane: Option<&Lane>,
    check: &HealthCheck,
) -> Result<UdpSocket, ProbeError> {
    let socket = UdpSocket::bind(any(server)).await.map_err(scarce)?;
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
    ) -> Result<(), ProbeError> {
        let lent = self.detour.lend(port, server, self.link, check.timeout + FAREWELL);
        lent.map_err(ProbeError::Scarce)
    }
}

/// Why a socket could not be opened: where this machine has none left, that says nothing of the
/// server.
pub(super) fn scarce(error: io::Error) -> ProbeError {
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRINUSE) => {
            ProbeError::Scarce(error)
        }
        _ => ProbeError::Connection(error),
    }
}

fn any(like: SocketAddr) -> SocketAddr {
    if like.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() }
}

/// The last packets of a check go by the link as well, on a busy machine a little late.
const FAREWELL: Duration = Duration::from_secs(1);
