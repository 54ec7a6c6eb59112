//! Telemetry: counters, latency, access log, spans, reasons of failures.
//!
//! | | |
//! |---|---|
//! | [`tally`] | how requests ended, by service |
//! | [`meter`] | client connections, by listener |
//! | [`latency`] | how long requests took |
//! | `efforts` | how hard workers compress |
//! | `reason`, `failures` | why requests failed |
//! | [`access_log`] | one line a request |
//! | `spans` | traces, exported over OTLP |

pub mod access_log;
pub(crate) mod efforts;
pub(crate) mod failures;
pub mod latency;
pub mod meter;
pub(crate) mod reason;
pub(crate) mod spans;
pub mod tally;
