//! The Connection field: what a message says about the connection it came on.

use crate::error::ParseError;
use crate::scan::trim;

/// The connection options of a message, from all its Connection fields.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionOptions {
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
    /// How many options are none of those: names of fields that end at this hop.
    pub(crate) others: u8,
}

impl ConnectionOptions {
    /// Takes the value of one Connection field.
    ///
    /// # Errors
    /// If the message names more than [`MAX_OTHERS`] fields: looking each field of a message up
    /// among thousands of names would be an easy way to keep a proxy busy.
    pub(crate) fn add(&mut self, value: &[u8]) -> Result<(), ParseError> {
        for option in options(value) {
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else if self.others == MAX_OTHERS {
                return Err(ParseError::TooManyConnectionOptions);
            } else {
                self.others += 1;
            }
        }
        Ok(())
    }

    /// Whether the connection may be used again after this message.
    pub(crate) const fn persists(self, is_http10: bool) -> bool {
        !self.close && (!is_http10 || self.keep_alive)
    }
}

/// The members of a comma-separated list, without white space, empty ones left out.
pub(crate) fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|option| !option.is_empty())
}

/// Whether a comma-separated list has `option`, in any case.
pub(crate) fn lists(value: &[u8], option: &[u8]) -> bool {
    options(value).any(|other| other.eq_ignore_ascii_case(option))
}

/// The most field names a message may name in Connection; real ones name one or two.
const MAX_OTHERS: u8 = 32;
