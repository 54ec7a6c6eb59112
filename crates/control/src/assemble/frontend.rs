//! Listeners with packet forwarding: required keys, and keys that they cannot have.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use loadline_core::fleet::{
    ServerAddress, Service,
    forwarding::{Datapath, Frontend, Method, Protocol},
    socket_path,
};
use loadline_spanned::{At, Key, Problems, Span};

use super::unused;
use crate::{
    file::{self, Spoken},
    value::address::canonical,
};

/// What a frontend is read in.
pub(super) struct Context<'a> {
    pub(super) services: &'a [Service],
    pub(super) l4: &'a Key<file::L4>,
    /// What forwards; none where the file says nothing of it, or nothing that can be used.
    pub(super) datapath: Option<&'a Datapath>,
}

/// A listener at `bind` for the service at the index `service`, whose packets `method` forwards.
pub(super) fn frontend(
    entry: &At<file::Listener>,
    method: Method,
    (bind, service): (&At<SocketAddr>, usize),
    context: &Context<'_>,
    problems: &mut Problems,
) -> Frontend {
    let protocol = protocol(entry, problems);
    let frontend = Frontend { address: bind.value, protocol, method, service };
    refuse_reading(entry, method, problems);
    if entry.value.bind.given() {
        check_address(&bind.span, &frontend, problems);
    }
    check_datapath(entry, &frontend, context, problems);
    if let Some(service) = context.services.get(service) {
        check_addresses(&bind.span, &frontend, (service, context.datapath), problems);
        check_servers(&bind.span, &frontend, service, problems);
        check_service(entry, &frontend, service, problems);
        check_quic_server_ids(&bind.span, &frontend, service, problems);
    }
    frontend
}

/// Refuses `udp` at a listener of the proxy.
pub(super) fn refuse_udp(entry: &At<file::Listener>, problems: &mut Problems) {
    let Some(at) = entry.value.protocol.at().filter(|at| at.value.0.0 == Spoken::Udp) else {
        return;
    };
    let message = "`udp` without `forward`: the proxy takes connections".to_owned();
    let help = "say how its packets go on: forward = \"mac\", \"nat\" or \"ipip\"".to_owned();
    problems.error(&at.span, message, "never proxied", help);
}

/// Refuses an address that is taken already, by packets or by the proxy.
pub(super) fn check_taken(
    bind: &At<SocketAddr>,
    frontend: &Frontend,
    (bound, frontends): (&BTreeSet<SocketAddr>, &[Frontend]),
    problems: &mut Problems,
) {
    let address = canonical(frontend.address);
    let same = |other: &Frontend| {
        (canonical(other.address), other.protocol) == (address, frontend.protocol)
    };
    let proxied = bound.contains(&address);
    if frontends.iter().any(same) || proxied && frontend.protocol == Protocol::Tcp {
        let message = format!("`{}` is taken by a listener above", frontend.address);
        let help = "give each listener its own address or port".to_owned();
        problems.error(&bind.span, message, "the same address", help);
    }
}

fn protocol(entry: &At<file::Listener>, problems: &mut Problems) -> Protocol {
    let Some(given) = entry.value.protocol.at() else { return Protocol::Tcp };
    match given.value.0.0 {
        Spoken::Udp => Protocol::Udp,
        Spoken::Proxied(loadline_core::fleet::Protocol::Tcp) => Protocol::Tcp,
        Spoken::Proxied(other) => {
            let message = format!("`{}` is read by the proxy alone", other.name());
            let help = "packets are forwarded unread: say protocol = \"tcp\" or \"udp\", or \
                        forward = \"proxy\"";
            problems.error(&given.span, message, "never read", help.to_owned());
            Protocol::Tcp
        }
    }
}

/// Refuses keys that need a proxy to read the connection.
fn refuse_reading(entry: &At<file::Listener>, method: Method, problems: &mut Problems) {
    let given = &entry.value;
    let rules: [(&str, Option<&Span>); 3] = [
        ("routes", given.routes.at().map(|at| &at.span)),
        ("names", given.names.at().map(|at| &at.span)),
        ("tls", given.tls.at().map(|at| &at.span)),
    ];
    for (key, span) in rules.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        let message = format!("`{key}` with forward = \"{method}\"");
        let help = "a rule on the first bytes needs the proxy, which takes the connection and \
                    reads them: leave it out, or say forward = \"proxy\"";
        problems.error(span, message, "packets are forwarded unread", help.to_owned());
    }
    let others: [(&str, Option<&Span>); 7] = [
        ("basic_auth", given.basic_auth.at().map(|at| &at.span)),
        ("jwt", given.jwt.at().map(|at| &at.span)),
        ("forward_auth", given.forward_auth.at().map(|at| &at.span)),
        ("accept_proxy", given.accept_proxy.at().map(|at| &at.span)),
        ("max_connections", given.max_connections.at().map(|at| &at.span)),
        ("max_connections_per_client", given.max_connections_per_client.at().map(|at| &at.span)),
        ("timeouts", given.timeouts.at().map(|at| &at.span)),
    ];
    let others = others.into_iter().filter_map(|(key, span)| Some((key, span?)));
    for (key, span) in others.chain(unused::of_http(given)) {
        let message = format!("`{key}` with forward = \"{method}\"");
        let help = "connections are the servers' own: leave it out, or say forward = \"proxy\"";
        problems.error(span, message, "never used", help.to_owned());
    }
}

fn check_address(bind: &Span, frontend: &Frontend, problems: &mut Problems) {
    let address = frontend.address;
    if address.ip().is_unspecified() || address.port() == 0 {
        let message = format!("`{address}` leaves open where packets go to");
        let help = "write the service address and its port: bind = \"10.0.0.100:80\"".to_owned();
        return problems.error(bind, message, "not one address", help);
    }
    let is_broadcast = address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
    if address.ip().is_loopback() || address.ip().is_multicast() || is_broadcast {
        let message = format!("no packets come in to `{}` that could be forwarded", address.ip());
        let help = "write an address of this balancer alone that clients reach: \
                    bind = \"10.0.0.100:80\"";
        problems.error(bind, message, "not the address of a service", help.to_owned());
    }
}

/// Refuses addresses that cannot be of the balancer and of somebody else, or be used for two things
/// there.
fn check_addresses(
    bind: &Span,
    frontend: &Frontend,
    (service, datapath): (&Service, Option<&Datapath>),
    problems: &mut Problems,
) {
    let (ip, name) = (frontend.address.ip(), &service.name);
    let servers = || service.groups.iter().flat_map(|it| &it.servers);
    let is_server = |ip: IpAddr| servers().any(|it| it.address.ip() == ip);
    if is_server(ip) {
        let message = format!("`{ip}` is the address of a server of `{name}` as well");
        let help = "packets would come back here: give the service an address of its own";
        problems.error(bind, message, "the balancer's", help.to_owned());
    }
    let returns = datapath.map_or(&[][..], |it| it.return_addresses.as_slice());
    if returns.contains(&ip) {
        let message = format!("`{ip}` is in `return_addresses` as well");
        let help = "give the service another address: to that one, responses of servers come";
        problems.error(bind, message, "a return address", help.to_owned());
    }
    let mut of_servers = returns.iter().filter(|_| frontend.method == Method::Nat);
    if let Some(taken) = of_servers.find(|it| is_server(**it)) {
        let message = format!("`{taken}` in `return_addresses` is a server of `{name}`");
        let help = "name an address in `return_addresses` that nothing else uses".to_owned();
        problems.error(bind, message, "this service", help);
    }
    let tunnels = datapath.map_or(&[][..], |it| it.tunnel_addresses.as_slice());
    if frontend.method == Method::Ipip && tunnels.contains(&ip) {
        let message = format!("`{ip}` is in `tunnel_addresses` as well");
        let help = "servers have the service address themselves, and drop what comes from there: \
                    name another address of the balancer";
        problems.error(bind, message, "the source of tunnels", help.to_owned());
    }
}

fn check_datapath(
    entry: &At<file::Listener>,
    frontend: &Frontend,
    context: &Context<'_>,
    problems: &mut Problems,
) {
    let Some(forward) = entry.value.forward.at() else { return };
    let Some(l4) = context.l4.at() else {
        let message = format!("forward = \"{}\" without `[l4]`", frontend.method);
        let help = "say on which interface: l4 = { interface = \"eth0\" }".to_owned();
        problems.absent(&forward.span, &forward.span, message, help);
        return;
    };
    // Where the table, or the addresses in it, cannot be used, that has been told.
    let Some(datapath) = context.datapath else { return };
    let given = l4.value.return_addresses.place_or(&l4.span);
    let is_told = problems.is_damaged(&l4.span) || problems.is_damaged(&given);
    let v6 = frontend.address.is_ipv6();
    let has_return = datapath.return_addresses.iter().any(|it| it.is_ipv6() == v6);
    if frontend.method == Method::Nat && !has_return && !is_told {
        let family = family(v6);
        let message = format!("forward = \"nat\" without a return address of {family}");
        let example = if v6 { "fd00::9" } else { "10.0.0.9" };
        let help = format!(
            "add one: [l4] return_addresses = [\"{example}\"]; servers see connections come from \
             there"
        );
        problems.error(&forward.span, message, "nowhere to answer to", help);
    }
}

/// Packets keep their family, and all but those of `nat` their port.
fn check_servers(place: &Span, frontend: &Frontend, service: &Service, problems: &mut Problems) {
    let servers: Vec<SocketAddr> =
        service.groups.iter().flat_map(|it| &it.servers).map(|it| it.address).collect();
    let (v6, port, method) = (frontend.address.is_ipv6(), frontend.address.port(), frontend.method);
    if let Some(socket) = servers.iter().find(|it| socket_path(**it).is_some()) {
        let message = format!("no packets go to {}", ServerAddress(*socket));
        let help = "name a server by its address, or say forward = \"proxy\"".to_owned();
        return problems.error(place, message, "this service", help);
    }
    let is_open = service.groups.iter().any(|group| group.discovery.is_some());
    if !is_open && !servers.is_empty() && servers.iter().all(|it| it.is_ipv6() != v6) {
        let message = format!("`{}` has no server of {}", service.name, family(v6));
        let help = format!("`{method}` does not change the family of packets: add one");
        problems.error(place, message, "this address", help);
    }
    if method == Method::Nat {
        return;
    }
    if let Some(other) = servers.iter().find(|it| it.port() != port) {
        let message = format!("port {port} here, and a server at {other}");
        let help =
            format!("`{method}` leaves ports as they are: write the same one, or take `nat`");
        problems.error(place, message, "another port", help);
    }
}

/// The ids of connections say a server only where each has its own, and all say one.
fn check_quic_server_ids(
    place: &Span,
    frontend: &Frontend,
    service: &Service,
    problems: &mut Problems,
) {
    if frontend.protocol != Protocol::Udp {
        return;
    }
    let mut known: BTreeMap<u16, SocketAddr> = BTreeMap::new();
    let mut without = None;
    for server in service.groups.iter().flat_map(|it| &it.servers) {
        let Some(id) = server.quic_server_id else {
            without = without.or(Some(server.address));
            continue;
        };
        let other = *known.entry(id).or_insert(server.address);
        if other != server.address {
            let address = server.address;
            let message = format!("quic_server_id = {id} at {other} and at {address}");
            let help = "give each server a number of its own".to_owned();
            return problems.error(place, message, "this service", help);
        }
    }
    if let Some(without) = without.filter(|_| !known.is_empty()) {
        let message = format!("no quic_server_id at {without}, but at other servers");
        let help = "give every server of the service one: what is random in the connection ids of \
                    one without would be taken for the number of another";
        problems.error(place, message, "this service", help.to_owned());
    }
}

/// Refuses settings of a service that need requests to be read.
fn check_service(
    entry: &At<file::Listener>,
    frontend: &Frontend,
    service: &Service,
    problems: &mut Problems,
) {
    let place = entry.value.service.place_or(&entry.span);
    let (name, method) = (&service.name, frontend.method);
    if service.sticky.is_some() && !service.affinity.is_of_client() {
        let message = format!("`{name}` is sticky by what `{method}` does not read");
        let help = "write sticky = { hash = \"client-address\" }, or say forward = \"proxy\"";
        problems.error(&place, message, "this service", help.to_owned());
    }
    let is_limited = |group: &loadline_core::fleet::Group| {
        let limits = &group.capacity;
        limits.auto == Some(true) || limits.max_rate.is_some() || limits.max_in_flight.is_some()
    };
    if service.groups.iter().any(is_limited) {
        let message = format!("`{name}` has limits, which `{method}` does not keep");
        let help = "they are for requests, and only the proxy sees those".to_owned();
        problems.warning(&place, message, "this service", help);
    }
}

fn family(v6: bool) -> &'static str {
    if v6 { "IPv6" } else { "IPv4" }
}
