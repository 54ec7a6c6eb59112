//! Which responses of a service are compressed, and how.

use alloc::vec::Vec;

use crate::{
    compress::{Algorithm, MediaRange},
    units::Bytes,
};

/// How responses of a service are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// What may be used; of what a client likes equally, the first is taken.
    pub algorithms: Vec<Algorithm>,
    /// How hard each of them tries while there is CPU time to spare.
    pub levels: Levels,
    /// Which media types are compressed.
    pub types: Vec<MediaRange>,
    /// A shorter body stays as it is, where its length is known before it is sent.
    pub min_size: Bytes,
    /// Whether responses are compressed that may hold a secret of a user beside text of somebody
    /// else's ([`crate::compress::Offer`]).
    pub credentials: bool,
}

impl Compression {
    /// Whether a body of this length stays as it is. An empty one always does: it would grow.
    #[must_use]
    pub const fn is_short(&self, length: u64) -> bool {
        length == 0 || length < self.min_size.get()
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            algorithms: Algorithm::ALL.into(),
            levels: Levels::default(),
            types: MediaRange::compressible(),
            min_size: Bytes::new(1_000),
            credentials: false,
        }
    }
}

/// The level of each algorithm, as its own documentation counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// 1 to 9.
    pub gzip: u32,
    /// 0 to 9.
    pub brotli: u32,
    /// 1 to 12.
    pub zstd: u32,
}

impl Levels {
    /// The level of this algorithm.
    #[must_use]
    pub const fn of(self, algorithm: Algorithm) -> u32 {
        match algorithm {
            Algorithm::Gzip => self.gzip,
            Algorithm::Brotli => self.brotli,
            Algorithm::Zstd => self.zstd,
        }
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self { gzip: 5, brotli: 4, zstd: 3 }
    }
}
