//! What stays with a server where packets are forwarded: a connection, or a client.

use crate::time::Duration;

/// What stays with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// A connection.
    #[default]
    Connection,
    /// A client's address with all its connections, until this long after its last packet.
    Client(Duration),
}

impl Affinity {
    /// Whether a client stays.
    #[must_use]
    pub const fn is_of_client(self) -> bool {
        matches!(self, Self::Client(_))
    }

    /// How long after its last packet it is still to be found on its server, where connections that
    /// are silent for `stale` are over.
    #[must_use]
    pub fn lasts(self, stale: Duration) -> Duration {
        match self {
            Self::Connection => stale,
            Self::Client(time) => stale.max(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_stays_for_as_long_as_its_connections_at_least() {
        let [short, long] = [5, 9].map(Duration::from_secs);
        assert_eq!(Affinity::Connection.lasts(short), short);
        assert_eq!(Affinity::Client(long).lasts(short), long);
        assert_eq!(Affinity::Client(short).lasts(long), long);
    }
}
