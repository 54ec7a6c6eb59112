//! The extensions of a chunk: RFC 9112, 7.1.1. What does not follow the grammar is refused: parsers
//! differ in what they take for the end of such a line.

use crate::{error::ParseError, scan::is_token_byte};

/// Where the decoder stands within the extensions of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extension {
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Value,
    AfterValue,
    Quoted,
    Escaped,
}

impl Extension {
    /// The state after `byte`; none where it is the CR behind the last extension.
    ///
    /// # Errors
    /// For each byte that the grammar does not have here.
    pub(crate) const fn step(self, byte: u8) -> Result<Option<Self>, ParseError> {
        let is_control = byte < 0x20 && byte != b'\t' || byte == 0x7f;
        Ok(Some(match (self, byte) {
            (Self::Quoted | Self::Escaped, _) if is_control => {
                return Err(ParseError::BadChunkExtension);
            }
            (Self::Quoted, b'\\') => Self::Escaped,
            (Self::Quoted, b'"') => Self::AfterValue,
            (Self::Quoted | Self::Escaped, _) => Self::Quoted,
            (_, b'\n') => return Err(ParseError::BareLf),
            (Self::Name | Self::AfterName | Self::Value | Self::AfterValue, b'\r') => {
                return Ok(None);
            }
            (Self::Name | Self::AfterName | Self::Value | Self::AfterValue, b';') => {
                Self::BeforeName
            }
            (Self::Name | Self::AfterName, b'=') => Self::BeforeValue,
            (Self::BeforeValue, b'"') => Self::Quoted,
            (Self::BeforeName | Self::Name, _) if is_token_byte(byte) => Self::Name,
            (Self::BeforeValue | Self::Value, _) if is_token_byte(byte) => Self::Value,
            (Self::BeforeName | Self::BeforeValue, b' ' | b'\t') => self,
            (Self::Name | Self::AfterName, b' ' | b'\t') => Self::AfterName,
            (Self::Value | Self::AfterValue, b' ' | b'\t') => Self::AfterValue,
            _ => return Err(ParseError::BadChunkExtension),
        }))
    }
}
