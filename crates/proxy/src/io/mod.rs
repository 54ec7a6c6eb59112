//! Bytes: sockets, buffers, pipes.
//!
//! | | |
//! |---|---|
//! | `socket` | TCP, TLS over it, or a stream of HTTP/2 |
//! | `peer` | a socket, and the bytes it sent that nobody has used yet |
//! | `untaken` | how long a peer is waited for that has not taken all |
//! | `hang_up` | tells when a connection breaks from which nothing more is read |
//! | `buffer` | memory that a connection borrows while it has bytes |
//! | `pipe` | pipes for splice(2) |

pub(crate) mod buffer;
pub(crate) mod hang_up;
pub(crate) mod peer;
pub(crate) mod pipe;
pub(crate) mod socket;
pub(crate) mod untaken;
