//! What a standby does with what it is told: the active's tables become its own, in its own
//! numbers.
//!
//! A service is known by its address, a server by its address, its port with `nat` and else its
//! service, a return address by itself, so both balancers may count them differently. A server that
//! this balancer's file does not have, or does not have yet, is taken over from the active with the
//! number that it is given here.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use loadline_core::{
    state::PeerLink,
    time::{Duration, Instant},
};

use crate::{
    Connection, Frontend, ServerName,
    datapath::Datapath,
    error::TableError,
    path::Path,
    ports::Port,
    replication::{
        Change, Datagram, Fact, Key, Malformed, Nat, PART, PARTS, Receiver, SILENCE, Server,
        ServiceAddress,
    },
};

/// Gives a number to a server that has none here.
pub type Numbering<'a> = &'a mut dyn FnMut(ServerName) -> Option<u16>;

/// Follows an active balancer.
#[derive(Debug)]
pub(crate) struct Follower {
    receiver: Receiver,
    places: Places,
    /// Servers of ours that only the active knows.
    adopted: BTreeSet<u16>,
    /// Flows and connections that the kernel did not take.
    untaken: u64,
    /// Of the datapath when the numbers were looked at.
    revision: u64,
}

/// The meaning of the active's numbers here.
#[derive(Debug, Default)]
struct Places {
    servers: BTreeMap<u16, u16>,
    services: BTreeMap<u16, u32>,
    service_addresses: BTreeMap<u16, (u32, Frontend)>,
    returns: BTreeMap<(bool, u16), IpAddr>,
}

impl Follower {
    /// Follows nobody yet; `draw` is a number that was never drawn before.
    pub(crate) fn new(draw: u64) -> Self {
        Self {
            receiver: Receiver::new(draw),
            places: Places::default(),
            adopted: BTreeSet::new(),
            untaken: 0,
            revision: 0,
        }
    }

    pub(crate) const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Flows and connections of the active that this balancer has no place for.
    pub(crate) fn unplaced(&self) -> u64 {
        let facts = self.receiver.facts();
        let homeless = |(key, fact): &(&Key, &Fact)| match (key, fact) {
            (Key::Flow { service_address, client }, Fact::Flow(flow)) => {
                self.places.path(*service_address, *client).is_none()
                    || !self.places.servers.contains_key(&flow.server)
            }
            (Key::Nat { server, port }, Fact::Nat(nat)) => {
                self.places.connection(*server, *port, nat).is_none()
            }
            _ => false,
        };
        facts.iter().filter(homeless).count() as u64 + self.untaken
    }

    /// Takes a datagram of a peer in.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        peer: usize,
        datagram: &Datagram<'_>,
    ) -> Result<(), Malformed> {
        self.receiver.handle(now, peer, datagram)
    }

    /// These servers are no longer such that only the active knows.
    pub(crate) fn claim(&mut self, is_ours: impl Fn(u16) -> bool) {
        self.adopted.retain(|number| !is_ours(*number));
    }

    /// These numbers are nobody's any more.
    pub(crate) fn release(&mut self, is_free: impl Fn(u16) -> bool) {
        self.adopted.retain(|number| !is_free(*number));
        self.places.servers.retain(|_, ours| !is_free(*ours));
    }

    /// The numbers here of all servers that the active has.
    pub(crate) fn servers(&self) -> impl Iterator<Item = u16> {
        let facts = self.receiver.facts();
        let known = self.places.servers.iter();
        known
            .filter(|(theirs, _)| facts.contains_key(&Key::Server(**theirs)))
            .map(|(_, ours)| *ours)
    }

    /// How far this balancer knows what a peer does, and how long nothing was heard of it.
    pub(crate) fn link(
        &self,
        peer: usize,
        now: Instant,
    ) -> (PeerLink, Option<Duration>, Option<usize>) {
        let followed = self.receiver.followed(now).filter(|(followed, _)| *followed == peer);
        let link = match followed {
            Some(_) if self.receiver.is_whole(now) => PeerLink::Whole,
            Some((_, silent)) if silent <= SILENCE => PeerLink::Joining,
            _ => PeerLink::Silent,
        };
        (link, followed.map(|(_, silent)| silent), None)
    }

    /// The next datagram, and for which peer.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        self.receiver.poll(now)
    }

    /// Writes what has been heard into the tables.
    pub(crate) fn write(
        &mut self,
        datapath: &mut Datapath,
        number: Numbering<'_>,
    ) -> Result<(), TableError> {
        let changes = self.receiver.changes();
        let mut is_news = self.revision != datapath.revision;
        if changes.is_empty() && !is_news {
            return Ok(());
        }
        let mut rings = BTreeSet::new();
        for change in &changes {
            match change {
                Change::Reset => {
                    datapath.forget_all()?;
                    self.places = Places::default();
                    self.untaken = 0;
                }
                Change::Fact(Key::Entries { service, .. }, _) => drop(rings.insert(*service)),
                Change::Fact(key, _) => is_news |= *key < FIRST_OF_RINGS,
            }
        }
        // What is no longer was of those whom numbers stood for until now.
        for change in &changes {
            if let Change::Fact(key, Some(before)) = change {
                self.forget(datapath, key, before)?;
            }
        }
        let has_learnt = is_news && self.learn_all(datapath, number)?;
        for change in &changes {
            if let Change::Fact(key, _) = change {
                self.put(datapath, key);
            }
        }
        if has_learnt {
            // What could not be placed before may have a place now.
            rings.extend(self.places.services.keys());
            let keys: Vec<Key> = self.receiver.facts().keys().copied().collect();
            keys.iter().for_each(|key| self.put(datapath, key));
        }
        rings.into_iter().try_for_each(|service| self.publish(datapath, service))?;
        self.revision = datapath.revision;
        Ok(())
    }

    /// Learns the meaning of all numbers; true if it has changed.
    fn learn_all(
        &mut self,
        datapath: &mut Datapath,
        number: Numbering<'_>,
    ) -> Result<bool, TableError> {
        let keys = self.receiver.facts().range(..FIRST_OF_RINGS);
        let keys: Vec<Key> = keys.map(|(key, _)| *key).collect();
        let mut has_learnt = false;
        // Services before the servers that are theirs.
        for key in keys.iter().rev() {
            has_learnt |= self.learn(datapath, key, &mut *number)?;
        }
        Ok(has_learnt)
    }

    /// Learns the meaning of one number; true if it has changed.
    fn learn(
        &mut self,
        datapath: &mut Datapath,
        key: &Key,
        number: Numbering<'_>,
    ) -> Result<bool, TableError> {
        match (key, self.receiver.facts().get(key)) {
            (Key::Server(theirs), Some(Fact::Server(server))) => {
                let (theirs, server) = (*theirs, *server);
                let ours = self.find_server(datapath, &server, number)?;
                let Some(ours) = ours else { return Ok(false) };
                if self.places.servers.get(&theirs).is_some_and(|before| *before != ours) {
                    self.forget_connections(datapath, theirs)?;
                }
                Ok(self.places.servers.insert(theirs, ours) != Some(ours))
            }
            (Key::Return(v6, number), Some(Fact::Return(address))) => {
                let at = (*v6, u16::from(*number));
                let is_ours = datapath.settings.returns.contains(address);
                Ok(is_ours && self.places.returns.insert(at, *address) != Some(*address))
            }
            (Key::ServiceAddress(number), Some(Fact::ServiceAddress(address))) => {
                let ServiceAddress { service, at, protocol } = *address;
                let same = |(_, frontend): &(u32, Frontend)| {
                    frontend.address == at && frontend.protocol as u8 == protocol
                };
                let Some(place) = datapath.frontends().find(same) else { return Ok(false) };
                self.places.services.insert(service, place.0);
                Ok(self.places.service_addresses.insert(*number, place) != Some(place))
            }
            _ => Ok(false),
        }
    }

    fn find_server(
        &mut self,
        datapath: &mut Datapath,
        server: &Server,
        number: Numbering<'_>,
    ) -> Result<Option<u16>, TableError> {
        let Server { at, link, is_up, service: theirs } = *server;
        let service = theirs.and_then(|theirs| self.places.services.get(&theirs)).copied();
        if theirs.is_some() && service.is_none() {
            return Ok(None);
        }
        let (address, port) = (at.ip(), at.port());
        let adopted = crate::Server { address, port, service, mac: link, is_up };
        let known = datapath.number_of(adopted.name());
        let is_known = known.is_some();
        let Some(ours) = known.or_else(|| number(adopted.name())) else { return Ok(None) };
        if !is_known || self.adopted.contains(&ours) {
            datapath.set_server(ours, &adopted)?;
            self.adopted.insert(ours);
        }
        Ok(Some(ours))
    }

    /// Forgets what was there under this key, if it is another now.
    fn forget(&self, datapath: &mut Datapath, key: &Key, before: &Fact) -> Result<(), TableError> {
        let now = self.receiver.facts().get(key);
        match (key, before) {
            (Key::Flow { service_address, client }, Fact::Flow(_)) if now.is_none() => {
                if let Some((path, _)) = self.places.path(*service_address, *client) {
                    datapath.remove_flow(&path)?;
                }
            }
            (Key::Nat { server, port }, Fact::Nat(nat)) => {
                let of = |nat: &Nat| (nat.service_address, nat.client);
                let is_same = matches!(now, Some(Fact::Nat(now)) if of(now) == of(nat));
                let connection = self.places.connection(*server, *port, nat);
                if let Some(connection) = connection.filter(|_| !is_same) {
                    datapath.remove_connection(&connection)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Forgets the connections of a server whose number is another's now.
    fn forget_connections(&self, datapath: &mut Datapath, server: u16) -> Result<(), TableError> {
        let key = |port| Key::Nat { server, port };
        let [first, last] = [0, u16::MAX].map(|it| key(Port { address: it, port: it }));
        for (key, fact) in self.receiver.facts().range(first..=last) {
            let (Key::Nat { port, .. }, Fact::Nat(nat)) = (key, fact) else { continue };
            if let Some(connection) = self.places.connection(server, *port, nat) {
                datapath.remove_connection(&connection)?;
            }
        }
        Ok(())
    }

    /// Puts a flow or a connection, if it has a place.
    fn put(&mut self, datapath: &mut Datapath, key: &Key) {
        let put = match (key, self.receiver.facts().get(key)) {
            (Key::Flow { service_address, client }, Some(Fact::Flow(flow))) => {
                let path = self.places.path(*service_address, *client);
                let server = self.places.servers.get(&flow.server);
                path.zip(server).map(|((path, service), server)| {
                    datapath.put_flow(&path, service, *server, flow.position)
                })
            }
            (Key::Nat { server, port }, Some(Fact::Nat(nat))) => {
                let connection = self.places.connection(*server, *port, nat);
                connection.map(|connection| datapath.put_connection(&connection))
            }
            _ => None,
        };
        if put.is_some_and(|put| put.is_err()) {
            self.untaken += 1;
        }
    }

    /// Puts the active's ring in force; what has not been told of it stays as it is.
    fn publish(&self, datapath: &mut Datapath, theirs: u16) -> Result<(), TableError> {
        let Some(ours) = self.places.services.get(&theirs).copied() else { return Ok(()) };
        let here = |server: u16| self.places.servers.get(&server).copied().unwrap_or_default();
        let before = datapath.ring(ours)?;
        let mut ring = before.clone();
        for (part, entries) in (0..PARTS).zip(ring.chunks_mut(PART)) {
            let key = Key::Entries { service: theirs, part };
            if let Some(Fact::Entries(told)) = self.receiver.facts().get(&key) {
                let told = told.iter().map(|entry| entry.renumbered(here));
                entries.iter_mut().zip(told).for_each(|(entry, told)| *entry = told);
            }
        }
        if ring == before { Ok(()) } else { datapath.publish(ours, &ring) }
    }
}

impl Places {
    fn path(&self, service_address: u16, client: SocketAddr) -> Option<(Path, u16)> {
        let (service, frontend) = *self.service_addresses.get(&service_address)?;
        Some((Path { client, frontend }, service as u16))
    }

    fn connection(&self, server: u16, port: Port, nat: &Nat) -> Option<Connection> {
        let Nat { service_address, client, link, is_closed } = *nat;
        let (path, service) = self.path(service_address, client)?;
        let address = self.returns.get(&(client.is_ipv6(), port.address))?;
        let lent = SocketAddr::new(*address, port.port);
        let server = *self.servers.get(&server)?;
        Some(Connection { path, service, server, lent, link, is_closed })
    }
}

/// What is before this says what numbers stand for.
const FIRST_OF_RINGS: Key = Key::Entries { service: 0, part: 0 };
