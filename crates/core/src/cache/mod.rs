//! The decisions of the cache: which objects stay in it.

pub mod eviction;
