//! Answers the proxy gives itself.

use crate::build::write_text;

/// A short response of the proxy's own. Its body is a page, or the reason as plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalReply<'a> {
    /// The status.
    pub status: u16,
    /// Seconds after which the client may try again.
    pub retry_after: Option<u32>,
    /// Whether the connection is closed afterwards.
    pub close: bool,
    /// The request was HEAD: the length is told, the body is not sent.
    pub to_head: bool,
    /// The value of `Content-Type`, and the body; the reason as plain text if omitted.
    pub page: Option<(&'a str, &'a [u8])>,
    /// Complete lines to add to the head, each with its CR LF.
    pub extra: &'a [u8],
}

impl LocalReply<'_> {
    /// A response with this status after which the connection is closed.
    #[must_use]
    pub const fn closing(status: u16) -> Self {
        Self { status, retry_after: None, close: true, to_head: false, page: None, extra: b"" }
    }

    /// Appends the response, head and body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (status, reason) = (self.status, reason(self.status));
        let (kind, length) = match self.page {
            Some((kind, body)) => (kind, body.len()),
            None => ("text/plain", reason.len() + 1),
        };
        write_text(out, format_args!("HTTP/1.1 {status} {reason}\r\n"));
        write_text(out, format_args!("Content-Type: {kind}\r\nContent-Length: {length}\r\n"));
        if let Some(seconds) = self.retry_after {
            write_text(out, format_args!("Retry-After: {seconds}\r\n"));
        }
        out.extend_from_slice(self.extra);
        let connection = if self.close { "close" } else { "keep-alive" };
        write_text(out, format_args!("Connection: {connection}\r\n\r\n"));
        match self.page {
            _ if self.to_head => {}
            Some((_, body)) => out.extend_from_slice(body),
            None => {
                out.extend_from_slice(reason.as_bytes());
                out.push(b'\n');
            }
        }
    }
}

/// The interim response that lets a client send its body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The reason that goes with a status, empty for one that is not registered.
#[must_use]
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        421 => "Misdirected Request",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
