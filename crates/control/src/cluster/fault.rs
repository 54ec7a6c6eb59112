//! Why an edge goes on without its store, or without a part of it.

use super::{DiskError, EtcdError, keys::ValueError};

/// A fault; each is told and counted by its kind.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// etcd cannot be reached, or refuses.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// A value in the store that cannot be read.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The state directory.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The prefix belongs to others.
    #[error("the keys `{prefix}` belong to another cluster: {why}")]
    Foreign {
        /// Where our keys begin.
        prefix: String,
        /// How the other cluster is recognised.
        why: String,
    },
    /// Another edge has our name.
    #[error("another edge has joined as `{0}`")]
    Name(String),
    /// The watch cannot go on where it was.
    #[error("the watch has ended: {0}")]
    Watch(String),
}

impl Fault {
    /// Its kind, for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Etcd(error) => error.kind(),
            Self::Value(_) => "value",
            Self::Disk(_) => "disk",
            Self::Foreign { .. } => "foreign",
            Self::Name(_) => "name",
            Self::Watch(_) => "unavailable",
        }
    }

    /// What would be right, where that is known.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::Etcd(error) => error.help(),
            Self::Value(_) => Some("whoever wrote it is no loadline, or a newer one"),
            Self::Disk(_) => Some("it has to be a directory where loadline may write"),
            Self::Foreign { .. } => Some(
                "give one of them another `prefix` in [cluster]; where they are meant to be one, \
                 give all the same `id`, or remove cluster.json in the state directory",
            ),
            Self::Name(_) => Some("give each edge its own `name` in [cluster]"),
            Self::Watch(_) => None,
        }
    }

    /// Whether the store has only forgotten our login.
    pub(super) fn is_old_token(&self) -> bool {
        matches!(self, Self::Etcd(EtcdError::Status { message, .. })
            if message.contains("invalid auth token"))
    }

    /// Whether every connection to the store meets it, so that it is enough that the agent tells of
    /// it, or another connection mends it.
    pub(super) fn is_of_all(&self) -> bool {
        matches!(self.kind(), "unreachable" | "unavailable") || self.is_old_token()
    }

    /// Whether the connection is of use all the same.
    pub(super) fn is_of_the_request(&self) -> bool {
        match self {
            Self::Etcd(error) => error.is_of_the_request(),
            Self::Value(_) | Self::Disk(_) | Self::Name(_) => true,
            Self::Foreign { .. } | Self::Watch(_) => false,
        }
    }
}
