//! The access log: its destination, its format, and which requests it has.

use alloc::{string::String, vec::Vec};
use core::{fmt, net::SocketAddr};

use crate::units::Ratio;

/// A line for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where lines go.
    pub to: LogTarget,
    /// How they are written.
    pub format: LogFormat,
    /// Part of the successful requests (status below 400) that get a line; all others get one.
    pub successes: Ratio,
    /// Whether queries are told.
    pub query: bool,
    /// Extra fields of a line, in this order.
    pub fields: Vec<LogField>,
}

impl AccessLog {
    /// A line of text for each request.
    #[must_use]
    pub const fn to(to: LogTarget) -> Self {
        Self { to, format: LogFormat::Text, successes: Ratio::ONE, query: true, fields: Vec::new() }
    }
}

/// What a line says where the file asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogField {
    /// The host the client asked for.
    Host,
    /// `http` or `https`, as the client came.
    Scheme,
    /// The address of the listener in the file.
    Listener,
    /// The server name of the client's handshake.
    ServerName,
    /// The version of TLS towards the client.
    TlsVersion,
    /// The cipher suite towards the client.
    TlsCipher,
    /// The subject of the client's certificate.
    ClientCertificate,
    /// The id of the request.
    RequestId,
    /// What the cache did.
    Cache,
    /// The user of basic authentication.
    User,
    /// Why it went past the nearest group.
    OverflowReason,
}

impl LogField {
    /// Every field, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Host,
        Self::Scheme,
        Self::Listener,
        Self::ServerName,
        Self::TlsVersion,
        Self::TlsCipher,
        Self::ClientCertificate,
        Self::RequestId,
        Self::Cache,
        Self::User,
        Self::OverflowReason,
    ];

    /// The name in the file and in lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Scheme => "scheme",
            Self::Listener => "listener",
            Self::ServerName => "server_name",
            Self::TlsVersion => "tls_version",
            Self::TlsCipher => "tls_cipher",
            Self::ClientCertificate => "client_certificate",
            Self::RequestId => "request_id",
            Self::Cache => "cache",
            Self::User => "user",
            Self::OverflowReason => "overflow_reason",
        }
    }

    /// Whether it is made for the log where no rule asks for it.
    #[must_use]
    pub const fn is_made(self) -> bool {
        matches!(self, Self::RequestId)
    }

    /// Whether it is known by a handshake of TLS.
    #[must_use]
    pub const fn is_of_tls(self) -> bool {
        matches!(
            self,
            Self::ServerName | Self::TlsVersion | Self::TlsCipher | Self::ClientCertificate
        )
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

/// As the file has it.
impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::File(path) => f.write_str(path),
            Self::SyslogSocket(path) => write!(f, "syslog:{path}"),
            Self::SyslogUdp(address) => write!(f, "syslog://{address}"),
        }
    }
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
