//! A fleet in words: what will happen to a request, for whoever wrote the file.

pub(crate) mod routes;

use loadline_core::{
    fleet::{
        Capacity, Fleet, Group, HealthCheck, Listener, Overflow, Probe, Service, Then, WhenFull,
        forwarding::Frontend,
    },
    rules::Conditions,
    time::Duration,
    units::Ratio,
};

/// A few lines for each listener and service: the groups in the order in which they are filled,
/// with distance and capacity.
#[must_use]
pub fn describe(fleet: &Fleet) -> String {
    let mut lines = Vec::new();
    for listener in &fleet.listeners {
        let mut rules = listener.routes.rules().iter();
        let to = match fleet.services.get(listener.service) {
            // No request is left for the service of the listener.
            _ if rules.any(|(_, rule)| rule.when == Conditions::default()) => "its routes",
            service => service.map_or("?", |it| it.name.as_str()),
        };
        lines.push(format!("{} takes traffic for {to}", listener.bind));
        lines.extend(listener.names.iter().map(|(name, service)| {
            let service = fleet.services.get(service).map_or("?", |it| it.name.as_str());
            format!("  {name}: {service}")
        }));
        lines.extend(routes::describe(listener, fleet));
    }
    for frontend in &fleet.forwarding.frontends {
        let service = fleet.services.get(frontend.service).map_or("?", |it| it.name.as_str());
        let Frontend { address, protocol, method, .. } = frontend;
        lines.push(format!("{address}: {protocol} packets go to {service} by {method}"));
    }
    for (index, service) in fleet.services.iter().enumerate() {
        lines.push(String::new());
        lines.extend(describe_service(service, &fleet.edge.region, Carried::of(fleet, index)));
    }
    lines.join("\n") + "\n"
}

/// What servers of a service are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    Requests,
    Connections,
    Packets,
}

impl Carried {
    fn of(fleet: &Fleet, service: usize) -> Self {
        let carries = |it: &&Listener| {
            it.service == service || it.names.iter().any(|(_, named)| named == service)
        };
        let mut listeners = fleet.listeners.iter().filter(|it| !it.protocol.is_http());
        let mut frontends = fleet.forwarding.frontends.iter();
        if frontends.any(|it| it.service == service) {
            Self::Packets
        } else if listeners.any(|it| carries(&it)) {
            Self::Connections
        } else {
            Self::Requests
        }
    }
}

/// How much there is: "1 listener, 2 services, 3 groups, 9 servers".
#[must_use]
pub fn counts(fleet: &Fleet) -> String {
    let groups = || fleet.services.iter().flat_map(|service| &service.groups);
    let servers = groups().map(|group| group.servers.len()).sum();
    [
        plural(fleet.listeners.len() + fleet.forwarding.frontends.len(), "listener"),
        plural(fleet.services.len(), "service"),
        plural(groups().count(), "group"),
        plural(servers, "server"),
    ]
    .join(", ")
}

fn describe_service(service: &Service, here: &str, carried: Carried) -> Vec<String> {
    let mut lines = vec![format!("{}, seen from {here}:", service.name)];
    let groups = in_order(service);
    let width = groups.iter().map(|group| group.name.len()).max().unwrap_or(0);
    for (index, group) in groups.iter().enumerate() {
        let rank = index + 1;
        let words = describe_group(group, carried);
        lines.push(format!("  {rank}. {:width$}  {words}", group.name));
    }
    if service.maintenance.as_ref().is_some_and(|it| it.enabled) {
        lines.push(format!("  in maintenance: {}", maintenance(carried)));
    }
    let overflow = match service.overflow {
        Overflow::Capacity => "when its capacity is reached",
        Overflow::Soonest => "when the wait there exceeds the extra distance",
    };
    if groups.len() > 1 {
        lines.push(format!("  a request goes on to the next group {overflow},"));
        let threshold = service.failover_threshold;
        lines.push(format!("  and when less than {threshold} of a group's servers are healthy"));
        let with_farther = &groups[..groups.len() - 1];
        lines.extend(with_farther.iter().filter_map(|group| lost_with_one(group, threshold)));
    }
    if carried != Carried::Packets {
        lines.push(format!("  when all are full: {}", when_full(service.when_full, carried)));
    }
    let policy = if carried == Carried::Packets { "maglev" } else { service.policy.name() };
    lines.push(format!("  in a group: {policy}"));
    lines.push(format!("  health: {}", health(service.health.as_ref())));
    lines
}

/// What one server out does where it brings a group below the threshold.
fn lost_with_one(group: &Group, threshold: Ratio) -> Option<String> {
    let servers = || group.servers.iter().filter(|server| server.weight > 0);
    let first = servers().map(|server| server.priority).min()?;
    let count = servers().filter(|server| server.priority == first).count() as u64;
    let left = Ratio::part(count - 1, count);
    (count > 1 && left < threshold).then(|| {
        let percent = (count - 1) * 100 / count;
        format!(
            "    {}: one of {count} servers out sends all its traffic on, \
             since {percent}% is less than {threshold}",
            group.name
        )
    })
}

/// What becomes of new requests and connections.
const fn maintenance(carried: Carried) -> &'static str {
    match carried {
        Carried::Requests => "503 to all but those it allows",
        Carried::Connections => "connections are closed but of those it allows",
        Carried::Packets => "new connections are dropped, whoever opens them",
    }
}

/// The groups of a service, nearest first; those whose distance is not known yet last.
pub(crate) fn in_order(service: &Service) -> Vec<&Group> {
    let mut groups: Vec<&Group> = service.groups.iter().collect();
    groups.sort_by_key(|group| group.rtt.unwrap_or(Duration::MAX));
    groups
}

/// Distance, servers and capacity of a group.
pub(crate) fn describe_group(group: &Group, carried: Carried) -> String {
    let distance = match group.rtt {
        Some(Duration::ZERO) => "here".to_owned(),
        Some(rtt) => format!("{rtt} away"),
        None => "distance measured by health checks".to_owned(),
    };
    let servers = match &group.discovery {
        None => plural(group.servers.len(), "server"),
        Some(it) if it.source.place.is_name() => format!("whoever the {} lists", it.source),
        Some(it) => format!("{} of the {}", plural(group.servers.len(), "server"), it.source),
    };
    let per_server = per_server(group);
    let capacity = match (limits(&group.capacity).as_slice(), per_server.as_str()) {
        ([], "") if group.finds_limit() && carried == Carried::Requests => {
            "a limit that is found when it is full".to_owned()
        }
        ([], "") => "no limit".to_owned(),
        ([], per_server) => per_server.to_owned(),
        (limits, "") => limits.join(", "),
        (limits, per_server) => format!("{}, {per_server}", limits.join(", ")),
    };
    let scaler = match group.scaler {
        Ratio::ONE => String::new(),
        Ratio::ZERO => ", drained".to_owned(),
        scaler => format!(", of which {scaler} is used"),
    };
    format!("{distance}, {servers}, {capacity}{scaler}")
}

fn limits(capacity: &Capacity) -> Vec<String> {
    let rate = capacity.max_rate.map(|rate| format!("{rate}"));
    let in_flight = capacity.max_in_flight.map(|most| format!("{most} in flight"));
    let utilization = capacity.max_utilization.map(|share| format!("{share} utilized"));
    [rate, in_flight, utilization].into_iter().flatten().collect()
}

/// The limits of each server where they are all the same, or that they differ.
fn per_server(group: &Group) -> String {
    let Some(first) = group.servers.first().map(|server| server.capacity) else {
        return String::new();
    };
    if group.servers.iter().any(|server| server.capacity != first) {
        return "limits that differ by server".to_owned();
    }
    match limits(&first).as_slice() {
        [] => String::new(),
        limits => format!("{} per server", limits.join(", ")),
    }
}

/// What happens where all groups are full.
pub(crate) fn when_full(rule: WhenFull, carried: Carried) -> String {
    let (shed, refused) = match carried {
        Carried::Requests => ("503 with Retry-After", "503"),
        Carried::Connections | Carried::Packets => ("closed", "closed"),
    };
    match rule {
        WhenFull::Spread => "over capacity, in proportion to it".to_owned(),
        WhenFull::Shed => shed.to_owned(),
        WhenFull::Queue { timeout, length, then } => {
            let then = match then {
                Then::Shed => refused,
                Then::Spread => "over capacity",
            };
            format!("wait up to {timeout}, {length} at a time, then {then}")
        }
    }
}

fn health(check: Option<&HealthCheck>) -> String {
    let Some(check) = check else {
        return "not checked, every server counts as healthy".to_owned();
    };
    let probe = match &check.probe {
        Probe::Tcp => "a connection".to_owned(),
        Probe::Http { path, .. } => format!("GET {path}"),
        Probe::Grpc { service, .. } if service.is_empty() => "gRPC health".to_owned(),
        Probe::Grpc { service, .. } => format!("gRPC health of {service}"),
        Probe::Tls => "TLS".to_owned(),
        Probe::Ping => "a ping".to_owned(),
        Probe::Script { name, .. } => name.clone(),
    };
    let HealthCheck { interval, timeout, rise, fall, .. } = check;
    format!("{probe} every {interval} within {timeout}, up after {rise}, down after {fall}")
}

/// "1 server", "2 servers".
fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
