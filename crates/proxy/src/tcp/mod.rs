//! Client connections that are relayed unread: TCP, TLS that is passed through, and connections
//! that were upgraded to another protocol.
//!
//! | | |
//! |---|---|
//! | `session` | one client connection, as its machine (`core::decide::request`) says |
//! | `client_hello` | the server name in a ClientHello |
//! | `tunnel` | bytes both ways until both sides are done |

pub(crate) mod client_hello;
pub(crate) mod session;
pub(crate) mod tunnel;
