//! Writing messages of one's own: the requests of the load generator, the responses of the test
//! servers, chunks.
//!
//! Names and values are checked, so that a value with a line end in it cannot become two fields.

use std::fmt;
use std::io::Write;

use thiserror::Error;

use crate::framing::Framing;
use crate::local_reply::reason;
use crate::scan::is_token;
use crate::target::is_authority;

/// Why a part of a message cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The method is not a token.
    #[error("`{0}` is no method")]
    Method(String),
    /// The target is empty or has white space or a control character.
    #[error("`{0}` is no request target")]
    Target(String),
    /// The host is not `name[:port]`.
    #[error("`{0}` is no host")]
    Host(String),
    /// The name is not a token, or the value has a control character.
    #[error("`{name}: {value}` is no field")]
    Field {
        /// The name that was given.
        name: String,
        /// The value that was given.
        value: String,
    },
}

/// Writes the head of a message into a buffer of the caller's.
#[derive(Debug)]
#[must_use = "the head is complete after `finish`"]
pub struct MessageBuilder<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> MessageBuilder<'a> {
    /// Begins a request: request line and Host.
    ///
    /// # Errors
    /// If one of the parts is not allowed in its place.
    pub fn request(
        out: &'a mut Vec<u8>,
        method: &str,
        target: &str,
        host: &str,
    ) -> Result<Self, BuildError> {
        if !is_token(method.as_bytes()) {
            return Err(BuildError::Method(method.to_owned()));
        }
        if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BuildError::Target(target.to_owned()));
        }
        if !is_authority(host.as_bytes()) {
            return Err(BuildError::Host(host.to_owned()));
        }
        for part in [method, " ", target, " HTTP/1.1\r\nHost: ", host, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        Ok(Self { out })
    }

    /// Begins a response: the status line, with the registered reason.
    pub fn response(out: &'a mut Vec<u8>, status: u16) -> Self {
        let status = status.clamp(100, 999);
        write_text(out, format_args!("HTTP/1.1 {status} {}\r\n", reason(status)));
        Self { out }
    }

    /// Adds a field.
    ///
    /// # Errors
    /// [`BuildError::Field`] if the name is not a token or the value has a control character.
    pub fn field(self, name: &str, value: &str) -> Result<Self, BuildError> {
        let control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
        if !is_token(name.as_bytes()) || value.bytes().any(control) {
            return Err(BuildError::Field { name: name.to_owned(), value: value.to_owned() });
        }
        for part in [name, ": ", value, "\r\n"] {
            self.out.extend_from_slice(part.as_bytes());
        }
        Ok(self)
    }

    /// Ends the head, after the field that tells the framing: none for [`Framing::None`] and
    /// [`Framing::UntilClose`] (which gets `Connection: close`). A response without a body, other
    /// than 1xx, 204 and 304, takes `Framing::Length(0)`.
    pub fn finish(self, framing: Framing) {
        match framing {
            Framing::None => {}
            Framing::Length(length) => {
                write_text(self.out, format_args!("Content-Length: {length}\r\n"));
            }
            Framing::Chunked => self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::UntilClose => self.out.extend_from_slice(b"Connection: close\r\n"),
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends `data` as one chunk; nothing if it is empty, since that would end the body.
pub fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    write_text(out, format_args!("{:x}\r\n", data.len()));
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends formatted text.
pub(crate) fn write_text(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a vector cannot fail");
}
