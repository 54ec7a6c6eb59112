//! Conversations through a cache: what is answered from it, who waits for whom, what is stored.

#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod capacity;
mod collapsing;
mod compressed;
mod disk;
mod hits;
mod http2;
mod in_place;
mod logged;
mod parts;
mod sessions;
mod slices;
mod stale;
mod support;
mod untrusted;
