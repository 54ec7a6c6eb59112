//! Listeners that do not speak HTTP: services by server name, and services that need HTTP.

use std::collections::BTreeSet;

use loadline_core::fleet::{Listener, Probe, Protocol, ServerNames, Service, Sticky};
use loadline_spanned::{At, Problems, Text};

use super::store;
use crate::{file, value::label::Name};

/// The services by server name of a listener that may have some; `find` knows their indices.
pub(super) fn names(
    entry: &At<file::Listener>,
    protocol: Protocol,
    find: impl Fn(&At<Text<Name>>, &mut Problems) -> usize,
    problems: &mut Problems,
) -> ServerNames {
    let Some(given) = entry.value.names.at() else { return ServerNames::default() };
    if protocol != Protocol::TlsPassthrough {
        let message = "`names` on a listener that passes no TLS through".to_owned();
        let help = "say protocol = \"tls-passthrough\", or leave `names` out".to_owned();
        problems.error(&given.span, message, "never used", help);
    }
    let mut names: Vec<(String, usize)> = Vec::new();
    let mut above = BTreeSet::new();
    for named in &given.value {
        let (name, service) = (named.value.name.at(), named.value.service.at());
        let (Some(name), Some(service)) = (name, service) else {
            let message = "a name needs both `name` and `service`".to_owned();
            let help = "write { name = \"*.example.com\", service = \"web\" }".to_owned();
            problems.absent(&named.span, &named.span, message, help);
            continue;
        };
        if !above.insert(name.value.0.0.as_str()) {
            let message = format!("`{}` is named above", name.value.0.0);
            problems.error(&name.span, message, "a second time", "keep one of them".to_owned());
        }
        names.push((name.value.0.0.clone(), find(service, problems)));
    }
    ServerNames::new(names)
}

/// Refuses services that go by what only HTTP has: the latency of responses, cookies.
pub(super) fn refuse_of_http(
    listener: &Listener,
    entry: &At<file::Listener>,
    services: &[Service],
    problems: &mut Problems,
) {
    if listener.protocol.is_http() {
        return;
    }
    let used = || std::iter::once(listener.service).chain(listener.names.services());
    let span = entry.value.service.place_or(&entry.span);
    store::refuse_bytes((listener.protocol, used()), &span, services, problems);
    for service in used().filter_map(|index| services.get(index)) {
        let name = &service.name;
        if service.groups.iter().any(|group| group.capacity.auto == Some(true)) {
            let message = format!("`{name}` has `capacity = \"auto\"`, which needs HTTP");
            let help = "give its groups `max_in_flight` or `max_rate` instead".to_owned();
            problems.error(&span, message, "this service", help);
        }
        if service.health.as_ref().is_some_and(|it| matches!(it.probe, Probe::Grpc { .. })) {
            let message = format!("`{name}` has a health check by gRPC, which needs HTTP");
            let help = "check its servers with tcp = true or advisor = \"tls\"".to_owned();
            problems.error(&span, message, "this service", help);
        }
        if service.compression.is_some() {
            let message = format!("`{name}` has `compress`, which needs HTTP");
            problems.error(&span, message, "this service", "leave `compress` out".to_owned());
        }
        if service.max_response_body.is_some() {
            let message = format!("`{name}` has `max_response_body`, which needs HTTP");
            let help = "leave `max_response_body` out".to_owned();
            problems.error(&span, message, "this service", help);
        }
        if matches!(service.sticky, Some(Sticky::Cookie(_))) {
            let message = format!("`{name}` is sticky by a cookie, which needs HTTP");
            let help = "write sticky = { hash = \"client-address\" }".to_owned();
            problems.error(&span, message, "this service", help);
        }
    }
}
