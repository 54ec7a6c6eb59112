//! Why the admin interface did not start.

use std::{io, path::PathBuf};

/// Why the administration did not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address or the path cannot be bound.
    #[error("cannot listen for the admin interface on {place}: {source}")]
    Bind {
        /// As configured.
        place: String,
        /// In use, no such directory, not permitted.
        source: io::Error,
    },
    /// The file of the token cannot be read.
    #[error("cannot read the token of the admin interface from {}: {source}", path.display())]
    TokenFile {
        /// As configured.
        path: PathBuf,
        /// Absent, not permitted, not UTF-8.
        source: io::Error,
    },
    /// The token is too short to be a secret.
    #[error(
        "the token in {} is too short: its first line needs 16 characters or more, \
         as of `openssl rand -hex 16`",
        path.display()
    )]
    TokenShort {
        /// As configured.
        path: PathBuf,
    },
    /// A thread or its runtime cannot be started.
    #[error("cannot start the thread of the admin interface: {0}")]
    Thread(io::Error),
}
