//! Connections to servers on which a client has authenticated.
//!
//! With NTLM and Negotiate, as servers of Microsoft use them, that holds for the connection and not
//! for the request (RFC 4559, 6): all that comes over it is taken for the same user's. So such a
//! connection is for nobody else. It stays with the connection of its client, as with HAProxy,
//! which calls it private.

use std::sync::Arc;

use loadline_core::{
    decide::ledger::{ServerId, ServerState},
    time::Instant,
};

use crate::{
    tls::Dialing,
    upstream::{idle::Kept, pool::Connection},
};

/// A connection that is for the next request of one client.
#[derive(Debug)]
pub(crate) struct PrivateConnection {
    kept: Kept,
    /// It is held so that no other server gets its number.
    server: Arc<ServerState>,
    /// Name of the service.
    service: Arc<[u8]>,
}

impl PrivateConnection {
    /// Keeps a connection to this server of this service until `until`; none if it is for one
    /// request alone, or a stream.
    pub(crate) fn new(
        (server, service): (Arc<ServerState>, Arc<[u8]>),
        connection: Connection,
        until: Instant,
    ) -> Option<Box<Self>> {
        let (large, is_for_one) = (connection.large, connection.read_proxy_header);
        let (peer, slot) = connection.into_parts();
        let idle = peer.socket.idle().filter(|_| !is_for_one)?;
        Some(Box::new(Self { kept: Kept { idle, slot: slot?, large, until }, server, service }))
    }

    /// Whether its server is one of this service.
    pub(crate) fn is_of(&self, service: &[u8]) -> bool {
        *self.service == *service
    }

    /// Whether it may carry another request at `now`.
    pub(crate) fn stays(&mut self, now: Instant) -> bool {
        self.kept.stays(now)
    }

    /// Its server.
    pub(crate) fn server(&self) -> ServerId {
        self.server.id()
    }

    /// The connection, if it is to this server and good for use at `now` where connections are made
    /// with `tls`.
    pub(crate) fn open(
        mut self,
        server: ServerId,
        now: Instant,
        tls: Option<&Dialing>,
    ) -> Option<Connection> {
        if self.server() != server || !self.kept.stays(now) || !self.kept.is_good(tls) {
            return None;
        }
        let mut connection = Connection::again(self.kept);
        connection.private = true;
        Some(connection)
    }
}
