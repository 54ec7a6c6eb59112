//! The engine over loopback, beside how requests end and HTTP/2: TLS and TCP, the rules of
//! listeners, listeners that come and go, and what is told of failures.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod authority;
mod operation;
mod reasons;
mod routes;
mod tcp;
mod tls;
