//! A stream that ends before its request is there: how that is counted, logged and told.

use h3::error::{Code, StreamError};
use loadline_core::decide::{ending::Ending, reason::Reason};
use loadline_http1::ParseError;

use crate::http::session::Origin;

/// Why a stream has no request.
pub(super) struct NoRequest {
    ending: Ending,
    /// What the client has been told.
    status: u16,
    reason: Reason,
}

impl NoRequest {
    /// Its client has gone.
    pub(super) const GONE: Self =
        Self { ending: Ending::ClientGone, status: 0, reason: Reason::ClientGone };

    /// Its client broke a rule to which this code belongs.
    pub(super) const fn bad(code: u64) -> Self {
        Self { ending: Ending::ClientBad, status: 0, reason: Reason::http3_violation(code) }
    }

    /// Counts and logs it.
    pub(super) fn note(&self, origin: &Origin) {
        let reason = match self.status {
            431 => ParseError::HeadTooLarge.to_string(),
            _ => self.reason.text().to_owned(),
        };
        origin.end_unread_because((self.ending, self.status), &reason);
    }

    /// Why h3 gives none. A stream that breaks a rule of the whole connection, which is about to be
    /// closed for it then, is counted with the connection.
    pub(super) fn of(error: &StreamError, quinn: &quinn::Connection) -> Option<Self> {
        match error {
            StreamError::HeaderTooBig { .. } => {
                Some(Self { status: 431, ..Self::bad(Code::H3_MESSAGE_ERROR.value()) })
            }
            StreamError::StreamError { code: Code::H3_MESSAGE_ERROR, .. } => {
                Some(Self::bad(Code::H3_MESSAGE_ERROR.value()))
            }
            StreamError::StreamError { .. } | StreamError::RemoteTerminate { .. } => {
                Some(Self::GONE)
            }
            _ => quinn.close_reason().map(|_| Self::GONE),
        }
    }
}
