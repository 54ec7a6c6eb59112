//! Where a body ends.
//!
//! The rules of RFC 9112, section 6.3, without its leniencies: whatever two implementations might
//! read in two ways is refused, on requests and on responses alike. Equal duplicates of
//! Content-Length are refused too: the RFC allows to accept them, no honest sender makes them.

use crate::error::ParseError;
use crate::scan::{is_token, trim};

/// How the end of a message's body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body (a Content-Length of 0 is this as well).
    None,
    /// The body has this many bytes, at least one.
    Length(u64),
    /// The body comes in chunks, with trailers after the last.
    Chunked,
    /// The body of a response ends where the connection does.
    UntilClose,
}

/// What a head says about its body.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FramingFields {
    pub(crate) content_length: Option<u64>,
    pub(crate) chunked: bool,
    /// The field is valid, but written in a way that a careless reader might take for something
    /// else (tabs, leading zeros, white space at the end): it is written anew when forwarded.
    pub(crate) unusual: bool,
}

impl FramingFields {
    /// Takes a Content-Length.
    ///
    /// # Errors
    /// If it is not the first, not decimal digits, or does not fit 63 bits.
    pub(crate) fn content_length(&mut self, value: &[u8]) -> Result<(), ParseError> {
        if self.content_length.is_some() {
            return Err(ParseError::DuplicateContentLength);
        }
        self.content_length = Some(decimal(value)?);
        self.unusual |= value.len() > 1 && value[0] == b'0';
        Ok(())
    }

    /// Takes a Transfer-Encoding.
    ///
    /// # Errors
    /// If it is not the first, or anything but `chunked`.
    pub(crate) fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), ParseError> {
        if self.chunked {
            return Err(ParseError::DuplicateTransferEncoding);
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(bad_coding(value));
        }
        self.chunked = true;
        Ok(())
    }

    /// The framing these fields give, if the message may have a body.
    ///
    /// # Errors
    /// If both fields are there, or the message is HTTP/1.0 and has a Transfer-Encoding.
    pub(crate) fn decide(self, is_http10: bool) -> Result<Option<Framing>, ParseError> {
        match (self.chunked, self.content_length) {
            (true, Some(_)) => Err(ParseError::LengthAndTransferEncoding),
            (true, None) if is_http10 => Err(ParseError::TransferEncodingOnHttp10),
            (true, None) => Ok(Some(Framing::Chunked)),
            (false, Some(0)) => Ok(Some(Framing::None)),
            (false, Some(length)) => Ok(Some(Framing::Length(length))),
            (false, None) => Ok(None),
        }
    }
}

/// A decimal number that fits 63 bits.
fn decimal(digits: &[u8]) -> Result<u64, ParseError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ParseError::BadContentLength);
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    number.filter(|&number| number <= i64::MAX as u64).ok_or(ParseError::ContentLengthOverflow)
}

/// Whether a Transfer-Encoding that is not `chunked` is malformed or merely unknown.
#[cold]
fn bad_coding(value: &[u8]) -> ParseError {
    let mut codings = value.split(|&byte| byte == b',').map(trim);
    let chunked_early = codings.clone().rev().skip(1).any(is_chunked);
    if chunked_early || !codings.all(is_token) {
        return ParseError::BadTransferEncoding;
    }
    ParseError::UnknownTransferCoding
}

fn is_chunked(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"chunked")
}
