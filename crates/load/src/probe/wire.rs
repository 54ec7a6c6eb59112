//! How a ping travels: as an ICMP echo, or as the opening of a TCP connection.

use std::{io, net::SocketAddr};

use loadline_core::time::Instant;
use loadline_linux::clock;
use loadline_measure::record::ProbeOutcome;
use tokio::{net::TcpStream, task::JoinSet};

use super::{
    ProbeError,
    echo::{Echo, Kind, Refusal},
};
use crate::Outcome;

/// The way to one address.
pub(super) enum Wire {
    /// ICMP echo.
    Echo(Echo),
    /// TCP connections, those under way in the set.
    Tcp { peer: SocketAddr, opening: JoinSet<Arrival> },
}

/// An event on the wire after a ping.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival {
    /// A response.
    Reply {
        /// Number of the ping.
        number: u64,
        /// When it was sent, where that is known better than before.
        sent: Option<Instant>,
        /// When it came.
        at: Instant,
        /// How many bytes it has; none for TCP.
        bytes: Option<usize>,
        /// The time to live that is left, where the system tells it.
        ttl: Option<u8>,
    },
    /// A failure reported by the system or the network. An ICMP error does not name its ping; it is
    /// taken for the oldest.
    Failure {
        /// Number of the ping, if known.
        number: Option<u64>,
        /// The class.
        outcome: ProbeOutcome,
    },
}

impl Wire {
    /// The way to `peer`, and why it is TCP where nobody asked for that.
    ///
    /// # Errors
    /// [`ProbeError::Unreachable`] where the system knows no way to the address.
    pub(super) fn open(
        peer: SocketAddr,
        tcp: Option<u16>,
        identifier: u16,
    ) -> Result<(Self, Option<String>), ProbeError> {
        if let Some(port) = tcp {
            return Ok((Self::tcp(peer, port), None));
        }
        match Echo::open(peer, identifier) {
            Ok(echo) => Ok((Self::Echo(echo), None)),
            Err(Refusal::NotAllowed(error)) => {
                let why = format!("no ICMP here ({}): {HOW_TO_ALLOW}", error.kind());
                Ok((Self::tcp(peer, FALLBACK_PORT), Some(why)))
            }
            Err(Refusal::Unreachable(source)) => {
                Err(ProbeError::Unreachable { address: peer.ip(), source })
            }
        }
    }

    fn tcp(mut peer: SocketAddr, port: u16) -> Self {
        peer.set_port(port);
        Self::Tcp { peer, opening: JoinSet::new() }
    }

    pub(super) const fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp { .. })
    }

    /// Name of the protocol in records.
    pub(super) fn protocol(&self) -> String {
        match self {
            Self::Echo(echo) if echo.kind() == Kind::Raw => "ICMP echo (raw socket)".to_owned(),
            Self::Echo(_) => "ICMP echo (datagram socket)".to_owned(),
            Self::Tcp { peer, .. } => format!("TCP connect to port {}", peer.port()),
        }
    }

    /// The class of a ping to which no response came in time.
    pub(super) const fn silence(&self) -> ProbeOutcome {
        match self {
            Self::Echo(_) => ProbeOutcome::Timeout,
            Self::Tcp { .. } => ProbeOutcome::ConnectTimeout,
        }
    }

    /// Sends the ping with this number.
    ///
    /// # Errors
    /// What the system said; a TCP connection tells it later, as a [`Arrival::Failure`].
    pub(super) async fn send(&mut self, number: u64) -> io::Result<()> {
        match self {
            Self::Echo(echo) => echo.send(number).await,
            Self::Tcp { peer, opening } => {
                opening.spawn_local(connect(*peer, number));
                Ok(())
            }
        }
    }

    /// Waits for the next thing that comes; for ever where nothing is under way. What was waited
    /// for is not lost when the caller gives up waiting.
    pub(super) async fn receive(&mut self) -> Arrival {
        match self {
            Self::Echo(echo) => match echo.receive().await {
                Ok((reply, at)) => Arrival::Reply {
                    number: reply.number,
                    sent: None,
                    at,
                    bytes: Some(reply.bytes),
                    ttl: reply.ttl,
                },
                Err(error) => Arrival::Failure {
                    number: None,
                    outcome: Outcome::of_connect_error(&error).into(),
                },
            },
            Self::Tcp { opening, .. } => match opening.join_next().await {
                Some(Ok(arrival)) => arrival,
                // A task that ended without an arrival has panicked, and has said so.
                Some(Err(_)) | None => std::future::pending().await,
            },
        }
    }
}

/// Opens a connection and closes it again. The instants are taken here, next to the system calls.
async fn connect(peer: SocketAddr, number: u64) -> Arrival {
    let sent = clock::now();
    let opened = TcpStream::connect(peer).await;
    let at = clock::now();
    match opened {
        Ok(_) => Arrival::Reply { number, sent: Some(sent), at, bytes: None, ttl: None },
        Err(error) => Arrival::Failure {
            number: Some(number),
            outcome: Outcome::of_connect_error(&error).into(),
        },
    }
}

/// Most hosts that answer on one port answer on this one.
const FALLBACK_PORT: u16 = 80;

const HOW_TO_ALLOW: &str = "it needs root or net.ipv4.ping_group_range";
