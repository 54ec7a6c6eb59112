//! What a configuration has that `serve` decides by, and the simulator does not.

use loadline_control::cluster;
use loadline_core::fleet::{Fleet, Group, Protocol, Service, Sticky};
use loadline_sim::Scenario;

use crate::commands::tell;

/// The first service with traffic whose packets are forwarded, which cannot be simulated.
pub(super) fn forwarded<'f>(fleet: &'f Fleet, scenario: &Scenario) -> Option<&'f str> {
    let is_forwarded =
        |service: &usize| fleet.forwarding.frontends.iter().any(|it| it.service == *service);
    let first = scenario.sources.iter().map(|source| source.service).find(is_forwarded)?;
    Some(&fleet.services[first].name)
}

/// The first service with traffic whose servers are all found by discovery, so that it has none.
pub(super) fn unlisted<'f>(fleet: &'f Fleet, scenario: &Scenario) -> Option<&'f str> {
    let mut services = scenario.sources.iter().map(|source| &fleet.services[source.service]);
    let has_none =
        |service: &&Service| !service.groups.is_empty() && service.groups.iter().all(is_unlisted);
    services.find(has_none).map(|service| service.name.as_str())
}

fn is_unlisted(group: &Group) -> bool {
    group.discovery.is_some() && group.servers.is_empty()
}

/// Says what is simulated as if it were not there.
pub(super) fn warn(fleet: &Fleet, scenario: &Scenario, cluster: Option<&cluster::Settings>) {
    let all = left_out(fleet, scenario, cluster);
    if !all.is_empty() {
        tell(&format!(
            "warning: not simulated: {} (docs/simulating.md says what is modelled)",
            all.join("; ")
        ));
    }
}

fn left_out(
    fleet: &Fleet,
    scenario: &Scenario,
    cluster: Option<&cluster::Settings>,
) -> Vec<String> {
    let mut all = Vec::new();
    for listener in &fleet.listeners {
        let spoken = match listener.protocol {
            Protocol::Http | Protocol::Https => continue,
            Protocol::Tcp => "tcp",
            Protocol::Tls => "tls",
            Protocol::TlsPassthrough => "tls-passthrough",
        };
        let bind = listener.bind;
        all.push(format!("connections of {spoken} at {bind}, each of which counts as a request"));
    }
    all.extend(fleet.services.iter().flat_map(of_service));
    let rules = || fleet.listeners.iter().flat_map(|it| it.routes.rules()).map(|(_, rule)| rule);
    if rules().any(|rule| rule.limit.is_some()) {
        all.push("rate limits of routes".to_owned());
    }
    if rules().any(|rule| rule.mirror.is_some()) {
        all.push("mirrors".to_owned());
    }
    let has_caches = fleet.listeners.iter().any(|listener| listener.routes.has_caches());
    if has_caches && scenario.caches.is_empty() {
        all.push("the cache of routes, unless traffic has [[objects]] and [[cache]]".to_owned());
    }
    if cluster.is_some_and(|cluster| cluster.share_health) {
        all.push("share_health, so each edge makes all checks".to_owned());
    }
    all
}

fn of_service(service: &Service) -> Vec<String> {
    let name = &service.name;
    let by_cookie = matches!(service.sticky, Some(Sticky::Cookie(_)));
    let is_closed = service.maintenance.as_ref().is_some_and(|it| it.enabled);
    let sessions = by_cookie.then(|| format!("sessions by cookie of `{name}`"));
    let maintenance = is_closed.then(|| format!("maintenance of `{name}`"));
    let groups = service.groups.iter().filter(|group| is_unlisted(group));
    let servers = groups.map(|group| format!("servers of `{name}/{}`, by discovery", group.name));
    sessions.into_iter().chain(maintenance).chain(servers).collect()
}
