//! The chunked coding, one byte at a time where it is syntax and by length where it is data.
//!
//! ```text
//! Size --;--> Extension      Data --> DataCr --> DataLf --> Size
//!   \            /            ^
//!    --> SizeLf --------------'--(size 0)--> trailers
//! ```
//! Stricter than RFC 9112: extensions of bounded length, and none behind white space (BWS) from
//! clients, whose framing is passed on to servers as it came: parsers differ in what they take for
//! the end of such a line. More lenient towards servers, of which old ones pad sizes with spaces:
//! white space behind a size is taken there, also where no extension follows.

use crate::{chunk_extension::Extension, error::ParseError};

/// Where the decoder stands within the coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunked {
    /// In the digits of a size, of which `digits` have come.
    Size { value: u64, digits: u8 },
    /// In the extensions of a chunk, of which `length` bytes have come.
    Extension { value: u64, length: u16, part: Extension },
    /// Before the line feed that ends a size.
    SizeLf { value: u64 },
    /// In the data, of which this much is to come.
    Data { left: u64 },
    /// Before the CR that ends the data.
    DataCr,
    /// Before the LF that ends the data.
    DataLf,
    /// After the last chunk.
    Trailers,
}

impl Chunked {
    pub(crate) const START: Self = Self::Size { value: 0, digits: 0 };

    /// The state after the syntax byte `byte`, where white space may follow a size if it `may_pad`.
    /// Not called for data and trailers.
    ///
    /// # Errors
    /// For each byte that the grammar does not have here.
    #[inline]
    pub(crate) const fn step(self, byte: u8, may_pad: bool) -> Result<Self, ParseError> {
        match self {
            Self::Size { value, digits } => in_size((value, digits), byte, may_pad),
            Self::Extension { value, length, part } => in_extension(value, length, part, byte),
            Self::SizeLf { value: 0 } if byte == b'\n' => Ok(Self::Trailers),
            Self::SizeLf { value } if byte == b'\n' => Ok(Self::Data { left: value }),
            Self::SizeLf { .. } => Err(ParseError::BareCr),
            Self::DataCr if byte == b'\r' => Ok(Self::DataLf),
            Self::DataLf if byte == b'\n' => Ok(Self::START),
            Self::DataCr | Self::DataLf => Err(ParseError::MissingChunkEnd),
            Self::Data { .. } | Self::Trailers => Ok(self),
        }
    }
}

#[inline]
const fn in_size(
    (value, digits): (u64, u8),
    byte: u8,
    may_pad: bool,
) -> Result<Chunked, ParseError> {
    let digit = match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        b'\r' if digits > 0 => return Ok(Chunked::SizeLf { value }),
        b';' if digits > 0 => {
            return Ok(Chunked::Extension { value, length: 0, part: Extension::BeforeName });
        }
        // As behind an extension: more extensions, or the end of the line.
        b' ' | b'\t' if digits > 0 && may_pad => {
            return Ok(Chunked::Extension { value, length: 1, part: Extension::AfterValue });
        }
        b'\n' if digits > 0 => return Err(ParseError::BareLf),
        _ => return Err(ParseError::BadChunkSize),
    };
    if digits == MAX_DIGITS {
        return Err(ParseError::ChunkSizeOverflow);
    }
    Ok(Chunked::Size { value: value << 4 | digit as u64, digits: digits + 1 })
}

const fn in_extension(
    value: u64,
    length: u16,
    part: Extension,
    byte: u8,
) -> Result<Chunked, ParseError> {
    match part.step(byte) {
        Ok(None) => Ok(Chunked::SizeLf { value }),
        Ok(Some(_)) if length == MAX_EXTENSION => Err(ParseError::ChunkExtensionTooLong),
        Ok(Some(part)) => Ok(Chunked::Extension { value, length: length + 1, part }),
        Err(error) => Err(error),
    }
}

/// Digits of a size: 15 hexadecimal digits are 60 bits, beyond any real chunk.
const MAX_DIGITS: u8 = 15;

/// Bytes of extensions in one chunk. Nobody uses extensions; attackers use them to make a proxy
/// read much for little data.
const MAX_EXTENSION: u16 = 256;
