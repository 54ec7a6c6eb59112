//! The tables of the program as the plan wants them: services, rings and servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex},
    thread::sleep,
    time::{Duration, Instant},
};

use loadline_core::{
    decide::plan::Plan,
    fleet::forwarding::{self, Affinity, Method, Times},
    state, time,
};

use super::{
    StartError,
    episode::Episode,
    forwarded_services::{ForwardedService, Wanted, forwarded_services, moved, taken_over},
    load::Load,
    numbers::Numbers,
    placed::{Placed, wanted_servers},
    service_numbers::ServiceNumbers,
    targets::Target,
    tell::{Snapshot, place},
    upkeep::told,
};

use crate::{
    Attach, AttachError, Attached, Attachment, Datapath, Frontend, ServerName, Settings, Sizes,
    TableError,
    neighbour::{Neighbours, own_address},
    ring::{Entry, Ring, RingServer, table},
    standby::Standby,
};

/// The program with its tables, and the meaning of their numbers.
pub(super) struct Tables {
    pub(super) datapath: Datapath,
    pub(super) attachment: Attachment,
    pub(super) neighbours: Neighbours,
    pub(super) numbers: Numbers,
    pub(super) service_numbers: ServiceNumbers,
    pub(super) services: BTreeMap<ForwardedService, Served>,
    pub(super) servers: BTreeMap<u16, Placed>,
    /// What the last plan wants.
    pub(super) wanted: BTreeMap<ForwardedService, Wanted>,
    generation: u64,
    /// Servers without a number that were already reported.
    unplaced: BTreeSet<ServerName>,
    /// No NAT port was free.
    pub(super) exhaustion: Episode,
    /// There was no room for a NAT connection.
    pub(super) overflow: Episode,
    /// Connections that were counted of servers that have left since.
    pub(super) opened_before: u64,
    pub(super) due: super::upkeep::Due,
    /// What servers of managed services have, by service and address.
    pub(super) loads: BTreeMap<(String, SocketAddr), Load>,
    /// Other balancers.
    pub(super) standby: Option<Standby>,
    /// What is told while these tables are busy.
    pub(super) shown: Arc<Mutex<Snapshot>>,
}

/// A forwarded service in the tables.
pub(super) struct Served {
    pub(super) number: u32,
    pub(super) frontends: Vec<Frontend>,
    pub(super) times: Times,
    affinity: Affinity,
    pub(super) ring: Ring,
    /// What the ring was made of.
    members: Vec<RingServer>,
    /// When the ring is to be looked at again; none where it has settled.
    pub(super) settles_at: Option<time::Instant>,
}

impl Tables {
    /// Loads the program, fills its tables and attaches it; as the file says where `how` says
    /// nothing.
    pub(super) fn load(
        settings: &forwarding::Datapath,
        how: Option<Attach>,
        plan: &Plan,
        standby: Option<Standby>,
    ) -> Result<Self, StartError> {
        let wanted = forwarded_services(plan);
        let events = if standby.is_some() { EVENTS } else { 0 };
        let sizes = Sizes { events, ..sizes(settings) };
        let datapath =
            Datapath::load(sizes, self::settings(settings, &wanted)).map_err(AttachError::from)?;
        let of_file = match settings.mode {
            forwarding::XdpMode::Auto => Attach::Auto,
            forwarding::XdpMode::Native => Attach::Native,
            forwarding::XdpMode::Generic => Attach::Generic,
            forwarding::XdpMode::Tcx => Attach::Tcx,
        };
        let mut tables = Self {
            datapath,
            attachment: Attachment::to(&settings.interface, how.unwrap_or(of_file)),
            neighbours: Neighbours::open().map_err(StartError::Neighbours)?,
            numbers: Numbers::new(settings.servers, settings.nat_servers),
            service_numbers: ServiceNumbers::default(),
            services: BTreeMap::new(),
            servers: BTreeMap::new(),
            wanted: BTreeMap::new(),
            generation: 0,
            unplaced: BTreeSet::new(),
            exhaustion: Episode::default(),
            overflow: Episode::default(),
            opened_before: 0,
            due: super::upkeep::Due::default(),
            loads: BTreeMap::new(),
            standby,
            shown: Arc::default(),
        };
        tables.place(time::Instant::ZERO, &wanted);
        tables.await_links();
        tables.follow(plan);
        tables.attachment.begin(|name, how| tables.datapath.attach(name, how))?;
        told("counts", tables.show());
        Ok(tables)
    }

    /// How it is attached.
    pub(super) fn mode(&self) -> &'static str {
        self.attachment.attached().map_or(state::Forwarding::DETACHED, Attached::name)
    }

    /// Brings the tables to where a plan wants them.
    pub(super) fn follow(&mut self, plan: &Plan) {
        if plan.generation == self.generation {
            return;
        }
        self.generation = plan.generation;
        self.wanted = forwarded_services(plan);
        if let Some(standby) = &mut self.standby {
            standby.watch(plan.fleet.forwarding.addresses().into_iter().collect());
        }
        self.refresh();
    }

    /// Writes the differences between the tables and the plan.
    pub(super) fn refresh(&mut self) {
        let (now, wanted) = (Datapath::now(), self.wanted.clone());
        self.take_over(&wanted);
        self.place(now, &wanted);
        self.write_servers(now);
        self.tell_moved(&wanted);
        for (forwarded, wanted) in &wanted {
            if let Err(error) = self.serve(now, forwarded, wanted) {
                tracing::error!(service = %forwarded.service, method = %forwarded.method,
                    "packets are forwarded as before: {error}");
                if !self.services.contains_key(forwarded) {
                    self.service_numbers.give_back(forwarded);
                }
            }
        }
        let gone: Vec<ForwardedService> = self
            .services
            .keys()
            .filter(|forwarded| !wanted.contains_key(forwarded))
            .cloned()
            .collect();
        for forwarded in gone {
            let Some(served) = self.services.remove(&forwarded) else { continue };
            self.service_numbers.give_back(&forwarded);
            if let Err(error) = self.datapath.remove_service(served.number) {
                tracing::error!(service = %forwarded.service, "cannot be removed: {error}");
            }
        }
    }

    /// Gives new services the number and the ring of those that they go on as, so that connections
    /// stay where they are.
    fn take_over(&mut self, wanted: &BTreeMap<ForwardedService, Wanted>) {
        for (new, gone) in taken_over(self.frontends_before(), wanted) {
            let Some(served) = self.services.remove(&gone) else { continue };
            tracing::info!(
                service = %new.service, method = %new.method,
                "connections of service `{}` stay on its servers", gone.service
            );
            self.service_numbers.rename(&gone, &new);
            self.services.insert(new, served);
        }
    }

    fn frontends_before(&self) -> impl Iterator<Item = (&ForwardedService, &[Frontend])> {
        self.services.iter().map(|(known, served)| (known, &*served.frontends))
    }

    /// Warns of connections that do not outlive the change of their listener.
    fn tell_moved(&self, wanted: &BTreeMap<ForwardedService, Wanted>) {
        let before = self.frontends_before();
        for (Frontend { address, .. }, ForwardedService { service, method, .. }) in
            moved(before, wanted)
        {
            tracing::warn!(
                %address, %service, %method,
                "another service or method: connections that this listener had break"
            );
        }
    }

    /// Gives every server that is wanted a number, and lets the others leave.
    fn place(&mut self, now: time::Instant, wanted: &BTreeMap<ForwardedService, Wanted>) {
        for (forwarded, wanted) in wanted {
            let known = |number| self.numbers.has_service(number);
            self.service_numbers.give(forwarded, wanted.times, known);
        }
        let (here, unplaced) = wanted_servers(wanted, &self.service_numbers, &mut self.numbers);
        let unplaced = BTreeSet::from_iter(unplaced);
        for name in unplaced.difference(&self.unplaced) {
            self.tell_unplaced(*name, wanted);
        }
        self.unplaced = unplaced;
        for (number, target) in &here {
            self.servers.entry(*number).or_default().follow(now, target);
        }
        for (number, placed) in &mut self.servers {
            if !here.contains_key(number) {
                placed.leave(now);
            }
        }
        if let Some(standby) = &mut self.standby {
            standby.claim(|number| here.contains_key(&number));
        }
    }

    fn tell_unplaced(&self, name: ServerName, wanted: &BTreeMap<ForwardedService, Wanted>) {
        let has = |forwarded: &ForwardedService, wanted: &Wanted| {
            let Some(number) = self.service_numbers.of(forwarded) else { return false };
            wanted.targets.iter().any(|target| forwarded.name(number, target) == name)
        };
        let service = wanted.iter().find(|(forwarded, wanted)| has(forwarded, wanted));
        let service = service.map_or("", |(forwarded, _)| &forwarded.service);
        let (server, key) = (place(name), self.numbers.limit(name));
        tracing::error!(%server, service, "is given no packets: the tables have no room for it; \
            raise l4.{key} and start again");
    }

    /// Whether there was no number for a server.
    pub(super) fn has_unplaced(&self) -> bool {
        !self.unplaced.is_empty()
    }

    /// Gives the kernel a moment to find out where servers are that the file says no link address
    /// of.
    fn await_links(&mut self) {
        let deadline = Instant::now() + FIRST_LINKS;
        while !self.find_links(false).whole && Instant::now() < deadline {
            sleep(LINK_POLL);
        }
    }

    /// Tells the program of servers that are new or have changed.
    pub(super) fn write_servers(&mut self, now: time::Instant) {
        for (number, placed) in &mut self.servers {
            let Some(name) = self.numbers.name(*number) else { continue };
            let server = placed.server(now, name);
            if placed.written == Some(server) {
                continue;
            }
            match self.datapath.set_server(*number, &server) {
                Ok(()) => placed.written = Some(server),
                Err(error) => tracing::error!(server = %name.address, "cannot be changed: {error}"),
            }
        }
    }

    fn serve(
        &mut self,
        now: time::Instant,
        forwarded: &ForwardedService,
        wanted: &Wanted,
    ) -> Result<(), TableError> {
        let members = self.members(forwarded, wanted);
        let quic_ids = self.quic_ids(forwarded, wanted);
        let is_free = self.is_free();
        if let Some(served) = self.services.get_mut(forwarded) {
            served.times = wanted.times;
            let is_other = served.affinity.is_of_client() != wanted.affinity.is_of_client();
            if is_other || served.frontends != wanted.frontends {
                let (affinity, frontends) = (wanted.affinity, &wanted.frontends);
                self.datapath.add_service(served.number, forwarded.method, affinity, frontends)?;
                served.frontends.clone_from(frontends);
            }
            if is_other {
                tracing::warn!(
                    service = %forwarded.service,
                    "another `sticky`: connections by `mac` and `ipip` may have moved"
                );
            }
            served.affinity = wanted.affinity;
            self.datapath.set_quic_ids(served.number, &quic_ids)?;
            if is_free && served.members != members {
                served.assign(now, members);
                self.datapath.publish(served.number, served.ring.entries())?;
            }
            return Ok(());
        }
        let known = |number| self.numbers.has_service(number);
        let number = self.service_numbers.give(forwarded, wanted.times, known);
        let served = Served {
            number,
            frontends: wanted.frontends.clone(),
            times: wanted.times,
            affinity: wanted.affinity,
            ring: Ring::new(&table(&members)),
            members,
            settles_at: Some(now),
        };
        self.datapath.add_service(number, forwarded.method, wanted.affinity, &wanted.frontends)?;
        self.datapath.publish(number, served.ring.entries())?;
        self.datapath.set_quic_ids(number, &quic_ids)?;
        self.services.insert(forwarded.clone(), served);
        Ok(())
    }

    /// The servers that are known by what is in their connection ids of QUIC.
    fn quic_ids(&mut self, forwarded: &ForwardedService, wanted: &Wanted) -> BTreeMap<u16, u16> {
        let Some(service) = self.service_numbers.of(forwarded) else { return BTreeMap::new() };
        let of = |target: &Target| {
            Some((target.quic_server_id?, self.numbers.of(forwarded.name(service, target))?))
        };
        wanted.targets.iter().filter_map(of).collect()
    }

    /// Servers of new connections.
    fn members(&mut self, forwarded: &ForwardedService, wanted: &Wanted) -> Vec<RingServer> {
        let mut members = Vec::new();
        let Some(service) = self.service_numbers.of(forwarded) else { return members };
        for target in wanted.targets.iter().filter(|target| target.weight > 0) {
            let name = forwarded.name(service, target);
            let Some(number) = self.numbers.of(name) else { continue };
            if self.servers.get(&number).is_some_and(|placed| placed.link.is_some()) {
                members.push(RingServer { address: target.address, weight: target.weight, number });
            }
        }
        members
    }
}

impl Served {
    /// How long after its last packet a flow is still where it was.
    pub(super) fn lasts(&self) -> time::Duration {
        self.affinity.lasts(self.times.stale)
    }

    /// Goes on with a ring that was another balancer's; its members are to be assigned anew.
    pub(super) fn resume(&mut self, ring: Ring, now: time::Instant) {
        self.ring = ring;
        self.members.clear();
        self.settles_at = Some(now);
    }

    fn assign(&mut self, now: time::Instant, members: Vec<RingServer>) {
        let table = table(&members);
        // Where nobody was, no flow can be.
        if self.ring.entries().iter().all(|entry| *entry == Entry::settled(0)) {
            self.ring = Ring::new(&table);
        } else {
            self.ring.assign(now, &table);
            self.settles_at = Some(now);
        }
        self.members = members;
    }
}

fn sizes(of: &forwarding::Datapath) -> Sizes {
    Sizes {
        services: of.services,
        // While one file takes the place of another, those of both.
        frontends: of.places().saturating_mul(2),
        servers: of.servers,
        nat_servers: of.nat_servers,
        flows: of.flows,
        nat: of.nat_connections,
        ..Sizes::default()
    }
}

/// What the file does not say of tunnels is what the kernel would do towards the first server.
fn settings(of: &forwarding::Datapath, wanted: &BTreeMap<ForwardedService, Wanted>) -> Settings {
    let said = |v6: bool| of.tunnel_addresses.iter().copied().find(|it| it.is_ipv6() == v6);
    let chosen = |v6: bool| {
        let tunnels = wanted
            .iter()
            .filter(|(forwarded, _)| forwarded.method == Method::Ipip && forwarded.v6 == v6);
        let mut servers = tunnels.flat_map(|(_, wanted)| &wanted.targets);
        servers.find_map(|server| own_address(server.address.ip()))
    };
    let v4 = match said(false).or_else(|| chosen(false)) {
        Some(IpAddr::V4(v4)) => v4,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let v6 = match said(true).or_else(|| chosen(true)) {
        Some(IpAddr::V6(v6)) => v6,
        _ => Ipv6Addr::UNSPECIFIED,
    };
    Settings {
        tunnel4: v4,
        tunnel6: v6,
        mtu: of.mtu,
        returns: of.return_addresses.clone(),
        first_port: of.first_port,
        ports: of.ports,
    }
}

/// Bytes for what a standby is told: of 12,000 connections, seconds of a busy balancer.
const EVENTS: u32 = 1 << 20;

/// A response on the same network takes a millisecond; who does not answer now is asked again.
const FIRST_LINKS: Duration = Duration::from_secs(1);

/// Time from one look at the neighbours to the next, at the start.
const LINK_POLL: Duration = Duration::from_millis(10);
