//! Keys that have no effect, since no traffic comes that they are for: of HTTP where none is read,
//! of packets where none are forwarded. And `slow_start` where nothing goes by weight.

use std::collections::BTreeSet;

use loadline_core::{
    fleet::{
        HashKey, Listener, PolicyKind, Probe, Protocol, Service, Sticky, forwarding::Frontend,
    },
    rules::Authentication,
    time::Duration,
};
use loadline_spanned::{At, Key, Named, Problems, Span};

use crate::{
    file::{self, File},
    value::either::{TableOrFalse, TextOr},
};

/// A key and where it is, if it is there.
type Place<'a> = (&'static str, Option<&'a Span>);

fn place<'a, T>(name: &'static str, key: &'a Key<T>) -> Place<'a> {
    (name, key.at().map(|at| &at.span))
}

fn given<'a>(
    places: impl IntoIterator<Item = Place<'a>>,
) -> impl Iterator<Item = (&'static str, &'a Span)> {
    places.into_iter().filter_map(|(key, span)| Some((key, span?)))
}

/// The keys of a listener that only HTTP has a use for.
pub(super) fn of_http(listener: &file::Listener) -> impl Iterator<Item = (&'static str, &Span)> {
    given([
        place("error_pages", &listener.error_pages),
        place("max_body", &listener.max_body),
        place("limits", &listener.limits),
        place("http_version", &listener.http_version),
        place("http2", &listener.http2),
        place("http3", &listener.http3),
        place("quic_congestion", &listener.quic_congestion),
        place("forwarded", &listener.forwarded),
        place("trusted_proxies", &listener.trusted_proxies),
        place("underscore_headers", &listener.underscore_headers),
    ])
}

/// Warns of keys that only HTTP has a use for.
pub(super) fn warn_of_listener(
    entry: &At<file::Listener>,
    protocol: Protocol,
    problems: &mut Problems,
) {
    if protocol.is_http() {
        return;
    }
    let times = entry.value.timeouts.get();
    let times = times.map(|it| {
        [place("timeouts.keep_alive", &it.keep_alive), place("timeouts.body_rate", &it.body_rate)]
    });
    for (key, span) in of_http(&entry.value).chain(given(times.into_iter().flatten())) {
        let message = format!("`{key}` on a listener that reads no HTTP");
        let help = "leave it out, or say protocol = \"http\"".to_owned();
        problems.warning(span, message, "no effect", help);
    }
}

/// Which traffic comes to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Traffic {
    Http,
    Connections,
    Packets,
}

/// Warns of keys of services to which no traffic comes that they are for.
pub(super) fn warn_of_services(
    file: &At<File>,
    services: &[Service],
    (listeners, frontends): (&[Listener], &[Frontend]),
    problems: &mut Problems,
) {
    let of_packets = frontends.iter().map(|it| (it.service, Traffic::Packets));
    let comes: BTreeSet<(usize, Traffic)> =
        listeners.iter().flat_map(of_listener).chain(of_packets).collect();
    let named = file.value.service.get().into_iter().flat_map(Named::iter);
    for (index, (entry, service)) in named.zip(services).enumerate() {
        let comes = |traffic| comes.contains(&(index, traffic));
        let (http, connections) = (comes(Traffic::Http), comes(Traffic::Connections));
        let packets = comes(Traffic::Packets);
        let table = &entry.1.value;
        if (connections || packets) && !http {
            for (key, span) in of_requests(table, service) {
                let message = format!("`{key}` of `{}`, to which no HTTP comes", service.name);
                let help = "leave it out, or let a listener of HTTP name the service".to_owned();
                problems.warning(span, message, "no effect", help);
            }
        }
        if packets && !http && !connections {
            for (key, span) in of_connections(table, service) {
                let message = format!("`{key}` of `{}`, whose packets are forwarded", service.name);
                let help = "connections are the servers' own: leave it out".to_owned();
                problems.warning(span, message, "no effect", help);
            }
        }
        if (http || connections) && !packets {
            for (key, span) in of_packets_alone(table) {
                let message =
                    format!("`{key}` of `{}`, whose packets nobody forwards", service.name);
                let help = "leave it out, or let a listener with `forward` name the service";
                problems.warning(span, message, "no effect", help.to_owned());
            }
        }
        warn_of_slow_start(table, service, packets, problems);
    }
}

/// Warns of a slow start where requests are hashed, since each change of weight would move keys,
/// and where servers are chosen whatever their weights. Packets always go by weight.
fn warn_of_slow_start(
    table: &file::Service,
    service: &Service,
    packets: bool,
    problems: &mut Problems,
) {
    let given = table.slow_start.at().filter(|_| service.slow_start > Duration::ZERO);
    let Some(given) = given else { return };
    let why = if matches!(service.sticky, Some(Sticky::Hash(_))) {
        "`sticky` by hash or header".to_owned()
    } else if service.policy.hashes() || service.policy == PolicyKind::LowestLatency && !packets {
        format!("the policy `{}`", service.policy.name())
    } else {
        return;
    };
    let message = format!("`slow_start` with {why}, which does not go by weights that rise");
    let help = "leave it out, or take another policy".to_owned();
    problems.warning(&given.span, message, "no effect", help);
}

/// The services of a listener, and what comes to them.
fn of_listener(listener: &Listener) -> Vec<(usize, Traffic)> {
    let own = match listener.protocol.is_http() {
        true => Traffic::Http,
        false => Traffic::Connections,
    };
    let asked = listener.authentication.as_ref().and_then(Authentication::service);
    let routed = listener.routes.services().chain(asked).map(|index| (index, Traffic::Http));
    let service = (!listener.routes_only).then_some(listener.service);
    let named = listener.names.services().chain(service).map(|index| (index, own));
    routed.chain(named).collect()
}

/// The keys of a service that are about requests and responses.
fn of_requests<'a>(
    table: &'a file::Service,
    service: &Service,
) -> impl Iterator<Item = (&'static str, &'a Span)> {
    let hashes = service.policy.hashes() && service.hash != HashKey::ClientAddress;
    let of_client = Sticky::Hash(HashKey::ClientAddress);
    let sticks = service.sticky.as_ref().is_some_and(|it| *it != of_client);
    let (times, retry) = (table.timeouts.get(), table.retry.get());
    let ejection = match table.ejection.get() {
        Some(TableOrFalse::Table(table)) => Some(table),
        _ => None,
    };
    let groups = table.group.get().into_iter().flatten().flat_map(|group| {
        let servers = group.value.per_server.get();
        let of_servers = servers.map(|it| place("max_utilization", &it.max_utilization));
        [place("max_utilization", &group.value.max_utilization)].into_iter().chain(of_servers)
    });
    let maintenance = table.maintenance.get();
    let checks = service.health.as_ref().is_some_and(|it| it.probe != Probe::Tcp);
    let inner = [
        times.map(|it| place("timeouts.head", &it.head)),
        times.map(|it| place("timeouts.keep_alive", &it.keep_alive)),
        retry.map(|it| place("retry.on", &it.on)),
        ejection.map(|it| place("ejection.excess_5xx", &it.excess_5xx)),
        maintenance.map(|it| place("maintenance.page", &it.page)),
        maintenance.map(|it| place("maintenance.retry_after", &it.retry_after)),
    ];
    let outer = [
        ("hash", table.hash.at().map(|at| &at.span).filter(|_| hashes)),
        ("sticky", table.sticky.at().map(|at| &at.span).filter(|_| sticks)),
        // Health checks are made by these too.
        ("http_version", table.http_version.at().map(|at| &at.span).filter(|_| !checks)),
        place("prewarm", &table.prewarm),
        place("compress", &table.compress),
        place("max_response_body", &table.max_response_body),
        place("error_pages", &table.error_pages),
    ];
    given(outer.into_iter().chain(inner.into_iter().flatten()).chain(groups))
}

/// The keys of a service that need somebody who takes connections.
fn of_connections<'a>(
    table: &'a file::Service,
    service: &Service,
) -> impl Iterator<Item = (&'static str, &'a Span)> {
    let checks = service.health.is_some();
    given([
        place("class", &table.class),
        place("overflow", &table.overflow),
        place("when_full", &table.when_full),
        place("ejection", &table.ejection),
        place("retry", &table.retry),
        place("timeouts", &table.timeouts),
        ("send_proxy", table.send_proxy.at().map(|at| &at.span).filter(|_| !checks)),
    ])
}

/// The keys of a service that need packets which are forwarded.
fn of_packets_alone(table: &file::Service) -> impl Iterator<Item = (&'static str, &Span)> {
    let servers = table.group.get().into_iter().flatten().flat_map(|group| {
        group.value.servers.get().into_iter().flatten().filter_map(|server| match &server.value {
            TextOr::Text(_) => None,
            TextOr::Table(server) => Some(server),
        })
    });
    let of_servers = servers.flat_map(|server| {
        [place("mac", &server.mac), place("quic_server_id", &server.quic_server_id)]
    });
    let sticky = table.sticky.get().map(|it| place("sticky.time", &it.time));
    let own =
        [place("fin_timeout", &table.fin_timeout), place("stale_timeout", &table.stale_timeout)];
    let own = own.into_iter().chain(sticky);
    given(own.chain(of_servers))
}
