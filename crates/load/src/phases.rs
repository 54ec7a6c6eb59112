//! How long the parts of one exchange took.

use loadline_core::time::Duration;

/// Durations of the phases of an exchange; none for a phase that it did not go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PhaseTimes {
    /// Waiting for one of a limited number of connections: before the service time.
    pub(crate) queued: Option<Duration>,
    /// Looking the host's name up: on the first response of a run only.
    pub(crate) dns: Option<Duration>,
    /// Opening the TCP connection, or the handshake of QUIC: on new connections only.
    pub(crate) connect: Option<Duration>,
    /// The TLS handshake over TCP: on new connections only.
    pub(crate) tls: Option<Duration>,
    /// From the request's last byte sent to the response's first byte read, also where that is one
    /// of an interim response.
    pub(crate) first_byte: Option<Duration>,
    /// From the response's first byte to its last.
    pub(crate) body: Option<Duration>,
}

impl PhaseTimes {
    /// These phases of an exchange after those of opening its connection.
    pub(crate) fn after(self, opened: Self) -> Self {
        Self { connect: opened.connect, tls: opened.tls, ..self }
    }
}
