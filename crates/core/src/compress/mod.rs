//! Compression of responses: what the client accepts, which responses are worth it, how hard the
//! compressor tries.
//!
//! | question | answered by |
//! |---|---|
//! | which codings does the client accept, which does it like best? | [`AcceptEncoding`] |
//! | may a response to this request be compressed, and how? | [`Offer`] |
//! | what becomes of this response? | [`Treatment`] |
//! | what becomes of validators, so that a client can revalidate what it has? | [`etag`] |
//! | at which level, with how much CPU time to spare? | [`Governor`], [`Effort`] |

mod accept;
mod effort;
pub mod etag;
mod media;
mod offer;
mod treatment;

pub use accept::AcceptEncoding;
pub use effort::{Effort, Governor, PERIOD};
pub use media::{MediaError, MediaRange};
pub use offer::Offer;
pub use treatment::{Response, Treatment, varies_by_coding};

/// A way to compress, registered as a content coding (RFC 9110, 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Zstandard (RFC 8878).
    Zstd,
    /// Gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Brotli,
}

impl Algorithm {
    /// All of them, in the order in which they are preferred: by what a byte less costs. Brotli
    /// needs more time than gzip for as much, at the levels that are quick enough for a response
    /// that somebody waits for (`docs/compression.md`).
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Gzip, Self::Brotli];

    /// The name of the content coding.
    #[must_use]
    pub const fn coding(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The suffix of a file that is compressed so.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }
}

/// The elements of a list in a field (RFC 9110, 5.6.1), those that are empty left out. A comma
/// between double quotes separates nothing.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let separates = move |byte: &u8| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    };
    value.split(separates).map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}
