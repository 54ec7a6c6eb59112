//! The program that forwards packets: where it is attached, and how large its tables are.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use loadline_core::fleet::{
    Service,
    forwarding::{Datapath, Frontend, Method},
};
use loadline_spanned::{At, Key, Problems, Span, Text};

use super::set;
use crate::{file, value::link::HostIp};

/// What the file says of it; none where it says nothing that can be used.
pub(super) fn datapath(given: &Key<file::L4>, problems: &mut Problems) -> Option<Datapath> {
    let At { value, span } = given.at()?;
    let Some(interface) = value.interface.get() else {
        let help = "name the interface on which packets come in: interface = \"eth0\"".to_owned();
        problems.absent(span, span, "packet forwarding without `interface`".to_owned(), help);
        return None;
    };
    let mut datapath = Datapath::on(interface.0.0.clone());
    set(&value.xdp_mode, |word| &word.0.0, &mut datapath.mode);
    set(&value.mtu, |whole| &whole.0, &mut datapath.mtu);
    set(&value.max_services, |whole| &whole.0, &mut datapath.services);
    set(&value.max_flows, |whole| &whole.0, &mut datapath.flows);
    set(&value.max_nat_connections, |whole| &whole.0, &mut datapath.nat_connections);
    let short = |whole: Option<u32>, default| {
        whole.and_then(|whole| u16::try_from(whole).ok()).unwrap_or(default)
    };
    datapath.servers = short(value.max_servers.get().map(|it| it.0), datapath.servers);
    let nat_servers = value.max_nat_servers.get().map(|it| it.0);
    datapath.nat_servers = short(nat_servers, datapath.nat_servers).min(datapath.servers);
    datapath.first_port = short(value.first_port.get().map(|it| it.0), datapath.first_port);
    let most = u16::MAX - datapath.first_port + 1;
    datapath.ports = short(value.ports.get().map(|it| it.0), most);
    if let Some(ports) = value.ports.at().filter(|_| datapath.ports > most) {
        let message = format!("{} ports from {} on", datapath.ports, datapath.first_port);
        let help = format!("write at most {most}: there is none beyond 65535");
        problems.error(&ports.span, message, "too many", help);
    }
    datapath.return_addresses = addresses(&value.return_addresses, RETURNS, problems);
    datapath.tunnel_addresses = addresses(&value.tunnel_addresses, 1, problems);
    Some(datapath)
}

/// Addresses, each once and at most `most` of a family.
fn addresses(
    given: &Key<Vec<At<Text<HostIp>>>>,
    most: usize,
    problems: &mut Problems,
) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for At { value, span } in given.get().into_iter().flatten() {
        let address = value.0.0;
        let same_family = found.iter().filter(|other| other.is_ipv6() == address.is_ipv6());
        if found.contains(&address) {
            let message = format!("`{address}` is named above");
            problems.error(span, message, "a second time", "keep one of them".to_owned());
        } else if same_family.count() == most {
            let message = format!("more than {most} of one family");
            problems.error(span, message, "one too many", "leave it out".to_owned());
        }
        found.push(address);
    }
    found
}

/// Refuses more than the tables have room for.
pub(super) fn check_room(
    given: &Key<file::L4>,
    datapath: Option<&Datapath>,
    (frontends, services): (&[Frontend], &[Service]),
    problems: &mut Problems,
) {
    let (Some(At { value, span }), Some(datapath)) = (given.at(), datapath) else { return };
    let place = value.max_services.place_or(span);
    let forwarded: BTreeSet<ForwardedService> =
        frontends.iter().map(|it| (it.service, it.method, it.address.is_ipv6())).collect();
    check_servers((value, span), datapath, &servers(&forwarded, services), problems);
    if forwarded.len() > datapath.services as usize {
        let count = forwarded.len();
        let message = format!("{count} services whose packets are forwarded");
        let help =
            room(count).map(|it| format!("{it}: a service counts once for each method and family"));
        let help = help.unwrap_or_else(|| format!("{SERVICES_MAX} are the most"));
        return problems.error(&place, message, "too many", help);
    }
    for v6 in [false, true] {
        let needed = places(datapath, frontends, v6);
        if needed > datapath.places() as usize {
            let family = if v6 { "IPv6" } else { "IPv4" };
            let message = format!("{needed} addresses of {family} with and without a port");
            let help = room(needed.div_ceil(8)).map(|it| format!("{it}: 8 for each"));
            let help = help.unwrap_or_else(|| {
                format!("{} are the most: use fewer addresses or ports", 8 * SERVICES_MAX)
            });
            return problems.error(&place, message, "too many", help);
        }
    }
}

/// Refuses more servers than the tables have numbers for.
fn check_servers(
    (given, table): (&file::L4, &Span),
    datapath: &Datapath,
    servers: &BTreeSet<ForwardedServer>,
    problems: &mut Problems,
) {
    let of_nat = servers.iter().filter(|(service, _)| service.is_none()).count();
    let default = u32::from(Datapath::on(String::new()).nat_servers);
    if of_nat > given.max_nat_servers.get().map_or(default, |it| it.0) as usize {
        let place = given.max_nat_servers.place_or(table);
        let help = room_for_servers("max_nat_servers", of_nat);
        problems.error(&place, format!("{of_nat} servers with `nat`"), "too many", help);
    }
    let all = servers.len();
    if all > usize::from(datapath.servers) {
        let place = given.max_servers.place_or(table);
        let message = format!("{all} servers whose packets are forwarded");
        let help = room_for_servers("max_servers", all)
            + "; with `mac` and `ipip` a server counts once for each service, method and family";
        problems.error(&place, message, "too many", help);
    }
}

fn room_for_servers(key: &str, count: usize) -> String {
    match count {
        ..=SERVERS_MAX => format!("write {key} = {count} or more: draining servers count, too"),
        _ => format!("{SERVERS_MAX} are the most"),
    }
}

/// The most that `max_servers` and `max_nat_servers` may be.
const SERVERS_MAX: usize = 32_767;

/// A service by one method, for one family.
type ForwardedService = (usize, Method, bool);

/// What has a number in the tables: a server of `nat` by its address and port, any other by its
/// address in a service.
type ForwardedServer = (Option<ForwardedService>, SocketAddr);

/// The servers of these services.
fn servers(
    forwarded: &BTreeSet<ForwardedService>,
    services: &[Service],
) -> BTreeSet<ForwardedServer> {
    let mut found = BTreeSet::new();
    for one in forwarded {
        let (service, method, v6) = *one;
        let groups = services.get(service).into_iter().flat_map(|it| &it.groups);
        let addresses = groups.flat_map(|it| &it.servers).map(|it| it.address);
        let fits = addresses.filter(|it| it.is_ipv6() == v6);
        found.extend(fits.map(|address| match method {
            Method::Nat => (None, address),
            Method::Mac | Method::Ipip => (Some(*one), SocketAddr::new(address.ip(), 0)),
        }));
    }
    found
}

/// How room for so many services is written, if it can be.
fn room(services: usize) -> Option<String> {
    (services <= SERVICES_MAX).then(|| format!("write max_services = {services}"))
}

/// The most that `max_services` may be.
const SERVICES_MAX: usize = 1_024;

/// What the addresses of one family take in the tables.
fn places(datapath: &Datapath, frontends: &[Frontend], v6: bool) -> usize {
    let frontends: Vec<_> = frontends.iter().filter(|it| it.address.is_ipv6() == v6).collect();
    let returns = datapath.return_addresses.iter().filter(|it| it.is_ipv6() == v6).copied();
    let addresses: BTreeSet<IpAddr> =
        frontends.iter().map(|it| it.address.ip()).chain(returns).collect();
    frontends.len() + addresses.len()
}

/// Warns where nothing is forwarded.
pub(super) fn warn_unused(given: &Key<file::L4>, frontends: &[Frontend], problems: &mut Problems) {
    let Some(given) = given.at().filter(|_| frontends.is_empty() && !problems.failed()) else {
        return;
    };
    let message = "`[l4]`, and no listener with `forward`".to_owned();
    let help = "say forward = \"mac\", \"nat\" or \"ipip\" at a listener, or leave `[l4]` out";
    problems.warning(&given.span, message, "never used", help.to_owned());
}

/// As many as the tables have room for.
const RETURNS: usize = 16;
