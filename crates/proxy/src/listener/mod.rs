//! Listeners: their sockets, who accepts from them, their limits, and how a reload changes them.
//!
//! | | |
//! |---|---|
//! | `set` | every listener of the process; what a reload and a handover do to them |
//! | `handle` | one listener as all workers see it, and the connection limit |
//! | `accept` | binding, and the loop that accepts |
//! | `clients` | how many connections each client has, and who is refused for it |
//! | `proxy_header`, `proxy_protocol` | the PROXY header in front of a connection |
//! | `pending_heads` | connections whose client has yet to send a head |
//! | [`bounds`] | the most memory and descriptors that clients can make the process hold |
//! | [`inherited`] | sockets that were open before the process began |
//! | `syscalls` | calls of the kernel for which no library has a safe function |

pub(crate) mod accept;
pub mod bounds;
pub(crate) mod clients;
pub(crate) mod handle;
pub mod inherited;
pub(crate) mod pending_heads;
pub(crate) mod proxy_header;
pub(crate) mod proxy_protocol;
pub(crate) mod set;
pub(crate) mod syscalls;
