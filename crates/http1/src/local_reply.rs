//! Answers the proxy gives itself.

use crate::build::write_text;

/// A short response of the proxy's own. Its body is a page, or the reason as plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalReply<'a> {
    /// HTTP status code.
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
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_a_store_or_an_operator_chooses_has_its_reason_in_line_and_body() {
        for (status, reason) in [
            (412, "Precondition Failed"),
            (416, "Range Not Satisfiable"),
            (451, "Unavailable For Legal Reasons"),
            (511, "Network Authentication Required"),
        ] {
            let mut out = Vec::new();
            LocalReply::closing(status).write(&mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status} {reason}\r\n")), "{text}");
            assert!(text.ends_with(&format!("\r\n\r\n{reason}\n")), "{text}");
        }
        assert_eq!(reason(299), "");
    }
}
