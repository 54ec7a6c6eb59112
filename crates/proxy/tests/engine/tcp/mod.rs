//! Anything over TCP, between real sockets: bytes both ways, names, and whose connections they are.

mod introductions;
mod names;
mod placement;
mod streams;
mod support;
