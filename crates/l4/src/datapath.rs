//! The balancer's program with its tables.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use aya::{
    Ebpf, Pod,
    maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray},
    programs::{ProgramFd, Xdp},
};
use loadline_core::{
    fleet::forwarding::{Affinity, Method},
    time::Instant,
};

use crate::{
    error::{AttachError, LoadError, TableError},
    events::Events,
    interface::{Attach, Attached, attach},
    layout::{Frontend, MAX_RETURNS, Server, ServerName, ServiceKey, Settings, address, service},
    memory::{Generation, Queues, Rings},
    object::{BALANCER, Object},
    ports::Port,
    ring::{Entry, RING_SIZE, SERVER_MAX},
    test_run::Hook,
    verdict::Verdict,
    wait::Wait,
};

/// Entries of the tables. Memory is taken when the program is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Services, with two rings of 256 KiB each.
    pub services: u32,
    /// Addresses and ports of services, and return addresses, of one family.
    pub frontends: u32,
    /// Servers of all services; numbers are from 1 to this.
    pub servers: u16,
    /// Servers of NAT: those with numbers from 1 to this. Each has a queue with 4 bytes for every
    /// port of every return address.
    pub nat_servers: u16,
    /// Flows of one family that are remembered while servers change, about 100 bytes each.
    pub flows: u32,
    /// NAT connections of one family, about 350 bytes each.
    pub nat: u32,
    /// Bytes for what [`Datapath::events`] tells, about 84 an event; zero where nobody asks.
    pub events: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            services: 16,
            frontends: 256,
            servers: 4_096,
            nat_servers: 64,
            flows: 262_144,
            nat: 131_072,
            events: 0,
        }
    }
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// What a server was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCount {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
    /// TCP connections that began, with SYNs that were sent again.
    pub opened: u64,
    /// FIN and RST of clients.
    pub closed: u64,
}

/// The loaded program with its tables. It forwards from [`Datapath::attach`] until it is dropped.
#[derive(Debug)]
pub struct Datapath {
    pub(crate) loaded: Ebpf,
    /// Where frames are tried.
    pub(crate) hook: Hook,
    pub(crate) rings: Rings,
    pub(crate) queues: Queues,
    pub(crate) events: Option<Events>,
    /// Everything counts as heard of at this time at least.
    pub(crate) heard: Instant,
    pub(crate) sizes: Sizes,
    pub(crate) settings: Settings,
    pub(crate) services: BTreeMap<u32, Service>,
    pub(crate) servers: BTreeMap<u16, ServerName>,
    /// Flows of IPv4 and IPv6 that were left by the last sweep.
    pub(crate) flow_counts: [usize; 2],
    /// Counts up with every change of a server, a service or a ring.
    pub(crate) revision: u64,
    /// Of what processors remember of services, servers and connections.
    pub(crate) generation: Generation,
    wait: Wait,
}

#[derive(Debug)]
pub(crate) struct Service {
    method: Method,
    affinity: Affinity,
    /// Which of the two rings is in force.
    pub(crate) half: u8,
    pub(crate) frontends: Vec<Frontend>,
    /// Servers by the numbers in their connection ids of QUIC.
    pub(crate) quic_ids: BTreeMap<u16, u16>,
}

impl Service {
    /// Its entry at each frontend.
    pub(crate) fn value(&self, number: u32) -> [u8; 8] {
        service(number, (self.method, self.affinity), self.half, !self.quic_ids.is_empty())
    }
}

impl Datapath {
    /// Makes the tables and loads the program, which forwards nothing yet.
    ///
    /// # Errors
    /// It was not compiled, the settings cannot be, or the kernel refuses: it then says which
    /// right is missing.
    pub fn load(sizes: Sizes, settings: Settings) -> Result<Self, LoadError> {
        let places = settings.ports(false).count().max(settings.ports(true).count());
        let [returns4, returns6] = [false, true].map(|v6| settings.returns(v6).count());
        if returns4.max(returns6) > MAX_RETURNS || settings.first_port == 0 {
            return Err(LoadError::Returns);
        }
        let sizes = sizes.possible();
        let room = Queues::room(places);
        let tells = u32::from(sizes.events > 0);
        let tables = [
            ("services4", sizes.frontends),
            ("services6", sizes.frontends),
            ("ring", Rings::lines(sizes.services)),
            ("servers", u32::from(sizes.servers) + 1),
            ("quic_servers", u32::from(sizes.servers).saturating_mul(sizes.services)),
            ("server_counts", u32::from(sizes.servers) + 1),
            ("pools", u32::from(sizes.nat_servers) + 1),
            ("free_ports", Queues::lines(sizes.nat_servers, room)),
            ("flows4", sizes.flows),
            ("flows6", sizes.flows),
            ("nat_forward4", sizes.nat),
            ("nat_forward6", sizes.nat),
            ("nat_return4", sizes.nat),
            ("nat_return6", sizes.nat),
            ("events", sizes.events.max(EVENTS_MIN)),
        ];
        let mut loaded = BALANCER.load(&tables, &[("tells", &tells)])?;
        let events = (tells > 0).then(|| Events::open(&mut loaded)).transpose()?;
        let rings = Rings::map(&loaded, sizes.services)?;
        let queues = Queues::map(&loaded, sizes.nat_servers, room)?;
        let generation = Generation::map(&loaded)?;
        let wait = Wait::open(&mut loaded)?;
        let (services, servers) = (BTreeMap::new(), BTreeMap::new());
        let (heard, revision) = (Instant::ZERO, 0);
        let mut made = Self {
            loaded,
            hook: Hook::default(),
            rings,
            queues,
            events,
            heard,
            sizes,
            settings,
            services,
            servers,
            flow_counts: [0; 2],
            revision,
            generation,
            wait,
        };
        made.write_settings()?;
        Ok(made)
    }

    /// Attaches the program to an interface.
    ///
    /// # Errors
    /// No such interface, or it refuses.
    pub fn attach(&mut self, interface: &str, how: Attach) -> Result<Attached, AttachError> {
        attach(&BALANCER, &mut self.loaded, interface, how)
    }

    /// Sets what a server is. A number is of one server until [`Datapath::remove_servers`].
    ///
    /// # Errors
    /// A number without a place or of another server, a server with another number, or the
    /// kernel's.
    pub fn set_server(&mut self, number: u16, server: &Server) -> Result<(), TableError> {
        let limit = u32::from(self.sizes.servers) + 1;
        if number == 0 || u32::from(number) >= limit {
            let number = u32::from(number);
            return Err(TableError::TooLarge { what: "server", number, limit });
        }
        let name = server.name();
        let known = self.servers.get(&number).copied();
        if let Some(other) = known.filter(|known| *known != name) {
            let known = SocketAddr::new(other.address, other.port).to_string();
            return Err(TableError::OtherServer { number, known });
        }
        if let Some((known, _)) =
            self.servers.iter().find(|(at, of)| **of == name && **at != number)
        {
            let server = SocketAddr::new(server.address, server.port).to_string();
            return Err(TableError::SameServer { server, known: *known });
        }
        self.set_at("servers", number.into(), server.value())?;
        self.servers.insert(number, name);
        self.revision += 1;
        match known {
            None => self.ports(number).for_each(|port| self.queues.add(number, port)),
            // Connections leave one that is down at once, and follow its link address.
            Some(_) => self.outdate(),
        }
        Ok(())
    }

    /// All ports to lend towards a server.
    pub(crate) fn ports(&self, server: u16) -> impl Iterator<Item = Port> + use<> {
        let v6 = self.servers.get(&server).is_some_and(|name| name.address.is_ipv6());
        self.settings.ports(v6)
    }

    /// Adds a service, or gives one that is there another method and other frontends. Until a ring
    /// is published its packets are dropped. Another affinity finds what is under way at other
    /// places of the ring.
    ///
    /// # Errors
    /// A number without a place, or the kernel's.
    pub fn add_service(
        &mut self,
        number: u32,
        method: Method,
        affinity: Affinity,
        frontends: &[Frontend],
    ) -> Result<(), TableError> {
        let limit = self.sizes.services;
        if number >= limit {
            return Err(TableError::TooLarge { what: "service", number, limit });
        }
        let known = self.services.get(&number);
        let half = known.map_or(0, |known| known.half);
        let quic_ids = known.map(|known| known.quic_ids.clone()).unwrap_or_default();
        let added = Service { method, affinity, half, frontends: frontends.to_vec(), quic_ids };
        let value = added.value(number);
        let before = self.services.insert(number, added);
        self.revision += 1;
        for frontend in frontends {
            self.put_service(ServiceKey::of(frontend), value)?;
            self.put_service(ServiceKey::own(frontend.address.ip()), [0; 8])?;
        }
        self.close(&before.map_or_else(Vec::new, |before| before.frontends))
    }

    /// Puts a ring in force: it is written where no packet looks, and then all look there.
    ///
    /// # Errors
    /// An unknown service, a ring of another size, or the kernel's.
    pub fn publish(&mut self, number: u32, entries: &[Entry]) -> Result<(), TableError> {
        if entries.len() != RING_SIZE {
            return Err(TableError::RingSize(entries.len()));
        }
        let known = self.services.get_mut(&number);
        let known = known.ok_or(TableError::UnknownService(number))?;
        let half = 1 - known.half;
        let limit = self.sizes.services;
        if !self.rings.write(number, half, entries) {
            return Err(TableError::TooLarge { what: "service", number, limit });
        }
        known.half = half;
        self.revision += 1;
        self.renew(number)
    }

    /// Writes the entry of a service anew, at each of its frontends.
    pub(crate) fn renew(&mut self, number: u32) -> Result<(), TableError> {
        let known = self.services.get(&number).ok_or(TableError::UnknownService(number))?;
        let (value, frontends) = (known.value(number), known.frontends.clone());
        for frontend in frontends {
            self.put_service(ServiceKey::of(&frontend), value)?;
        }
        Ok(())
    }

    /// How often each verdict was given, since loading.
    ///
    /// # Errors
    /// The kernel's.
    pub fn verdicts(&self) -> Result<Vec<(Verdict, Count)>, TableError> {
        let count = |verdict| {
            let [packets, bytes] = self.sum("verdicts", verdict as u32)?;
            Ok((verdict, Count { packets, bytes }))
        };
        Verdict::ALL.into_iter().map(count).collect()
    }

    /// What a server was sent, since loading.
    ///
    /// # Errors
    /// The kernel's, for a number without a place.
    pub fn server_count(&self, number: u16) -> Result<ServerCount, TableError> {
        let [packets, bytes, opened, closed] = self.sum("server_counts", number.into())?;
        Ok(ServerCount { packets, bytes, opened, closed })
    }

    /// The program of XDP, for others to call it by a tail call.
    ///
    /// # Errors
    /// It is not in the object.
    pub fn program(&self) -> Result<&ProgramFd, LoadError> {
        let program: &Xdp = Object::program(&self.loaded, BALANCER.xdp)?;
        program.fd().map_err(|error| LoadError::from_kernel(error.into()))
    }

    fn write_settings(&mut self) -> Result<(), TableError> {
        for v6 in [false, true] {
            let returns: Vec<IpAddr> = self.settings.returns(v6).collect();
            let first = if v6 { MAX_RETURNS as u32 } else { 0 };
            for (ip, at) in returns.into_iter().zip(first..) {
                self.set_at("returns", at, address(ip))?;
                self.put_service(ServiceKey::own(ip), [0; 8])?;
            }
        }
        self.set_at("settings", 0, self.settings.value())
    }

    /// A hash table, to read.
    pub(crate) fn table<K: Pod, V: Pod>(
        &self,
        name: &'static str,
    ) -> Result<HashMap<&MapData, K, V>, TableError> {
        let map = self.loaded.map(name).ok_or(MapError::ElementNotFound);
        map.and_then(HashMap::try_from).map_err(TableError::kernel(name))
    }

    /// A hash table, to change.
    pub(crate) fn table_mut<K: Pod, V: Pod>(
        &mut self,
        name: &'static str,
    ) -> Result<HashMap<&mut MapData, K, V>, TableError> {
        table_of(&mut self.loaded, name)
    }

    fn put_service(&mut self, key: ServiceKey, value: [u8; 8]) -> Result<(), TableError> {
        match key {
            ServiceKey::V4(key) => self.insert("services4", key, value)?,
            ServiceKey::V6(key) => self.insert("services6", key, value)?,
        }
        self.outdate();
        Ok(())
    }

    /// Returns when every packet that was on its way through the program has left it.
    pub(crate) fn wait_for_packets(&mut self) -> Result<(), TableError> {
        self.wait.for_packets()
    }

    pub(crate) fn insert<K: Pod, V: Pod>(
        &mut self,
        table: &'static str,
        key: K,
        value: V,
    ) -> Result<(), TableError> {
        self.table_mut(table)?.insert(key, value, 0).map_err(TableError::kernel(table))
    }

    pub(crate) fn set_at<V: Pod>(
        &mut self,
        table: &'static str,
        at: u32,
        value: V,
    ) -> Result<(), TableError> {
        let mut entries: Array<_, V> = table_of(&mut self.loaded, table)?;
        entries.set(at, value, 0).map_err(TableError::kernel(table))
    }

    /// One value of a table, added up over all processors.
    fn sum<const N: usize>(&self, table: &'static str, at: u32) -> Result<[u64; N], TableError> {
        let map = self.loaded.map(table).ok_or(MapError::ElementNotFound);
        let values = map
            .and_then(PerCpuArray::<_, [u64; N]>::try_from)
            .and_then(|counts| counts.get(&at, 0))
            .map_err(TableError::kernel(table))?;
        let mut total = [0; N];
        for value in values.iter() {
            total.iter_mut().zip(value).for_each(|(total, value)| *total += value);
        }
        Ok(total)
    }
}

impl Sizes {
    /// The next that the kernel takes.
    fn possible(self) -> Self {
        let servers = self.servers.clamp(1, SERVER_MAX);
        Self {
            services: self.services.max(1),
            frontends: self.frontends.max(1),
            servers,
            nat_servers: self.nat_servers.min(servers),
            flows: self.flows.max(1),
            nat: self.nat.max(1),
            events: match self.events {
                0 => 0,
                bytes => bytes.clamp(EVENTS_MIN, EVENTS_MAX).next_power_of_two(),
            },
        }
    }
}

/// A table of a loaded object, of the kind that is asked for.
pub(crate) fn table_of<'a, T>(loaded: &'a mut Ebpf, name: &'static str) -> Result<T, TableError>
where
    T: TryFrom<&'a mut Map, Error = MapError>,
{
    let map = loaded.map_mut(name).ok_or(MapError::ElementNotFound);
    map.and_then(T::try_from).map_err(TableError::kernel(name))
}

impl Default for Settings {
    /// No tunnel, no NAT, Ethernet.
    fn default() -> Self {
        Self {
            tunnel4: Ipv4Addr::UNSPECIFIED,
            tunnel6: Ipv6Addr::UNSPECIFIED,
            mtu: 1_500,
            returns: Vec::new(),
            first_port: 1_024,
            ports: u16::MAX - 1_023,
        }
    }
}

/// The smallest that the kernel takes, with pages of any size.
const EVENTS_MIN: u32 = 65_536;

/// More than anybody can use.
const EVENTS_MAX: u32 = 1 << 28;
