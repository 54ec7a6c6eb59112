//! What an active balancer tells: its tables as facts, kept up to date by events.
//!
//! Servers, return addresses, service addresses and rings are looked at where the datapath says
//! that something has changed; flows and NAT connections come as events. Where events were missed,
//! and at first, the tables are read whole.

use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
};

use loadline_core::{
    state::PeerLink,
    time::{Duration, Instant},
};

use crate::{
    Connection, Event, Frontend, ServerName,
    datapath::Datapath,
    error::TableError,
    path::Path,
    replication::{
        Datagram, Extent, Fact, Facts, Flow, Key, Nat, PART, Sender, Server, ServiceAddress,
    },
};

/// The facts, and the followers that are told them.
#[derive(Debug)]
pub(crate) struct Active {
    facts: Facts,
    senders: Vec<Sender>,
    service_addresses: HashMap<Frontend, u16>,
    /// Facts of kind `Flow`.
    flows: usize,
    /// Of the datapath when it was last looked at whole.
    revision: Option<u64>,
}

impl Active {
    /// Active since `epoch`, with a number that was never drawn before for each peer.
    pub(crate) fn new(epoch: u64, draws: impl Iterator<Item = u64>) -> Self {
        Self {
            facts: Facts::new(),
            senders: draws.map(|draw| Sender::new(epoch, draw)).collect(),
            service_addresses: HashMap::new(),
            flows: 0,
            revision: None,
        }
    }

    pub(crate) fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// Takes in what has happened.
    pub(crate) fn look(&mut self, datapath: &mut Datapath) -> Result<(), TableError> {
        let is_first = self.revision.is_none();
        let events = datapath.events()?;
        if self.revision != Some(datapath.revision) {
            self.revision = Some(datapath.revision);
            self.describe(datapath)?;
        }
        // What is evicted from the kernel's table of flows is not told.
        let is_full = self.flows > 2 * datapath.sizes.flows as usize;
        if is_first || is_full || events.contains(&Event::Missed) {
            return self.read(datapath);
        }
        events.iter().for_each(|event| self.note(event));
        Ok(())
    }

    /// Takes a datagram of a peer in.
    pub(crate) fn handle(&mut self, now: Instant, peer: usize, datagram: &Datagram<'_>) {
        self.senders[peer].handle(now, datagram);
    }

    /// The next datagram for a peer.
    pub(crate) fn poll(&mut self, now: Instant, peer: usize) -> Option<Vec<u8>> {
        self.senders[peer].poll(now, &self.facts)
    }

    /// How far a peer knows the same, how late it is, and how many facts it may lack.
    pub(crate) fn link(
        &self,
        peer: usize,
        now: Instant,
    ) -> (PeerLink, Option<Duration>, Option<usize>) {
        let sender = &self.senders[peer];
        let behind = sender.behind();
        let link = match behind {
            None => PeerLink::Silent,
            Some(_) if sender.is_followed() => PeerLink::Whole,
            Some(_) => PeerLink::Joining,
        };
        (link, sender.lag(now), behind)
    }

    /// Servers, addresses and rings.
    fn describe(&mut self, datapath: &Datapath) -> Result<(), TableError> {
        self.forget_servers(datapath);
        for (number, name) in &datapath.servers {
            let known = datapath.server(*number)?;
            let (at, service) = told_as(name);
            let fact = Server { at, link: known.mac, is_up: known.is_up, service };
            self.set(Key::Server(*number), Some(Fact::Server(fact)));
        }
        for v6 in [false, true] {
            for (address, number) in datapath.settings.returns(v6).zip(0..) {
                self.set(Key::Return(v6, number), Some(Fact::Return(address)));
            }
        }
        for (service, frontend) in datapath.frontends() {
            self.service_address(&frontend, service as u16);
        }
        for service in datapath.services.keys() {
            let entries = datapath.ring(*service)?;
            for (entries, part) in entries.chunks(PART).zip(0..) {
                let key = Key::Entries { service: *service as u16, part };
                self.set(key, Some(Fact::Entries(entries.into())));
            }
        }
        Ok(())
    }

    /// Servers that have left, and flows that were evicted while they were on one of them: its
    /// number may be another's now.
    fn forget_servers(&mut self, datapath: &Datapath) {
        let gone = |(key, fact): (&Key, &Fact)| match (key, fact) {
            (Key::Server(number), Fact::Server(server)) => {
                let known = datapath.servers.get(number).map(told_as);
                (known != Some((server.at, server.service))).then_some(*number)
            }
            _ => None,
        };
        let servers = self.facts.range(..=Key::Server(u16::MAX));
        let gone: BTreeSet<u16> = servers.filter_map(gone).collect();
        if gone.is_empty() {
            return;
        }
        let is_gone = |(key, fact): &(&Key, &Fact)| match (key, fact) {
            (Key::Server(number), _) => gone.contains(number),
            (_, Fact::Flow(flow)) => gone.contains(&flow.server),
            _ => false,
        };
        let keys: Vec<Key> = self.facts.iter().filter(is_gone).map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.set(key, None));
    }

    /// All flows and connections, and nothing else that was known of them.
    fn read(&mut self, datapath: &Datapath) -> Result<(), TableError> {
        let is_of_table = |key: &Key| matches!(key, Key::Flow { .. } | Key::Nat { .. });
        let known = self.facts.keys().filter(|key| is_of_table(key)).copied();
        let mut gone: BTreeSet<Key> = known.collect();
        for one in datapath.written()? {
            gone.remove(&self.flow(&one.path, one.service, one.server, one.position));
        }
        for one in datapath.all_connections()? {
            let Some(port) = datapath.settings.place(&one.lent) else { continue };
            let Connection { path, service, server, link, is_closed, .. } = one;
            let key = Key::Nat { server, port };
            self.connection(key, &path, service, link, is_closed);
            gone.remove(&key);
        }
        gone.into_iter().for_each(|key| self.set(key, None));
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        match *event {
            Event::Flow { path, service, server, position } => {
                self.flow(&path, service, server, position);
            }
            Event::FlowGone(path) => {
                if let Some(service_address) = self.service_addresses.get(&path.frontend).copied() {
                    self.set(Key::Flow { service_address, client: path.client }, None);
                }
            }
            Event::Open { path, service, server, port, link } => {
                self.connection(Key::Nat { server, port }, &path, service, link, false);
            }
            Event::Closed { server, port } => {
                let key = Key::Nat { server, port };
                if let Some(Fact::Nat(nat)) = self.facts.get_mut(&key)
                    && !nat.is_closed
                {
                    nat.is_closed = true;
                    self.senders.iter_mut().for_each(|it| it.changed(key, Extent::Closing));
                }
            }
            Event::Over { server, port } => self.set(Key::Nat { server, port }, None),
            Event::Missed => {}
        }
    }

    fn flow(&mut self, path: &Path, service: u16, server: u16, position: u32) -> Key {
        let key = Key::Flow {
            service_address: self.service_address(&path.frontend, service),
            client: path.client,
        };
        self.set(key, Some(Fact::Flow(Flow { server, position })));
        key
    }

    fn connection(&mut self, key: Key, path: &Path, service: u16, link: [u8; 6], is_closed: bool) {
        let service_address = self.service_address(&path.frontend, service);
        self.set(
            key,
            Some(Fact::Nat(Nat { service_address, client: path.client, link, is_closed })),
        );
    }

    /// The number of a service address, a new one where it has none.
    fn service_address(&mut self, frontend: &Frontend, service: u16) -> u16 {
        let next = self.service_addresses.len() as u16;
        let number = *self.service_addresses.entry(*frontend).or_insert(next);
        let Frontend { address: at, protocol } = *frontend;
        let fact = ServiceAddress { service, at, protocol: protocol as u8 };
        self.set(Key::ServiceAddress(number), Some(Fact::ServiceAddress(fact)));
        number
    }

    fn set(&mut self, key: Key, fact: Option<Fact>) {
        let is = fact.is_some();
        let is_same = self.facts.get(&key) == fact.as_ref();
        if is_same {
            return;
        }
        let before = match fact {
            Some(fact) => self.facts.insert(key, fact),
            None => self.facts.remove(&key),
        };
        if matches!(key, Key::Flow { .. }) {
            self.flows = self.flows + usize::from(is) - usize::from(before.is_some());
        }
        self.senders.iter_mut().for_each(|sender| sender.changed(key, Extent::Whole));
    }
}

/// What a server is known by, as peers are told.
fn told_as(name: &ServerName) -> (SocketAddr, Option<u16>) {
    (SocketAddr::new(name.address, name.port), name.service.map(|service| service as u16))
}
