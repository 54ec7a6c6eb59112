//! Flows and NAT connections of another balancer, put into our tables, so that its packets can come
//! here from one moment to the next.
//!
//! What is copied has a stamp of zero: nobody has heard of it here, and its first packet renews
//! the stamp. Who takes over ([`Datapath::take_over`]) counts everything as heard of at that time,
//! so that nothing is forgotten for having been silent here.

use std::{collections::HashSet, net::SocketAddr};

use aya::maps::{Array, MapError};
use loadline_core::{
    fleet::forwarding::{Protocol, Times},
    time::Duration,
};

use crate::{
    Server, ServerName,
    datapath::Datapath,
    error::TableError,
    layout::{NAT, Nat, Tuple, Tuple4, Tuple6},
    path::{Keyed, Path, wide},
    removal::was_there,
};

/// A NAT connection of another balancer, in our numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Client and frontend.
    pub path: Path,
    /// The number of its service.
    pub service: u16,
    /// The number of its server.
    pub server: u16,
    /// From where the server sees it come.
    pub lent: SocketAddr,
    /// The link address of the next hop towards the client.
    pub link: [u8; 6],
    /// Both sides have closed it, or one has broken it off.
    pub is_closed: bool,
}

impl Datapath {
    /// Writes a flow down that is on this server.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put_flow(
        &mut self,
        path: &Path,
        service: u16,
        server: u16,
        position: u32,
    ) -> Result<(), TableError> {
        let mut value = [0; 24];
        value[..2].copy_from_slice(&server.to_ne_bytes());
        value[2..4].copy_from_slice(&service.to_ne_bytes());
        value[4..8].copy_from_slice(&position.to_ne_bytes());
        self.put(path.client.is_ipv6(), [Tuple4::FLOWS, Tuple6::FLOWS], &path.wide(), value)
    }

    /// Forgets a flow, if it is known.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_flow(&mut self, path: &Path) -> Result<(), TableError> {
        match path.client.is_ipv6() {
            true => self.remove::<Tuple6, 24>(Tuple6::FLOWS, &path.wide()),
            false => self.remove::<Tuple4, 24>(Tuple4::FLOWS, &path.wide()),
        }
    }

    /// Writes both directions of a NAT connection down. Its port stays in the queue of free ones
    /// until [`Datapath::take_over`]. Where it is closed and its client has opened another one,
    /// that one keeps the client's packets.
    ///
    /// # Errors
    /// The kernel's, or its server is not known.
    pub fn put_connection(&mut self, connection: &Connection) -> Result<(), TableError> {
        let Connection { path, lent, link, .. } = connection;
        let is_v6 = path.client.is_ipv6();
        let server = self.server(connection.server)?;
        let (at, answers) = (connection.at(&server), connection.answers(&server));
        let forward = connection.direction(*lent, at, server.mac, &answers);
        let service = path.frontend.address;
        let back = connection.direction(service, path.client, *link, &path.wide());
        self.put(is_v6, ["nat_return4", "nat_return6"], &answers, back)?;
        let known = match is_v6 {
            true => self.forward::<Tuple6>(path)?,
            false => self.forward::<Tuple4>(path)?,
        };
        let is_other = |nat: Nat| nat.is_open() && Tuple6::peer(&nat) != answers;
        if !(connection.is_closed && known.is_some_and(is_other)) {
            self.put(is_v6, ["nat_forward4", "nat_forward6"], &path.wide(), forward)?;
        }
        self.outdate();
        Ok(())
    }

    /// Forgets a NAT connection by what it was lent; its client may have another one by now, which
    /// stays.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_connection(&mut self, connection: &Connection) -> Result<(), TableError> {
        let Ok(server) = self.server(connection.server) else { return Ok(()) };
        let answers = connection.answers(&server);
        match connection.path.client.is_ipv6() {
            true => self.remove_nat::<Tuple6>(&connection.path, &answers)?,
            false => self.remove_nat::<Tuple4>(&connection.path, &answers)?,
        }
        self.outdate();
        Ok(())
    }

    /// From now on packets come here: everything counts as heard of, and no port is free that a
    /// connection has.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take_over(&mut self) -> Result<(), TableError> {
        self.heard = Self::now();
        let mut servers: Vec<u16> = self.servers.keys().copied().collect();
        servers.retain(|server| self.queues.empty(*server));
        // What was taken before that is written down then.
        self.wait_for_packets()?;
        let lent4 = self.connections::<Tuple4>(|_| FOREVER)?;
        let lent6 = self.connections::<Tuple6>(|_| FOREVER)?;
        let lent4 = lent4.iter().map(|one| (one.server, one.port.to_bits()));
        let lent6 = lent6.iter().map(|one| (one.server, one.port.to_bits()));
        let used: HashSet<(u16, u32)> = lent4.chain(lent6).collect();
        for server in servers {
            let free = self.ports(server).filter(|port| !used.contains(&(server, port.to_bits())));
            free.for_each(|port| self.queues.add(server, port));
        }
        Ok(())
    }

    /// Forgets all flows and NAT connections.
    ///
    /// # Errors
    /// The kernel's.
    pub fn forget_all(&mut self) -> Result<(), TableError> {
        self.clear::<Tuple4, 24>(Tuple4::FLOWS)?;
        self.clear::<Tuple6, 24>(Tuple6::FLOWS)?;
        for name in ["nat_forward4", "nat_return4"] {
            self.clear::<Tuple4, NAT>(name)?;
        }
        for name in ["nat_forward6", "nat_return6"] {
            self.clear::<Tuple6, NAT>(name)?;
        }
        self.outdate();
        Ok(())
    }

    /// What a server was set to.
    ///
    /// # Errors
    /// It has not been set, or the kernel's.
    pub fn server(&self, number: u16) -> Result<Server, TableError> {
        const SERVERS: &str = "servers";
        let table = self.loaded.map(SERVERS).ok_or(MapError::ElementNotFound);
        let value = table
            .and_then(Array::<_, [u8; 32]>::try_from)
            .and_then(|table| table.get(&number.into(), 0))
            .map_err(TableError::kernel(SERVERS))?;
        let known = self.servers.get(&number).copied();
        let ServerName { address, port, service } =
            known.ok_or(TableError::UnknownServer(number))?;
        let mut mac = [0; 6];
        mac.copy_from_slice(&value[..6]);
        Ok(Server { address, port, service, mac, is_up: value[6] != 0 })
    }

    fn put<const N: usize>(
        &mut self,
        is_v6: bool,
        [name4, name6]: [&'static str; 2],
        key: &Tuple6,
        value: [u8; N],
    ) -> Result<(), TableError> {
        match is_v6 {
            true => self.insert(name6, *key, value),
            false => self.insert(name4, Tuple4::narrow(key), value),
        }
    }

    fn remove<K: Keyed, const N: usize>(
        &mut self,
        name: &'static str,
        key: &Tuple6,
    ) -> Result<(), TableError> {
        let removed = self.table_mut::<K, [u8; N]>(name)?.remove(&K::narrow(key));
        was_there(removed).map(drop).map_err(TableError::kernel(name))
    }

    fn remove_nat<K: Keyed>(&mut self, path: &Path, answers: &Tuple6) -> Result<(), TableError> {
        let forward = self.forward::<K>(path)?;
        if forward.is_some_and(|forward| Tuple6::peer(&forward) == *answers) {
            self.remove::<K, NAT>(K::FORWARD, &path.wide())?;
        }
        self.remove::<K, NAT>(K::BACK, answers)
    }

    /// The entry of what a client sends, if it has a connection.
    fn forward<K: Keyed>(&self, path: &Path) -> Result<Option<Nat>, TableError> {
        let table = self.table::<K, [u8; NAT]>(K::FORWARD)?;
        Ok(table.get(&K::narrow(&path.wide()), 0).map(Nat).ok())
    }

    fn clear<K: Keyed, const N: usize>(&mut self, name: &'static str) -> Result<(), TableError> {
        let mut table = self.table_mut::<K, [u8; N]>(name)?;
        let keys: Vec<K> = table.keys().flatten().collect();
        keys.iter().for_each(|key| drop(table.remove(key)));
        Ok(())
    }
}

impl Connection {
    /// Where the server gets its packets.
    fn at(&self, server: &Server) -> SocketAddr {
        let port = if server.port == 0 { self.path.frontend.address.port() } else { server.port };
        SocketAddr::new(server.address, port)
    }

    /// The key of the server's packets.
    fn answers(&self, server: &Server) -> Tuple6 {
        wide(self.at(server), self.lent, self.path.frontend.protocol)
    }

    /// `struct nat`: what packets of one direction are made into, and the key of the other.
    fn direction(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
        mac: [u8; 6],
        peer: &Tuple6,
    ) -> [u8; NAT] {
        let mut value = [0; NAT];
        value[..36].copy_from_slice(&wide(source, destination, Protocol::Tcp)[..36]);
        value[36..42].copy_from_slice(&mac);
        value[42..44].copy_from_slice(&self.server.to_ne_bytes());
        value[44] = u8::from(self.is_closed);
        value[46..48].copy_from_slice(&self.service.to_ne_bytes());
        value[64..].copy_from_slice(peer);
        value
    }
}

/// Whatever there is, is not over.
const FOREVER: Times = Times { fin: Duration::MAX, stale: Duration::MAX };
