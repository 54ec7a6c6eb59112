//! Why a request failed, in words that a search engine knows.
//!
//! An [`Ending`] says what became of a request, a [`Reason`] what was met on the way. Each reason
//! has one text, which access log, warnings, metrics and API show alike, and one ending that
//! follows from it while nothing of a response has reached the client.

mod list;

use core::{error::Error, fmt};

pub use list::Reason;

use crate::decide::ending::Ending;

/// How far an exchange with a server had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Until the TCP connection stands.
    Connect,
    /// Until both sides have agreed on TLS.
    Handshake,
    /// Until the request, without its body, is with the kernel.
    Send,
    /// Until the first byte of the response.
    Await,
    /// Until the end of the response's head.
    Head,
    /// Until the end of the response's body.
    Body,
}

impl Phase {
    /// Why a request fails that met the deadline.
    #[must_use]
    pub const fn timeout(self) -> Reason {
        match self {
            Self::Connect => Reason::ConnectTimeout,
            Self::Handshake => Reason::TlsTimeout,
            Self::Send => Reason::SendTimeout,
            Self::Await => Reason::ResponseTimeout,
            Self::Head => Reason::HeadTimeout,
            Self::Body => Reason::BodyTimeout,
        }
    }

    /// Why a request fails that met the end of the stream.
    #[must_use]
    pub const fn closed(self) -> Reason {
        match self {
            Self::Connect => Reason::ResetWhileConnecting,
            Self::Handshake => Reason::TlsClosed,
            Self::Send => Reason::BrokenPipe,
            Self::Await => Reason::EmptyReply,
            Self::Head => Reason::ClosedInHead,
            Self::Body => Reason::ClosedInBody,
        }
    }
}

impl Reason {
    /// The words of logs, metrics and API.
    #[must_use]
    pub const fn text(self) -> &'static str {
        list::TEXTS[self as usize]
    }

    /// How a request ends for this reason, as long as its client has seen no response.
    #[must_use]
    pub const fn ending(self) -> Ending {
        list::ENDINGS[self as usize]
    }

    /// The more exact reason, where it is known how far the exchange had come.
    #[must_use]
    pub const fn during(self, phase: Phase) -> Self {
        match (self, phase) {
            (Self::TimedOut, phase) => phase.timeout(),
            (Self::Closed, phase) => phase.closed(),
            (Self::Reset, Phase::Connect) => Self::ResetWhileConnecting,
            (Self::Reset, Phase::Handshake) => Self::TlsReset,
            (Self::Reset, Phase::Send) => Self::ResetWhileSending,
            (Self::Reset, Phase::Await) => Self::ResetBeforeResponse,
            (Self::Reset, Phase::Head) => Self::ResetInHead,
            (Self::Reset, Phase::Body) => Self::ResetInBody,
            (Self::TlsUnexpectedEof, Phase::Handshake) => Self::TlsClosed,
            // Whoever reads finds out first that nothing can be written any more.
            (Self::BrokenPipe, Phase::Await | Phase::Head | Phase::Body) => phase.closed(),
            (reason, _) => reason,
        }
    }

    /// The reason that is known where an ending alone is; none where nothing failed.
    #[must_use]
    pub const fn of(ending: Ending) -> Option<Self> {
        Some(match ending {
            Ending::Complete | Ending::Tunnel | Ending::Idle | Ending::Ruled | Ending::Cached => {
                return None;
            }
            Ending::ClientBad => Self::ClientBad,
            Ending::Unauthorized => Self::Unauthorized,
            Ending::ClientTimeout => Self::ClientTimeout,
            Ending::ClientGone => Self::ClientGone,
            Ending::ClientSlow => Self::ClientSlow,
            Ending::ClientLimit => Self::ClientLimit,
            Ending::Maintenance => Self::Maintenance,
            Ending::NoServer => Self::NoServer,
            Ending::Shed => Self::Full,
            Ending::QueueFull => Self::QueueFull,
            Ending::QueueTimeout => Self::QueueTimeout,
            Ending::ConnectRefused => Self::ConnectionRefused,
            Ending::ConnectUnreachable => Self::NoRouteToHost,
            Ending::ConnectTimeout => Self::ConnectTimeout,
            Ending::TlsFailed => Self::TlsError,
            Ending::TlsTimeout => Self::TlsTimeout,
            Ending::ServerReset => Self::Reset,
            Ending::ServerTimeout => Self::ResponseTimeout,
            Ending::ServerBad => Self::BadStatusLine,
            Ending::ServerHeadTooLarge => Self::HeadTooLarge,
            Ending::ServerBodyBad => Self::BadChunkSize,
            Ending::ServerBodyTooLarge => Self::BodyTooLarge,
            Ending::ServerCut => Self::ClosedInBody,
            Ending::ServerStalled => Self::BodyTimeout,
            Ending::StoreRefused => Self::StoreRefuses,
            Ending::Throttled => Self::StoreThrottled,
            Ending::NoUpgrade => Self::NoUpgrade,
            Ending::Drained => Self::DrainOver,
            Ending::Internal => Self::SystemError,
        })
    }

    /// The server answered with this status, of 500 and above, and another is asked.
    #[must_use]
    pub const fn answered(status: u16) -> Self {
        match status {
            500 => Self::Answered500,
            502 => Self::Answered502,
            503 => Self::Answered503,
            504 => Self::Answered504,
            _ => Self::Answered5xx,
        }
    }

    /// The server reset a stream of HTTP/2 with this code (RFC 9113, 7).
    #[must_use]
    pub fn http2_reset(code: u32) -> Self {
        of_code(&list::HTTP2_RESETS, code)
    }

    /// The server left a connection of HTTP/2 with this code.
    #[must_use]
    pub fn http2_goaway(code: u32) -> Self {
        of_code(&list::HTTP2_GOAWAYS, code)
    }

    /// The server broke a rule of HTTP/2 to which this code belongs.
    #[must_use]
    pub fn http2_violation(code: u32) -> Self {
        of_code(&list::HTTP2_VIOLATIONS, code)
    }

    /// The client broke a rule of HTTP/3 to which this code belongs (RFC 9114, 8.1).
    #[must_use]
    pub const fn http3_violation(code: u64) -> Self {
        match code {
            0x105 => Self::ClientFrameUnexpected,
            0x106 => Self::ClientFrameError,
            0x107 => Self::ClientExcessiveLoad,
            0x10e => Self::ClientMessageError,
            _ => Self::ClientBad,
        }
    }

    /// Why a request fails whose client went away in the middle of it for this reason.
    #[must_use]
    pub fn of_client(self) -> Self {
        match self {
            Self::ViolationProtocolError => Self::ClientProtocolError,
            Self::ViolationFlowControlError => Self::ClientFlowControlError,
            Self::ViolationStreamClosed => Self::ClientStreamClosed,
            Self::ConnectionViolated => Self::ClientConnectionViolated,
            reason if list::HTTP2_VIOLATIONS.contains(&reason) => Self::ClientBad,
            reason if reason.ending() == Ending::ClientBad => reason,
            _ => Self::ClientGone,
        }
    }
}

fn of_code(reasons: &[Reason; 15], code: u32) -> Reason {
    reasons[(code as usize).min(14)]
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Error for Reason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_reasons_read_alike() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            let same = Reason::ALL.iter().filter(|other| other.text() == reason.text());
            assert_eq!(same.count(), 1, "{reason}");
            assert!(reason.text().is_ascii() && !reason.text().contains('"'), "{reason}");
        }
    }

    #[test]
    fn each_ending_that_is_no_success_has_a_reason_that_leads_to_it() {
        for ending in Ending::ALL {
            let well = matches!(
                ending,
                Ending::Complete | Ending::Tunnel | Ending::Idle | Ending::Ruled | Ending::Cached
            );
            assert_eq!(Reason::of(ending).map(Reason::ending), (!well).then_some(ending));
        }
    }

    #[test]
    fn a_client_that_broke_a_rule_of_http2_is_not_one_that_left() {
        let told = Reason::http2_violation(3).of_client();
        assert_eq!(told.text(), "HTTP/2 violated by the client: FLOW_CONTROL_ERROR");
        for code in 0..15 {
            assert_eq!(Reason::http2_violation(code).of_client().ending(), Ending::ClientBad);
        }
        assert_eq!(Reason::http3_violation(0x10e).of_client(), Reason::ClientMessageError);
        assert_eq!(Reason::ConnectionViolated.of_client(), Reason::ClientConnectionViolated);
        assert_eq!(Reason::http2_reset(8).of_client(), Reason::ClientGone);
        assert_eq!(Reason::Reset.of_client(), Reason::ClientGone);
    }

    #[test]
    fn a_code_of_http2_that_nobody_knows_is_told_as_such() {
        assert_eq!(Reason::http2_reset(8).text(), "HTTP/2 stream reset by the server: CANCEL");
        assert!(Reason::http2_goaway(99).text().ends_with("unknown code"));
        assert!(Reason::http2_violation(6).text().ends_with("FRAME_SIZE_ERROR"));
    }
}
