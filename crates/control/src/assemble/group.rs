//! Groups and their servers.

use std::{collections::BTreeSet, net::SocketAddr};

use loadline_core::{
    fleet::{Capacity, Group, Server, ServerAddress},
    units::Ratio,
};
use loadline_spanned::{At, Key, Problems, Span};

use super::{discover::discovery, quic_server_id, region::Regions, set, store};
use crate::{
    file::{self, Found},
    resolve::Resolve,
    value::{
        address::{Place, ServerPlace},
        either::TextOr,
    },
};

/// What a group is read in.
pub(super) struct Context<'a> {
    /// The name of the service.
    pub(super) service: &'a At<String>,
    /// The place of its table.
    pub(super) table: &'a Span,
    /// Whether health checks can measure distances.
    pub(super) measured: bool,
    pub(super) regions: &'a Regions,
    pub(super) resolver: &'a dyn Resolve,
}

/// The groups of one service.
pub(super) fn groups(
    given: &Key<Vec<At<file::Group>>>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Vec<Group> {
    let entries: Vec<&At<file::Group>> = given.get().into_iter().flatten().collect();
    if entries.is_empty() && !given.at().is_some_and(|at| problems.is_damaged(&at.span)) {
        let name = &context.service.value;
        let message = format!("the service `{name}` has no group of servers");
        let help = format!("add one: [[service.{name}.group]] servers = [\"10.0.0.1:80\"]");
        problems.absent(context.table, &context.service.span, message, help);
    }
    let (mut groups, mut names) = (Vec::new(), BTreeSet::new());
    for entry in entries {
        let group = group(entry, context, problems);
        if !names.insert(group.name.clone()) {
            refuse_name(entry, &group, problems);
        }
        groups.push(group);
    }
    groups
}

fn group(entry: &At<file::Group>, context: &Context<'_>, problems: &mut Problems) -> Group {
    let given = &entry.value;
    let here = context.regions.here();
    let region = given.region.get().map_or(here, |region| &region.0.0).to_owned();
    let place = given.region.place_or(&entry.span);
    let rtt_given = given.rtt.get().map(|time| time.0.0);
    let measured = context.measured || rtt_given.is_some() || problems.is_damaged(&entry.span);
    let distance = context.regions.distance_of_group(&region, &place, measured, problems);
    check_burst(&given.burst, given.max_rate.given(), problems);
    let defaults = defaults(given.per_server.get(), problems);
    let of_store = store::servers(given, &defaults, context.resolver, problems);
    let (servers, discovery) = match of_store {
        Some(both) => both,
        None if given.store.given() => (vec![], None),
        None => (
            servers(entry, (&region, &defaults), context, problems),
            discovery(&given.discover, &defaults, problems),
        ),
    };
    Group {
        name: given.name.get().map_or(&region, |name| &name.0.0).clone(),
        rtt: rtt_given.or(distance),
        capacity: Capacity {
            max_rate: given.max_rate.get().map(|rate| rate.0.0),
            burst: given.burst.get().map(|whole| whole.0),
            max_in_flight: given.max_in_flight.get().map(|whole| whole.0),
            auto: given.capacity.get().map(|found| matches!(found.0.0, Found::Auto)),
            max_utilization: given.max_utilization.get().map(|share| share.0.0),
        },
        scaler: given.scaler.get().map_or(Ratio::ONE, |scaler| scaler.0.0),
        servers,
        discovery,
        region,
    }
}

/// Refuses a group with the name of one above.
fn refuse_name(entry: &At<file::Group>, group: &Group, problems: &mut Problems) {
    if problems.is_damaged(&entry.span) {
        return;
    }
    let region_span = entry.value.region.place_or(&entry.span);
    let place = entry.value.name.place_or(&region_span);
    let message = format!("a second group named `{}`", group.name);
    let help = format!("give it its own name: name = \"{}-2\"", group.name);
    problems.error(&place, message, "the same name", help);
}

fn servers(
    entry: &At<file::Group>,
    (region, defaults): (&str, &Server),
    context: &Context<'_>,
    problems: &mut Problems,
) -> Vec<Server> {
    let given = entry.value.servers.at();
    if let Some(discover) = entry.value.discover.at() {
        if given.is_some() {
            let message = "`discover` beside `servers`".to_owned();
            let help = "leave one of them out; the list may hold fixed servers too".to_owned();
            problems.error(&discover.span, message, "a second list", help);
        }
        return Vec::new();
    }
    let empty = given.is_none_or(|list| list.value.is_empty());
    if empty && !given.is_some_and(|list| problems.is_damaged(&list.span)) {
        let place = entry.value.servers.place_or(&entry.span);
        let message = format!("the group in `{region}` has no servers");
        let help = "add at least one: servers = [\"10.0.0.1:80\"]".to_owned();
        problems.absent(&entry.span, &place, message, help);
    }
    let count = given.map_or(0, |list| list.value.len());
    let beyond = given.and_then(|list| list.value.get(Group::SERVERS_MAX as usize));
    if let Some(element) = beyond {
        let message = format!("{count} servers in one group");
        let help = format!("a group has {} servers at most: divide it", Group::SERVERS_MAX);
        problems.error(&element.span, message, "one too many", help);
    }
    let (mut servers, mut addresses) = (Vec::with_capacity(count), BTreeSet::new());
    for element in given.into_iter().flat_map(|list| &list.value) {
        let Some(server) = server(element, defaults, context, problems) else { continue };
        if !addresses.insert(server.address) {
            let message = format!("`{}` is in this group twice", ServerAddress(server.address));
            let help = "name it once; a larger share of the traffic is `weight`".to_owned();
            problems.error(&element.span, message, "again", help);
        }
        servers.push(server);
    }
    servers
}

/// A server with the limits of `per_server`; its address is yet to be set.
fn defaults(given: Option<&file::PerServer>, problems: &mut Problems) -> Server {
    let absent = file::PerServer::default();
    let given = given.unwrap_or(&absent);
    check_burst(&given.burst, given.max_rate.given(), problems);
    let mut server = Server {
        capacity: Capacity {
            max_rate: given.max_rate.get().map(|rate| rate.0.0),
            burst: given.burst.get().map(|whole| whole.0),
            max_in_flight: given.max_in_flight.get().map(|whole| whole.0),
            auto: None,
            max_utilization: given.max_utilization.get().map(|share| share.0.0),
        },
        ..Server::at(SocketAddr::from(([0, 0, 0, 0], 0)))
    };
    set(&given.max_connections, |whole| &whole.0, &mut server.max_connections);
    server
}

fn server(
    element: &At<TextOr<ServerPlace, file::Server>>,
    defaults: &Server,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Server> {
    let mut server = defaults.clone();
    let (place, span) = match &element.value {
        TextOr::Text(place) => (place, &element.span),
        TextOr::Table(table) => {
            let Some(address) = table.address.at() else {
                let message = "a server without `address`".to_owned();
                let help = "add it: { address = \"10.0.0.1:80\" }".to_owned();
                problems.absent(&element.span, &element.span, message, help);
                return None;
            };
            override_with(table, &mut server, problems);
            (&address.value.0, &address.span)
        }
    };
    let place = match place {
        ServerPlace::At(place) => place,
        ServerPlace::Socket(address) => return Some(Server { address: address.0, ..server }),
    };
    server.address = resolved(place, span, context.resolver, problems)?;
    if let Place::Name(host, _) = place {
        server.host = Some(host.clone());
    }
    Some(server)
}

fn override_with(given: &file::Server, server: &mut Server, problems: &mut Problems) {
    set(&given.weight, |whole| &whole.0, &mut server.weight);
    let priority = given.priority.get().and_then(|whole| u16::try_from(whole.0).ok());
    server.priority = priority.unwrap_or(server.priority);
    set(&given.max_connections, |whole| &whole.0, &mut server.max_connections);
    server.link = given.mac.get().map(|mac| mac.0.0);
    server.quic_server_id = quic_server_id(&given.quic_server_id);
    let capacity = &mut server.capacity;
    capacity.max_rate = given.max_rate.get().map(|rate| rate.0.0).or(capacity.max_rate);
    capacity.burst = given.burst.get().map(|whole| whole.0).or(capacity.burst);
    capacity.max_in_flight =
        given.max_in_flight.get().map(|whole| whole.0).or(capacity.max_in_flight);
    capacity.max_utilization =
        given.max_utilization.get().map(|share| share.0.0).or(capacity.max_utilization);
    check_burst(&given.burst, capacity.max_rate.is_some(), problems);
}

pub(super) fn resolved(
    place: &Place,
    span: &Span,
    resolver: &dyn Resolve,
    problems: &mut Problems,
) -> Option<SocketAddr> {
    let (host, port) = match place {
        Place::Address(address) => return Some(*address),
        Place::Name(host, port) => (host, *port),
    };
    match resolver.resolve(host, port) {
        Ok(address) => Some(address),
        Err(error) => {
            let help = "check the name, or write the address itself: \"10.0.0.1:80\"".to_owned();
            let message = format!("`{host}` cannot be resolved: {error}");
            problems.error(span, message, "this name", help);
            None
        }
    }
}

fn check_burst<const MIN: u32, const MAX: u32>(
    burst: &Key<crate::value::number::Whole<MIN, MAX>>,
    has_rate: bool,
    problems: &mut Problems,
) {
    let Some(burst) = burst.at().filter(|_| !has_rate) else { return };
    let message = "`burst` without `max_rate` limits nothing".to_owned();
    let help = "add `max_rate`, or leave `burst` out".to_owned();
    problems.warning(&burst.span, message, "no effect", help);
}
