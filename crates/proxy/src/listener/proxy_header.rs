//! Reads the PROXY header in front of a connection, before TLS and HTTP.
//!
//! The bytes are looked at before they are taken: what follows the header stays in the kernel, and
//! the connection is handed on as if it had just been accepted from the client the header names.

use std::{
    future::{Future as _, poll_fn},
    io, net,
    task::Poll,
};

use loadline_core::{
    decide::{ending::Ending, reason::Reason},
    time::Duration,
};
use rustix::net::{RecvFlags, recv};
use thiserror::Error;
use tokio::{io::Interest, net::TcpStream};

use crate::{
    listener::{
        handle::ListenerHandle,
        proxy_protocol::{Ends, HEADER_MAX, Header, HeaderError, read},
    },
    runtime::{timer::Timer, worker::Worker},
    telemetry::meter::Meter,
};

/// Why a connection is not taken in.
#[derive(Debug, Error)]
pub(crate) enum ProxyHeaderError {
    /// The bytes are no valid header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The connection ended before the header did.
    #[error("closed inside the PROXY header")]
    Cut,
    /// The connection ended without a byte, as checks of the port do.
    #[error("closed before the PROXY header")]
    Unbegun,
    /// Not in the time for a head.
    #[error("no PROXY header in time")]
    Late,
    /// Another client has its place.
    #[error("no PROXY header, and others wait")]
    Displaced,
    /// The connection broke.
    #[error("{0}")]
    Connection(#[from] io::Error),
}

impl ProxyHeaderError {
    /// How the connection ended; none where it said nothing.
    pub(crate) const fn ending(&self) -> Option<Ending> {
        match self {
            Self::Header(_) => Some(Ending::ClientBad),
            Self::Late => Some(Ending::ClientTimeout),
            Self::Displaced => Some(Ending::ClientSlow),
            Self::Cut | Self::Connection(_) => Some(Ending::ClientGone),
            Self::Unbegun => None,
        }
    }

    /// Why, for the access log.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Header(_) | Self::Cut | Self::Unbegun | Self::Late => self.to_string(),
            Self::Displaced => Reason::ClientSlow.to_string(),
            Self::Connection(_) => Reason::ClientGone.to_string(),
        }
    }
}

/// Takes the header off a connection to `listener`, within `limit` unless that is zero, and counts
/// its bytes: the connection, and whose it is where the header tells.
///
/// # Errors
/// See [`ProxyHeaderError`].
pub(crate) async fn read_proxy_header(
    (worker, listener): (&Worker, &ListenerHandle),
    (stream, meter): (net::TcpStream, &Meter),
    limit: Duration,
) -> Result<(net::TcpStream, Option<Ends>), ProxyHeaderError> {
    let stream = TcpStream::from_std(stream)?;
    let timer = Timer::here(&worker.timers).await;
    timer.arm(limit);
    let mut is_hurried = false;
    let mut header = Box::pin(take_header(&stream, meter));
    let ends = poll_fn(|cx| match header.as_mut().poll(cx) {
        Poll::Pending => {
            worker.hurry(&timer, listener, &mut is_hurried);
            match timer.has_waited_enough(listener) || listener.is_cut() {
                true if timer.is_displaced() => Poll::Ready(Err(ProxyHeaderError::Displaced)),
                true => Poll::Ready(Err(ProxyHeaderError::Late)),
                false => Poll::Pending,
            }
        }
        taken => taken,
    });
    let ends = ends.await?;
    drop(header);
    Ok((stream.into_std()?, ends))
}

async fn take_header(stream: &TcpStream, meter: &Meter) -> Result<Option<Ends>, ProxyHeaderError> {
    let mut bytes = vec![0; HEADER_MAX];
    let mut has_begun = false;
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        let mut header = Header::Partial;
        // A header that is not whole would block as well: the next bytes wake this task.
        let looked = stream.try_io(Interest::READABLE, || {
            let (count, _) = recv(stream, &mut bytes[..], RecvFlags::PEEK)?;
            has_begun = count > 0;
            header = read(&bytes[..count]).map_err(io::Error::other)?;
            match header {
                Header::Partial => Err(io::ErrorKind::WouldBlock.into()),
                Header::Whole { .. } => Ok(()),
            }
        });
        match (looked, header) {
            (Ok(()), Header::Whole { ends, length }) => {
                meter.received(stream.try_read(&mut bytes[..length])?);
                return Ok(ends);
            }
            (Err(error), _) if error.kind() != io::ErrorKind::WouldBlock && has_begun => {
                return Err(error.downcast::<HeaderError>().map_or_else(Into::into, Into::into));
            }
            // All that ever comes had come before this look.
            _ if ready.is_read_closed() && has_begun => return Err(ProxyHeaderError::Cut),
            _ if ready.is_read_closed() => return Err(ProxyHeaderError::Unbegun),
            _ => {}
        }
    }
}
