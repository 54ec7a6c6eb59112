//! The access log: where its lines go, how they are written, which there are.

use alloc::string::String;
use core::net::SocketAddr;

use crate::units::Ratio;

/// A line for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where lines go.
    pub to: LogTarget,
    /// How they are written.
    pub format: LogFormat,
    /// The part of the requests that ended well, with a status below 400, that have a line; of
    /// the others each has one.
    pub successes: Ratio,
    /// Whether queries are told.
    pub query: bool,
}

impl AccessLog {
    /// A line of text for each request.
    #[must_use]
    pub const fn to(to: LogTarget) -> Self {
        Self { to, format: LogFormat::Text, successes: Ratio::ONE, query: true }
    }
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The standard output.
    Stdout,
    /// A file, appended to.
    File(String),
    /// The Unix socket of a syslog collector.
    SyslogSocket(String),
    /// The address of a syslog collector, by UDP.
    SyslogUdp(SocketAddr),
}

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Words between spaces, all that is known but headers.
    Text,
    /// The Combined Log Format, with what else is known behind it.
    Combined,
    /// An object of JSON.
    Json,
}
