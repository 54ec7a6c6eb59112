//! The proxy engine: listeners, sessions, server connections, health probes.
#![forbid(unsafe_code)]
