//! What the tables hold, read whole: for a standby that joins, and after events were missed.

use std::net::SocketAddr;

use crate::{
    Frontend,
    copy::Connection,
    datapath::Datapath,
    error::TableError,
    layout::{NAT, Nat, ServerName, Tuple4, Tuple6},
    path::{Keyed, Path, read_address},
    ports::Direction,
    ring::Entry,
    settle::Flow,
};

/// A flow that is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) path: Path,
    pub(crate) service: u16,
    pub(crate) server: u16,
    pub(crate) position: u32,
}

impl Datapath {
    /// The ring of a service as it is in force.
    ///
    /// # Errors
    /// The service has not been added.
    pub fn ring(&self, service: u32) -> Result<Vec<Entry>, TableError> {
        let known = self.services.get(&service);
        let half = known.ok_or(TableError::UnknownService(service))?.half;
        Ok(self.rings.read(service, half))
    }

    /// The number of a server by what it is known by.
    #[must_use]
    pub fn number_of(&self, name: ServerName) -> Option<u16> {
        let known = self.servers.iter().find(|(_, known)| **known == name);
        known.map(|(number, _)| *number)
    }

    /// Where clients reach which service.
    pub(crate) fn frontends(&self) -> impl Iterator<Item = (u32, Frontend)> {
        let of = |(number, service): (&u32, &crate::datapath::Service)| {
            let number = *number;
            service.frontends.clone().into_iter().map(move |frontend| (number, frontend))
        };
        self.services.iter().flat_map(of)
    }

    /// All flows that are written down.
    pub(crate) fn written(&self) -> Result<Vec<Written>, TableError> {
        let mut all = self.written_of::<Tuple4>()?;
        all.extend(self.written_of::<Tuple6>()?);
        Ok(all)
    }

    /// All NAT connections.
    pub(crate) fn all_connections(&self) -> Result<Vec<Connection>, TableError> {
        let mut all = self.connections_of::<Tuple4>(false)?;
        all.extend(self.connections_of::<Tuple6>(true)?);
        Ok(all)
    }

    fn written_of<K: Keyed>(&self) -> Result<Vec<Written>, TableError> {
        let written = self.flows::<K>()?.into_iter().map(|(key, flow)| {
            let Flow { server, service, position, .. } = flow;
            Written { path: key.path(), service, server, position }
        });
        Ok(written.collect())
    }

    fn connections_of<K: Keyed>(&self, is_v6: bool) -> Result<Vec<Connection>, TableError> {
        let forward = self.table::<K, [u8; NAT]>(K::FORWARD)?;
        let back = self.table::<K, [u8; NAT]>(K::BACK)?;
        let whole = forward.iter().flatten().filter_map(|(key, value)| {
            let nat = Nat(value);
            let answers = Nat(back.get(&K::peer(&nat), 0).ok()?);
            Some(Connection {
                path: key.path(),
                service: nat.service(),
                server: nat.server(),
                lent: nat.source(is_v6),
                link: answers.link(),
                is_closed: Direction::closed(nat.seen(), answers.seen()),
            })
        });
        Ok(whole.collect())
    }
}

impl Nat {
    /// From where its packets come once they are rewritten.
    fn source(&self, is_v6: bool) -> SocketAddr {
        let port = u16::from_be_bytes([self.0[32], self.0[33]]);
        SocketAddr::new(read_address(&self.0, 0, is_v6), port)
    }

    /// The link address that its packets go to.
    fn link(&self) -> [u8; 6] {
        let mut link = [0; 6];
        link.copy_from_slice(&self.0[36..42]);
        link
    }
}
