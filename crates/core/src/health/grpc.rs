//! The health check of gRPC (`grpc.health.v1.Health/Check`): what is sent, and what is made of the
//! response.
//!
//! A message is a byte that says whether it is compressed, its length in four, and Protocol
//! Buffers: `HealthCheckRequest { string service = 1; }`, and
//! `HealthCheckResponse { ServingStatus status = 1; }`. How the call itself went comes after it, in
//! the trailers `grpc-status` and `grpc-message`. Only a call that went well and says SERVING
//! passes.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

/// The path of the call.
pub const PATH: &str = "/grpc.health.v1.Health/Check";

/// The longest body of a response that is read, in bytes. The message itself takes seven.
pub const BODY_MAX: usize = 4 << 10;

/// The response of a server to a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response<'a> {
    /// The status of HTTP.
    pub status: u16,
    /// The value of `content-type`.
    pub content_type: &'a [u8],
    /// The value of `grpc-status`, in the trailers or the only head; none where it is missing.
    pub grpc_status: Option<&'a [u8]>,
    /// The value of `grpc-message`.
    pub grpc_message: &'a [u8],
    /// The body: no message, or one.
    pub body: &'a [u8],
}

/// Why a server does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The status of HTTP is not 200: gRPC says everything else in its own.
    #[error("answered {0}")]
    Status(u16),
    /// What came is no gRPC.
    #[error("the answer is not gRPC (content-type {0:?})")]
    ContentType(String),
    /// It ended without saying how the call went.
    #[error("no grpc-status in the answer")]
    NoStatus,
    /// The call failed: the code with its name, and what the server says of it.
    #[error("gRPC status {0}{1}")]
    Failed(String, String),
    /// The server is there and does not want requests.
    #[error("health status {0}")]
    NotServing(ServingStatus),
    /// The message cannot be read.
    #[error("bad gRPC message: {0}")]
    Message(&'static str),
}

/// What a server says of one of its services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingStatus {
    /// 0, which is what a message without a status says too.
    Unknown,
    /// 1.
    Serving,
    /// 2.
    NotServing,
    /// 3; only `Watch` gives it.
    ServiceUnknown,
    /// What a later version may say.
    Other(u64),
}

impl fmt::Display for ServingStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("UNKNOWN"),
            Self::Serving => f.write_str("SERVING"),
            Self::NotServing => f.write_str("NOT_SERVING"),
            Self::ServiceUnknown => f.write_str("SERVICE_UNKNOWN"),
            Self::Other(number) => write!(f, "{number}"),
        }
    }
}

/// The body of the request that asks for this service; an empty name is the whole server.
#[must_use]
pub fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(service.len() + 4);
    if !service.is_empty() {
        message.push(SERVICE_TAG);
        write_varint(service.len() as u64, &mut message);
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], &message].concat()
}

/// Whether a server passes that responds so.
///
/// # Errors
/// [`Refusal`] where it does not.
pub fn judge(response: &Response<'_>) -> Result<(), Refusal> {
    if response.status != 200 {
        return Err(Refusal::Status(response.status));
    }
    if !response.content_type.starts_with(b"application/grpc") {
        return Err(Refusal::ContentType(shown(response.content_type)));
    }
    let code = response.grpc_status.ok_or(Refusal::NoStatus)?;
    if code != b"0" {
        return Err(failed(code, response.grpc_message));
    }
    match serving_status(message(response.body)?)? {
        ServingStatus::Serving => Ok(()),
        other => Err(Refusal::NotServing(other)),
    }
}

/// The status of HTTP for a call of gRPC that ended like this, where the server is at fault; 200
/// for all others. `code` is the value of `grpc-status`.
#[must_use]
pub const fn counted_status(code: &[u8]) -> u16 {
    match code {
        b"2" | b"13" | b"15" => 500,
        b"14" => 503,
        b"4" => 504,
        _ => 200,
    }
}

fn failed(code: &[u8], message: &[u8]) -> Refusal {
    let number = core::str::from_utf8(code).ok().and_then(|code| code.parse::<usize>().ok());
    let name = number.and_then(|number| CODES.get(number));
    let code = name.map_or_else(|| shown(code), |name| format!("{} {name}", shown(code)));
    let said = match message {
        [] => String::new(),
        message => format!(": {}", shown(&unescaped(message))),
    };
    Refusal::Failed(code, said)
}

/// The text of a `grpc-message`, in which bytes that a header cannot have stand as `%` and two
/// digits.
#[must_use]
pub fn unescaped(mut message: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(message.len());
    while let [first, after @ ..] = message {
        let escaped = match message {
            [b'%', high, low, rest @ ..] => digit(*high).zip(digit(*low)).map(|it| (it, rest)),
            _ => None,
        };
        let (byte, rest) = match escaped {
            Some(((high, low), rest)) => (high << 4 | low, rest),
            None => (*first, after),
        };
        text.push(byte);
        message = rest;
    }
    text
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The one message of a body.
fn message(body: &[u8]) -> Result<&[u8], Refusal> {
    let Some((prefix, message)) = body.split_first_chunk::<5>() else {
        return Err(Refusal::Message("it is cut"));
    };
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err(Refusal::Message("it is compressed, which was not asked for"));
    }
    match message.len().cmp(&(u32::from_be_bytes(length) as usize)) {
        core::cmp::Ordering::Less => Err(Refusal::Message("it is cut")),
        core::cmp::Ordering::Equal => Ok(message),
        core::cmp::Ordering::Greater => Err(Refusal::Message("more follows it")),
    }
}

/// The status that a message says; the last one counts, and what is not known is passed over.
fn serving_status(mut message: &[u8]) -> Result<ServingStatus, Refusal> {
    let mut status = 0;
    while !message.is_empty() {
        let tag = read_varint(&mut message)?;
        let skipped = match tag & 7 {
            0 => {
                let value = read_varint(&mut message)?;
                if tag >> 3 == STATUS_FIELD {
                    status = value;
                }
                0
            }
            1 => 8,
            2 => read_varint(&mut message)?,
            5 => 4,
            _ => return Err(Refusal::Message("a field of no known type")),
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        message = message.get(skipped..).ok_or(Refusal::Message("a field is cut"))?;
    }
    Ok(match status {
        0 => ServingStatus::Unknown,
        1 => ServingStatus::Serving,
        2 => ServingStatus::NotServing,
        3 => ServingStatus::ServiceUnknown,
        other => ServingStatus::Other(other),
    })
}

/// Takes a number of 7 bits a byte, the lowest first, off the beginning.
fn read_varint(bytes: &mut &[u8]) -> Result<u64, Refusal> {
    let mut value = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Refusal::Message("a number is cut"))?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Refusal::Message("a number is too long"))
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The beginning of what a server said, in characters that do no harm in a log.
fn shown(text: &[u8]) -> String {
    text.iter().take(SHOWN_MAX).copied().collect::<Vec<u8>>().escape_ascii().to_string()
}

/// Field 1 of the request, with its length before it.
const SERVICE_TAG: u8 = 1 << 3 | 2;

/// The field of the response that has the status.
const STATUS_FIELD: u64 = 1;

/// Enough to know what is wrong.
const SHOWN_MAX: usize = 80;

/// The names of the codes of gRPC, by their number.
const CODES: [&str; 17] = [
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A call that went well with this body.
    fn went_well(body: &[u8]) -> Response<'_> {
        let content_type = b"application/grpc".as_slice();
        let grpc_status = Some(b"0".as_slice());
        Response { status: 200, content_type, grpc_status, grpc_message: b"", body }
    }

    fn told(response: &Response<'_>) -> String {
        judge(response).map_or_else(|refusal| refusal.to_string(), |()| "passes".to_string())
    }

    #[test]
    fn the_request_is_the_one_of_the_reference_implementation() {
        assert_eq!(request(""), b"\0\0\0\0\0");
        assert_eq!(request("a.B"), b"\0\0\0\0\x05\x0a\x03a.B");
        let long = request(&"x".repeat(200));
        assert_eq!(&long[..8], b"\0\0\0\0\xcb\x0a\xc8\x01");
    }

    #[test]
    fn only_serving_passes_and_every_other_message_is_named() {
        for (body, expected) in [
            (&b"\0\0\0\0\x02\x08\x01"[..], "passes"),
            (b"\0\0\0\0\x02\x08\x02", "health status NOT_SERVING"),
            (b"\0\0\0\0\x02\x08\x03", "health status SERVICE_UNKNOWN"),
            (b"\0\0\0\0\x02\x08\x00", "health status UNKNOWN"),
            (b"\0\0\0\0\0", "health status UNKNOWN"),
            (b"\0\0\0\0\x03\x08\x80\x02", "health status 256"),
            (b"\0\0\0\0\x04\x08\x02\x08\x01", "passes"),
            // Fields that a later version may add, of each type.
            (b"\0\0\0\0\x04\x10\x05\x08\x01", "passes"),
            (b"\0\0\0\0\x06\x12\x02hi\x08\x01", "passes"),
            (b"\0\0\0\0\x0b\x1112345678\x08\x01", "passes"),
            (b"\0\0\0\0\x07\x151234\x08\x01", "passes"),
            (b"", "bad gRPC message: it is cut"),
            (b"\0\0\0\0", "bad gRPC message: it is cut"),
            (b"\0\0\0\0\x03\x08\x01", "bad gRPC message: it is cut"),
            (b"\0\0\0\0\x02\x08\x01\0", "bad gRPC message: more follows it"),
            (
                b"\x01\0\0\0\x02\x08\x01",
                "bad gRPC message: it is compressed, which was not asked for",
            ),
            (b"\0\0\0\0\x01\x08", "bad gRPC message: a number is cut"),
            (b"\0\0\0\0\x03\x12\x02h", "bad gRPC message: a field is cut"),
            (b"\0\0\0\0\x01\x0b", "bad gRPC message: a field of no known type"),
            (
                b"\0\0\0\0\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                "bad gRPC message: a number is too long",
            ),
        ] {
            assert_eq!(told(&went_well(body)), expected, "{body:x?}");
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let read = unescaped(b"50%25 of \"a%0Ab\" %zz %+1 %");
        assert_eq!(read, b"50% of \"a\nb\" %zz %+1 %");
    }

    #[test]
    fn a_call_that_did_not_go_well_is_told_with_its_code() {
        let serving = went_well(b"\0\0\0\0\x02\x08\x01");
        let with = |code: &'static [u8], grpc_message: &'static [u8]| {
            told(&Response { grpc_status: Some(code), grpc_message, ..serving })
        };
        assert_eq!(with(b"12", b""), "gRPC status 12 UNIMPLEMENTED");
        assert_eq!(with(b"5", b"unknown service"), "gRPC status 5 NOT_FOUND: unknown service");
        assert_eq!(with(b"99", b"a\nb"), "gRPC status 99: a\\nb");
        assert_eq!(with(b"", b""), "gRPC status ");
        let decoded = "gRPC status 14 UNAVAILABLE: 50% of it\\n\\x1b[m";
        assert_eq!(with(b"14", b"50%25 of it%0A%1b[m"), decoded);
        let long = with(b"14", &[b'x'; 1_000]);
        assert!(long.len() < 120, "{long}");
        assert_eq!(
            told(&Response { grpc_status: None, ..serving }),
            "no grpc-status in the answer"
        );
        assert_eq!(told(&Response { status: 503, ..serving }), "answered 503");
        let html = Response { content_type: b"text/html", ..serving };
        assert_eq!(told(&html), "the answer is not gRPC (content-type \"text/html\")");
    }

    proptest! {
        #[test]
        fn no_body_panics_and_only_serving_passes(
            body in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let framed = [&[0, 0, 0, 0, body.len() as u8][..], &body].concat();
            for body in [&body, &framed] {
                if judge(&went_well(body)).is_ok() {
                    prop_assert!(body.windows(2).any(|pair| pair == [8, 1]));
                }
            }
        }
    }
}
