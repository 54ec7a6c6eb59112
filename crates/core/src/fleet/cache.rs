//! Limits of the cache of an edge.

use alloc::string::String;

use crate::units::Bytes;

/// The limits of the cache that all routes of an edge share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Memory for responses, what is kept beside their bytes included.
    pub memory: Bytes,
    /// The longest body that is stored.
    pub max_object: Bytes,
}

/// Where the cache keeps what memory has no room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCache {
    /// A directory of its own.
    pub path: String,
    /// What its files may take together.
    pub size: Bytes,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { memory: Bytes::new(256 << 20), max_object: Bytes::new(64 << 20) }
    }
}

impl CacheLimits {
    /// The longest body that is stored in memory.
    #[must_use]
    pub fn longest(self) -> Bytes {
        self.max_object.min(Bytes::new(self.memory.get() / OBJECT_PART))
    }

    /// The longest slice: with its head and its key it has to fit into what memory stores.
    #[must_use]
    pub fn longest_slice(self) -> Bytes {
        Bytes::new(self.longest().get() / 2)
    }
}

/// What an object may take of the memory, as the eviction has it.
const OBJECT_PART: u64 = 8;
