//! Opens a connection to a server in full, before any byte of the client is sent over it.
//!
//! An exchange of HTTP writes at once and lets the kernel wait. Where bytes mean nothing nobody can
//! tell later whether a server has acted on them, so the connection is waited for: until it stands,
//! another server may be tried. A PROXY header goes before everything, TLS included.

use std::{future::poll_fn, io, net::SocketAddr, task::Poll};

use loadline_core::{
    decide::reason::{Phase, Reason},
    time::Duration,
};

use crate::{
    io::socket::Socket,
    runtime::timer::Timer,
    telemetry::reason::of_io,
    tls::Dialing,
    upstream::pool::{Connection, Slot},
};

/// Where a connection goes and what it begins with.
#[derive(Debug)]
pub(crate) struct Dial<'a> {
    pub(crate) address: SocketAddr,
    /// In clear if omitted.
    pub(crate) tls: Option<&'a Dialing>,
    /// A PROXY header, or nothing.
    pub(crate) header: &'a [u8],
    /// Time limit for connection, TLS and header together.
    pub(crate) limit: Duration,
}

/// Opens a connection, introduces its client and agrees on TLS.
///
/// # Errors
/// Why it cannot be had.
pub(crate) async fn dial(to: Dial<'_>, slot: Slot, timer: &Timer) -> Result<Connection, Reason> {
    let Dial { address, tls, header, limit } = to;
    let cannot = |error: io::Error| of_io(&error);
    timer.arm(limit);
    if header.is_empty() {
        let mut connection = Connection::open(address, tls, slot).map_err(cannot)?;
        stands(&mut connection.peer.socket, timer).await?;
        return Ok(connection);
    }
    let mut connection = Connection::open(address, None, slot).map_err(cannot)?;
    let sent = connection.peer.send(header, timer).await;
    sent.map_err(|gone| gone.reason().during(Phase::Connect))?;
    connection.read_proxy_header = true;
    if let Some(tls) = tls {
        connection = connection.secured(address, tls).map_err(cannot)?;
        stands(&mut connection.peer.socket, timer).await?;
    }
    Ok(connection)
}

/// Waits until the connection is open and both sides have agreed on TLS, if it is to have that.
async fn stands(socket: &mut Socket, timer: &Timer) -> Result<(), Reason> {
    poll_fn(|cx| {
        let stands = if socket.is_plain() {
            // Sending nothing waits for the connection, and fails where it does.
            socket.poll_write(cx, b"").map_ok(|_| ())
        } else {
            socket.poll_handshake(cx)
        };
        match stands {
            Poll::Pending if timer.has_expired() => Poll::Ready(Err(socket.phase().timeout())),
            stands => stands.map_err(|error| of_io(&error).during(socket.phase())),
        }
    })
    .await
}
