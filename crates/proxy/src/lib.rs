//! The proxy engine: listeners, sessions, server connections, health probes.
//!
//! One thread per core, each with its own listeners, its own server connections and its own
//! single-threaded runtime. Every request touches only two things that they share: the plan and
//! the ledger of `core`. The HTTP/1 codec works on the socket itself.
//!
//! | module, in the order in which a request passes it | |
//! |---|---|
//! | [`listener`] | accepts client connections; reloads of listeners |
//! | [`tls`] | TLS with clients and servers |
//! | `http` | a client connection of HTTP/1, and the exchange of each request |
//! | `http2` | a client connection of HTTP/2: each stream is a session of one request |
//! | `http3` | a client connection of HTTP/3, in the same way |
//! | `tcp` | a client connection that is relayed unread |
//! | `cache` | the response cache, and fetches that several requests share |
//! | `upstream` | connections to servers: opened, pooled, prewarmed |
//! | `store` | files and object stores instead of servers |
//! | `io` | sockets, buffers, pipes |
//! | [`telemetry`] | counters, latency, access log, spans, reasons of failures |
//! | [`runtime`] | threads, timers, views of the plan, the controller's thread, health checks |

// unsafe: three calls about listeners for which no library has a safe function
// (`listener::syscalls`).
#![deny(unsafe_code)]

mod cache;
mod http;
mod http2;
mod http3;
mod io;
pub mod listener;
pub mod runtime;
mod store;
mod tcp;
pub mod telemetry;
pub mod tls;
mod upstream;
