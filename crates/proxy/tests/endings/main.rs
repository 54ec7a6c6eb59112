//! The proxy over real sockets: what servers and clients do wrong, and how each request ends.
//!
//! Servers and clients are scripts on threads of their own, on ports the kernel chose; every read
//! has a time limit, and every wait ends by what it waits for.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod capacity;
mod clients;
mod collector;
mod compression;
mod corpus;
mod large;
mod life;
mod ntlm;
mod outliers;
mod overload;
mod semantics;
mod servers;
mod smuggling;
mod strangers;
mod support;
mod tracing;
mod warm;
