//! The cache.

pub mod disk;
