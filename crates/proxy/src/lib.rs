//! The proxy engine: listeners, sessions, server connections, health probes.
//!
//! One thread per core, each with its own listeners, its own server connections and its own
//! single-threaded runtime; they share the plan and the ledger of the core, and nothing else that
//! is touched by every request. The HTTP/1 codec works on the socket itself.
//!
//! | the way of a request | |
//! |---|---|
//! | [`listener`] | takes client connections in; how a reload changes the listeners |
//! | [`tls`] | agrees on TLS with clients and servers |
//! | `http` | a client connection of HTTP/1: request after request, each as its machine says |
//! | `http2` | a client connection of HTTP/2: its streams, each as a session of one request |
//! | `tcp` | a client connection of which nothing is understood, from end to end |
//! | `cache` | responses that are kept, and fetches that many wait for |
//! | `upstream` | connections to servers: opened, pooled, opened in advance |
//! | `store` | stores of objects, which take the place of servers |
//! | `io` | bytes: sockets, buffers, pipes |
//! | [`telemetry`] | counters, latency, access log, spans, reasons of failures |
//! | [`runtime`] | threads, timers, the plan as workers see it, the controller, health checks |

// unsafe: three calls about listeners for which no library has a safe function
// (`listener::syscalls`).
#![deny(unsafe_code)]

pub mod cache;
mod http;
mod http2;
mod io;
pub mod listener;
pub mod runtime;
mod store;
mod tcp;
pub mod telemetry;
pub mod tls;
mod upstream;
