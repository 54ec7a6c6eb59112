//! A request and its response, as the rules see them.

use super::field::Fields;
use crate::time::UnixTime;

/// A request, as it is forwarded: after the proxy removed what [`changes_unkeyed`] names.
///
/// [`changes_unkeyed`]: super::changes_unkeyed
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, in the case received.
    pub method: &'a [u8],
    /// `http` or `https`, as the client used it.
    pub scheme: &'a [u8],
    /// The host, with the port if there is one.
    pub authority: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
    /// Its header fields.
    pub fields: Fields<'a>,
    /// Whether it has content.
    pub has_content: bool,
}

impl Request<'_> {
    /// Whether the method is `GET` or `HEAD`, whose responses this cache uses again.
    #[must_use]
    pub fn is_retrieval(&self) -> bool {
        matches!(self.method, b"GET" | b"HEAD")
    }
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// Its header fields.
    pub fields: Fields<'a>,
}

/// A request, its response, and when.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The request, as forwarded.
    pub request: Request<'a>,
    /// The head of the response, as received.
    pub response: Response<'a>,
    /// When the request was sent.
    pub requested: UnixTime,
    /// When the head of the response was received.
    pub received: UnixTime,
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::field::Field, *};
    use crate::time::Duration;

    /// 2026-11-24 12:00:00 UTC: when [`exchange`] received its response.
    pub(in crate::cache) const NOW: UnixTime = UnixTime::from_secs(1_795_521_600);

    /// `GET /a` with these fields.
    pub(in crate::cache) fn get<'a>(fields: &'a [Field<'a>]) -> Request<'a> {
        Request {
            method: b"GET",
            scheme: b"http",
            authority: b"www.example.com",
            target: b"/a",
            fields: Fields(fields),
            has_content: false,
        }
    }

    /// `GET /a`, answered after one second.
    pub(in crate::cache) fn exchange<'a>(status: u16, fields: &'a [Field<'a>]) -> Exchange<'a> {
        Exchange {
            request: get(&[]),
            response: Response { status, fields: Fields(fields) },
            requested: NOW - Duration::from_secs(1),
            received: NOW,
        }
    }
}
