//! The handshake of a connection: how a client is agreed with, and what is told of one that fails.
//!
//! Until the handshake is over, or a token of a Retry has come, the packets may have the address of
//! somebody else, and quinn does not tell whether a later one has proved it. So where the address
//! had no token, silence is counted alone, and all else is logged at a rate that no flood raises:
//! beyond it a failure is counted among the handshakes, and has no ending.

use std::{future::Future, net::SocketAddr, rc::Rc, sync::Arc};

use loadline_core::{
    decide::{
        budget::{Allowance, Budget},
        ending::Ending,
    },
    time::{Duration, Instant},
    units::Rate,
};
use quinn::{Connecting, ConnectionError, TransportErrorCode, VarInt, ZeroRttAccepted};
use tokio::{sync::watch, task::spawn_local};

use super::connection::within;
use crate::{
    http::session::{end_unread, end_unread_because},
    listener::handle::ListenerHandle,
    runtime::{timer::Timer, worker::Worker},
    telemetry::{
        meter::Meter,
        reason::{of_client_alert, of_client_quic},
    },
};

/// A connection, and whether its handshake is over, where that is not certain.
pub(super) type Agreed = (quinn::Connection, Option<watch::Receiver<bool>>);

/// Held by each connection of a socket whose client has not shown yet that its address is its own.
#[derive(Debug)]
pub(super) struct Unproven {
    allowance: Allowance,
    /// Of the lines about their failures.
    told: Budget,
}

impl Unproven {
    pub(super) fn new() -> Self {
        let allowance = Allowance::new(Rate::per_sec(TOLD_PER_SECOND), Some(TOLD_BURST));
        Self { allowance, told: Budget::default() }
    }

    /// Whether one more failure is to be told of.
    fn may_tell(&self, now: Instant) -> bool {
        self.told.take(&self.allowance, now)
    }
}

/// One handshake with the client at an address.
pub(super) struct Handshake {
    worker: Rc<Worker>,
    listener: Arc<ListenerHandle>,
    meter: Rc<Meter>,
    address: SocketAddr,
    /// None where the client has come with a token.
    unproven: Option<Rc<Unproven>>,
}

impl Handshake {
    pub(super) fn new(
        (worker, listener): (&Rc<Worker>, &Arc<ListenerHandle>),
        meter: &Rc<Meter>,
        address: SocketAddr,
        unproven: Option<Rc<Unproven>>,
    ) -> Self {
        let (worker, listener) = (worker.clone(), listener.clone());
        Self { worker, listener, meter: meter.clone(), address, unproven }
    }

    /// Agrees with a client on a connection before the timer, which has `limit`, expires. Tells
    /// when the handshake is over, which `takes_early` need not wait for. None where it fails.
    pub(super) async fn agree(
        self,
        mut connecting: Connecting,
        takes_early: bool,
        (timer, limit): (&Timer, Duration),
    ) -> Option<Agreed> {
        if !takes_early {
            let quinn = self.outcome(timer, connecting).await?;
            self.meter.handshake(true);
            return Some((quinn, None));
        }
        self.outcome(timer, connecting.handshake_data()).await?;
        // A server always succeeds.
        let (quinn, done) = connecting.into_0rtt().ok()?;
        let (confirm, confirmed) = watch::channel(false);
        spawn_local(self.confirm(quinn.clone(), done, limit, confirm));
        Some((quinn, Some(confirmed)))
    }

    /// What has come of `work` in time; none where that is a failure.
    async fn outcome<T>(
        &self,
        timer: &Timer,
        work: impl Future<Output = Result<T, ConnectionError>>,
    ) -> Option<T> {
        match within(timer, work).await {
            Some(Ok(outcome)) => return Some(outcome),
            Some(Err(error)) => self.fail(Some(&error)),
            None => self.fail(None),
        }
        None
    }

    /// Waits for the end of the handshake of a connection that is in use already.
    async fn confirm(
        self,
        quinn: quinn::Connection,
        done: ZeroRttAccepted,
        limit: Duration,
        confirm: watch::Sender<bool>,
    ) {
        let timer = Timer::here(&self.worker.timers).await;
        timer.arm(limit);
        let is_over = within(&timer, done).await.is_some();
        match quinn.close_reason() {
            None if is_over => {
                self.meter.handshake(true);
                // Fails where nobody waits any more.
                let _ = confirm.send(true);
            }
            // Only a client that has all the keys can say that.
            Some(ConnectionError::ApplicationClosed(_)) => self.meter.handshake(true),
            error => {
                self.fail(error.as_ref());
                quinn.close(VarInt::default(), b"");
            }
        }
    }

    /// Counts and logs that it has failed: for this error, or because it has taken too long.
    pub(super) fn fail(&self, error: Option<&ConnectionError>) {
        let Self { worker, listener, meter, address, unproven } = self;
        meter.handshake(false);
        tracing::debug!(%address, ?error, "no QUIC");
        let Some((ending, reason)) = fault(error) else { return };
        let is_told = unproven.as_ref().is_none_or(|unproven| {
            ending != Ending::ClientTimeout && unproven.may_tell(worker.shared.clock.now())
        });
        if !is_told {
            return;
        }
        let at = (&**worker, &**listener);
        match reason {
            Some(reason) => end_unread_because(at, *address, ending, &reason),
            None => end_unread(at, *address, ending, (0, 0)),
        }
    }
}

/// How a handshake ends that fails for this error, or takes too long, and why, where that says more
/// than the ending. None where it is not the client's fault, or counted where it is found.
fn fault(error: Option<&ConnectionError>) -> Option<(Ending, Option<String>)> {
    Some(match error {
        None | Some(ConnectionError::TimedOut) => (Ending::ClientTimeout, None),
        Some(ConnectionError::TransportError(error)) => {
            if error.code == TransportErrorCode::INTERNAL_ERROR {
                return None;
            }
            let reason = match alert(error.code) {
                Some(_) => of_client_quic(&error.reason),
                None => of_client_quic(&format!("QUIC violated by the client: {error}")),
            };
            (Ending::ClientBad, Some(reason))
        }
        Some(ConnectionError::ConnectionClosed(close)) => match alert(close.error_code) {
            Some(alert) => (Ending::ClientBad, Some(of_client_alert(alert))),
            None => (Ending::ClientGone, None),
        },
        Some(ConnectionError::ApplicationClosed(_) | ConnectionError::Reset) => {
            (Ending::ClientGone, None)
        }
        Some(
            ConnectionError::VersionMismatch
            | ConnectionError::LocallyClosed
            | ConnectionError::CidsExhausted,
        ) => return None,
    })
}

/// The alert of TLS that a code stands for (RFC 9001, 4.8).
fn alert(code: TransportErrorCode) -> Option<u8> {
    u8::try_from(u64::from(code).checked_sub(CRYPTO_ERROR)?).ok()
}

/// CRYPTO_ERROR (RFC 9000, 20.1): the first of 256 codes.
const CRYPTO_ERROR: u64 = 0x100;

/// How many failures of handshakes are logged in a second at a socket, of clients that have not
/// shown that their addresses are their own.
const TOLD_PER_SECOND: u64 = 10;

/// How many of them at once.
const TOLD_BURST: u32 = 20;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use quinn::{ApplicationClose, ConnectionClose};

    use super::*;

    #[test]
    fn failures_of_unproven_clients_are_told_at_a_rate_that_a_flood_does_not_raise() {
        let unproven = Unproven::new();
        let told = |second| {
            let now = Instant::ZERO + Duration::from_secs(second);
            (0..10_000).filter(|_| unproven.may_tell(now)).count()
        };
        assert_eq!([0, 1, 2].map(told), [20, 10, 10]);
    }

    #[test]
    fn a_failed_handshake_is_its_clients_fault_unless_it_is_ours() {
        let refused = |code: TransportErrorCode| ConnectionError::TransportError(code.into());
        let closed = |error_code| {
            let (frame_type, reason) = (None, Bytes::new());
            ConnectionError::ConnectionClosed(ConnectionClose { error_code, frame_type, reason })
        };
        let left = ApplicationClose { error_code: VarInt::default(), reason: Bytes::new() };
        let ending = |error: &ConnectionError| fault(Some(error)).map(|(ending, _)| ending);
        let no_protocol = TransportErrorCode::crypto(120);
        for (error, ended) in [
            (refused(no_protocol), Some(Ending::ClientBad)),
            (refused(TransportErrorCode::PROTOCOL_VIOLATION), Some(Ending::ClientBad)),
            (refused(TransportErrorCode::INTERNAL_ERROR), None),
            (closed(TransportErrorCode::crypto(48)), Some(Ending::ClientBad)),
            (closed(TransportErrorCode::NO_ERROR), Some(Ending::ClientGone)),
            (closed(TransportErrorCode::APPLICATION_ERROR), Some(Ending::ClientGone)),
            (ConnectionError::ApplicationClosed(left), Some(Ending::ClientGone)),
            (ConnectionError::TimedOut, Some(Ending::ClientTimeout)),
            (ConnectionError::LocallyClosed, None),
        ] {
            assert_eq!(ending(&error), ended, "{error:?}");
        }
        assert_eq!(fault(None), Some((Ending::ClientTimeout, None)));
    }
}
