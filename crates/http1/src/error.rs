//! Why a message is refused.
//!
//! Every rule of the parser has a variant of its own, so that a log line or a counter says which
//! rule a peer broke. [`ParseError::status`] maps a refused *request* to the response; a refused
//! *response* is always a 502 towards the client, whatever the variant.

use thiserror::Error;

/// A message that breaks HTTP/1 syntax, or one of the stricter rules of this crate.
///
/// After any of these the position of the next message is unknown: answer and close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ParseError {
    /// The request line is longer than the limit for the head.
    #[error("request line exceeds the head limit")]
    TargetTooLong,
    /// The head is longer than its limit.
    #[error("head exceeds its size limit")]
    HeadTooLarge,
    /// The head has more fields than its limit.
    #[error("head has too many fields")]
    TooManyFields,
    /// More than one empty line before the request line.
    #[error("more than one empty line before the request")]
    LeadingEmptyLines,
    /// A line feed without a carriage return before it.
    #[error("bare line feed")]
    BareLf,
    /// A carriage return without a line feed after it.
    #[error("bare carriage return")]
    BareCr,
    /// A NUL, DEL or another control character (a tab in a field value is none of these).
    #[error("control character")]
    ControlByte,
    /// The request line is not `method SP target SP version`.
    #[error("malformed request line")]
    BadRequestLine,
    /// The method is not a token.
    #[error("malformed method")]
    BadMethod,
    /// The target is in none of the four forms, or its form does not go with the method.
    #[error("malformed request target")]
    BadTarget,
    /// The version is not `HTTP/` digit `.` digit.
    #[error("malformed protocol version")]
    BadVersion,
    /// A well-formed version other than HTTP/1.x.
    #[error("unsupported protocol version")]
    UnsupportedVersion,
    /// The status line is not `version SP three digits [SP reason]`.
    #[error("malformed status line")]
    BadStatusLine,
    /// A line that begins with white space (obsolete folding, or white space before the fields).
    #[error("folded field line")]
    ObsFold,
    /// White space between a field name and its colon.
    #[error("white space before the colon")]
    SpaceBeforeColon,
    /// A field line that begins with the colon.
    #[error("empty field name")]
    EmptyFieldName,
    /// A field name with a byte that is not part of a token, or a line without a colon.
    #[error("malformed field name")]
    BadFieldName,
    /// A field name with an underscore, where such are refused.
    #[error("underscore in a field name")]
    UnderscoreInName,
    /// An HTTP/1.1 request without Host.
    #[error("Host is missing")]
    MissingHost,
    /// More than one Host, even if equal.
    #[error("more than one Host")]
    DuplicateHost,
    /// The host is not `name[:port]`: user information, a list, white space, a bad port.
    #[error("malformed host")]
    BadHost,
    /// More than one Content-Length, even if equal.
    #[error("more than one Content-Length")]
    DuplicateContentLength,
    /// Content-Length is not decimal digits: a sign, white space, a list, empty.
    #[error("malformed Content-Length")]
    BadContentLength,
    /// Content-Length does not fit 63 bits.
    #[error("Content-Length overflows")]
    ContentLengthOverflow,
    /// Content-Length together with Transfer-Encoding.
    #[error("Content-Length together with Transfer-Encoding")]
    LengthAndTransferEncoding,
    /// More than one Transfer-Encoding field.
    #[error("more than one Transfer-Encoding")]
    DuplicateTransferEncoding,
    /// `chunked` twice, not last, with a parameter, or a value that is no list of tokens.
    #[error("malformed Transfer-Encoding")]
    BadTransferEncoding,
    /// A transfer coding other than `chunked`.
    #[error("unknown transfer coding")]
    UnknownTransferCoding,
    /// Transfer-Encoding in an HTTP/1.0 message.
    #[error("Transfer-Encoding in an HTTP/1.0 message")]
    TransferEncodingOnHttp10,
    /// The body of a request is longer than its limit.
    #[error("body exceeds its size limit")]
    BodyTooLarge,
    /// CONNECT with a body.
    #[error("CONNECT with a body")]
    ConnectWithBody,
    /// Connection names more fields than any honest message does.
    #[error("Connection names too many fields")]
    TooManyConnectionOptions,
    /// A chunk size that is missing or has a byte other than a hexadecimal digit.
    #[error("malformed chunk size")]
    BadChunkSize,
    /// A chunk size that does not fit 60 bits, or is written with too many digits.
    #[error("chunk size has too many digits")]
    ChunkSizeOverflow,
    /// A chunk extension without a name, with an open quote, or with a character that none has.
    #[error("malformed chunk extension")]
    BadChunkExtension,
    /// A chunk extension longer than its limit.
    #[error("chunk extension too long")]
    ChunkExtensionTooLong,
    /// The data of a chunk is not followed by CR LF.
    #[error("chunk data is not followed by CR LF")]
    MissingChunkEnd,
    /// A trailer field that frames, routes or concerns the connection.
    #[error("forbidden trailer field")]
    ForbiddenTrailer,
    /// The trailer section is longer than its limit, or has too many fields.
    #[error("trailer section exceeds its limit")]
    TrailersTooLarge,
    /// The peer closed before the end of the body.
    #[error("body cut short")]
    TruncatedBody,
}

impl ParseError {
    /// The status that answers a request refused for this reason.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::BodyTooLarge => 413,
            Self::TargetTooLong => 414,
            Self::HeadTooLarge | Self::TooManyFields | Self::TrailersTooLarge => 431,
            Self::UnknownTransferCoding => 501,
            Self::UnsupportedVersion => 505,
            _ => 400,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ParseError;

    #[test]
    fn each_kind_of_refusal_has_its_status() {
        assert_eq!(ParseError::BareLf.status(), 400);
        assert_eq!(ParseError::BodyTooLarge.status(), 413);
        assert_eq!(ParseError::TargetTooLong.status(), 414);
        assert_eq!(ParseError::HeadTooLarge.status(), 431);
        assert_eq!(ParseError::TooManyFields.status(), 431);
        assert_eq!(ParseError::UnknownTransferCoding.status(), 501);
        assert_eq!(ParseError::UnsupportedVersion.status(), 505);
    }
}
