//! What can go wrong between this process and etcd.

use std::io;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// A file of ours cannot be used.
    #[error("{what} `{path}`: {why}")]
    File {
        /// What the file was to be.
        what: &'static str,
        /// Where it was looked for.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no connection.
    #[error("cannot reach {endpoint}: {source}")]
    Connect {
        /// URL of the etcd member.
        endpoint: String,
        /// What the system says.
        source: io::Error,
    },
    /// There is a connection, and one of the two does not trust the other.
    #[error("{endpoint} and this edge do not agree on TLS: {why}")]
    Tls {
        /// URL of the etcd member.
        endpoint: String,
        /// What TLS says.
        why: String,
    },
    /// The connection has ended.
    #[error("the connection to {endpoint} has ended: {why}")]
    Lost {
        /// URL of the etcd member.
        endpoint: String,
        /// Why, as far as that is known.
        why: String,
    },
    /// No answer came in time.
    #[error("{endpoint} did not answer within {seconds} s")]
    TimedOut {
        /// URL of the etcd member.
        endpoint: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// etcd says no.
    #[error("{endpoint} refused: {message}")]
    Status {
        /// URL of the etcd member.
        endpoint: String,
        /// The status of gRPC.
        code: u32,
        /// What it says.
        message: String,
    },
}

impl EtcdError {
    /// Its kind, for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Connect { .. } | Self::Lost { .. } | Self::TimedOut { .. } => "unreachable",
            Self::Tls { .. } => "tls",
            Self::Status { .. } if self.is_full() => "full",
            Self::Status { .. } if self.is_denied() => "denied",
            Self::Status { .. } => "unavailable",
        }
    }

    /// What would be right, where that is known.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self.kind() {
            "tls" => Some(
                "see `ca` and `certificate` of [cluster], the names and dates of etcd's \
                 certificate (openssl s_client), and the clock",
            ),
            "full" => Some(
                "compact and defragment it, then `etcdctl alarm disarm`; see \
                 --quota-backend-bytes of etcd",
            ),
            "denied" => Some("see `user`, `password_file` and `prefix` of [cluster], and the role"),
            _ => None,
        }
    }

    /// Whether the store takes no more, and can still be read.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Status { message, .. } if message.contains("space exceeded"))
    }

    /// Whether this user may not do this, and may do other things.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Self::Status { code: PERMISSION_DENIED | UNAUTHENTICATED, .. } => true,
            Self::Status { message, .. } => {
                message.contains("authentication failed") || message.contains("user name is empty")
            }
            _ => false,
        }
    }

    /// Whether it is that the lease has ended.
    pub(crate) fn is_of_the_lease(&self) -> bool {
        matches!(self, Self::Status { message, .. } if message.contains("lease not found"))
    }

    /// Whether nobody is asked for a password there.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Status { message, .. } if message.contains("is not enabled"))
    }

    /// Whether the connection is of use all the same.
    pub(crate) fn is_of_the_request(&self) -> bool {
        self.is_full() || matches!(self, Self::Status { code: PERMISSION_DENIED, .. })
    }
}

const PERMISSION_DENIED: u32 = 7;
const UNAUTHENTICATED: u32 = 16;
