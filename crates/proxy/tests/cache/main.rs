//! Conversations through a cache: what is answered from it, who waits for whom, what is stored.

mod collapsing;
mod hits;
mod stale;
mod support;
