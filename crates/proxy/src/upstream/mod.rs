//! Connections to servers.
//!
//! | | |
//! |---|---|
//! | `dial` | opens one |
//! | `pool` | keeps them for the next request, closes those nobody uses |
//! | `idle` | one between two messages |
//! | `private` | one on which a client has authenticated, kept for that client |
//! | `unix` | opens those to Unix sockets |
//! | `prewarm` | opens them before the first request needs them |

pub(crate) mod dial;
pub(crate) mod idle;
pub(crate) mod pool;
pub(crate) mod prewarm;
pub(crate) mod private;
pub(crate) mod unix;
