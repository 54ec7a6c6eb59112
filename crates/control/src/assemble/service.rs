//! Services: policy, overflow, overload, retries, timeouts, and their groups.

use loadline_core::{
    fleet::{
        Ejection, HashKey, HttpVersion, Overflow, PolicyKind, Retry, ServerTimeouts, Service, Then,
        WhenFull,
    },
    units::Ratio,
};
use loadline_spanned::{At, Key, Named, Problems, Span, Text};

use super::{
    compression::compression,
    group,
    health::{health, refuse_grpc},
    pages,
    region::Regions,
    set,
    sticky::{affinity, sticky},
};
use crate::{
    file::{self, File, Repeated},
    resolve::Resolve,
    value::{
        either::{TableOrFalse, TextOr},
        label::{NAME_RULE, is_name},
        quantity::TimeOrOff,
        word::Word,
    },
};

/// The services of the file, in its order.
pub(super) fn services(
    file: &At<File>,
    regions: &Regions,
    resolver: &dyn Resolve,
    problems: &mut Problems,
) -> Vec<Service> {
    let table = &file.value.service;
    let place = table.place_or(&(0..0));
    let none = table.get().is_none_or(|named| named.iter().next().is_none());
    if none && !problems.is_damaged(&place) {
        let message = "no service: there is nowhere to send traffic".to_owned();
        let add = "add one: [service.web] with a [[service.web.group]]";
        let published = super::listener::unpublished(file);
        let help = published.map_or_else(|| add.to_owned(), |why| format!("{add}; {why}"));
        problems.absent(&file.span, &place, message, help);
    }
    let named = table.get().into_iter().flat_map(Named::iter);
    named.map(|(name, given)| service(name, given, regions, resolver, problems)).collect()
}

fn service(
    name: &At<String>,
    entry: &At<file::Service>,
    regions: &Regions,
    resolver: &dyn Resolve,
    problems: &mut Problems,
) -> Service {
    if !is_name(&name.value) {
        let message = format!("`{}` is not a name", name.value);
        problems.error(&name.span, message, "this service", NAME_RULE.to_owned());
    }
    let given = &entry.value;
    let mut service = Service::named(&name.value);
    set(&given.policy, |word| &word.0.0, &mut service.policy);
    service.hash = hash(&given.hash, service.policy, problems);
    service.sticky = sticky(&given.sticky, service.policy, problems);
    set(&given.class, |word| &word.0.0, &mut service.class);
    set(&given.overflow, |word| &word.0.0, &mut service.overflow);
    if let Some(given) = given.when_full.at() {
        service.when_full = when_full(given, service.when_full, problems);
    }
    set(&given.failover_threshold, |share| &share.0.0, &mut service.failover_threshold);
    set(&given.slow_start, |time| &time.0.0, &mut service.slow_start);
    service.manager = super::manager::manager(&given.manager, service.policy, problems);
    service.health = given.health.at().map(|given| health(given, problems));
    service.ejection = ejection(given.ejection.get(), problems);
    service.drain_timeout = given.drain_timeout.get().map(|time| time.0.0);
    service.retry = retry(given.retry.get());
    service.timeouts = timeouts(given.timeouts.get());
    set(&given.fin_timeout, |time| &time.0.0, &mut service.flow_times.fin);
    set(&given.stale_timeout, |time| &time.0.0, &mut service.flow_times.stale);
    service.affinity = affinity(&given.sticky, service.sticky.as_ref(), problems);
    service.tls = super::tls::service(&given.tls, problems);
    service.send_proxy = given.send_proxy.get().map(|word| word.0.0);
    set(&given.http_version, |word| &word.0.0, &mut service.http_version);
    set(&given.prewarm, |whole| &whole.0, &mut service.prewarm);
    service.compression = compression(&given.compress, problems);
    service.max_response_body = given.max_response_body.get().map(|size| size.0.0);
    service.error_pages = pages::error_pages(&given.error_pages, problems);
    service.maintenance = pages::maintenance(&given.maintenance);
    check_shared(given, &service, problems);
    check_prewarm(given, &service, problems);
    refuse_grpc(given, service.http_version, problems);
    let context = group::Context {
        service: name,
        table: &entry.span,
        // Where the check could not be read it may be there all the same.
        measured: given.health.given() || problems.is_damaged(&entry.span),
        regions,
        resolver,
    };
    service.groups = group::groups(&given.group, &context, problems);
    check_soonest(given, &service, problems);
    super::store::check(given, &service, problems);
    super::store::secure(entry, &mut service, problems);
    service
}

fn hash(
    given: &Key<TextOr<Word<HashKey>, file::HashHeader>>,
    policy: PolicyKind,
    problems: &mut Problems,
) -> HashKey {
    let Some(given) = given.at() else { return HashKey::ClientAddress };
    if !policy.hashes() {
        let message = format!("the policy `{}` hashes nothing", policy.name());
        let help = "`hash` is for the policies `maglev` and `bounded-hash`".to_owned();
        problems.warning(&given.span, message, "no effect", help);
    }
    match &given.value {
        TextOr::Text(word) => word.0.clone(),
        TextOr::Table(table) => match table.header.get() {
            Some(header) => HashKey::Header(header.0.0.clone()),
            None => {
                let help = "write { header = \"X-User\" }".to_owned();
                let message = "a table without `header`".to_owned();
                problems.absent(&given.span, &given.span, message, help);
                HashKey::ClientAddress
            }
        },
    }
}

fn when_full(
    given: &At<TextOr<Word<WhenFull>, file::Queue>>,
    default: WhenFull,
    problems: &mut Problems,
) -> WhenFull {
    let table = match &given.value {
        TextOr::Text(word) => return word.0,
        TextOr::Table(table) => table,
    };
    let WhenFull::Queue { mut timeout, mut length, mut then } = default else {
        return default;
    };
    if !table.queue.given() {
        let message = "a queue without `queue`, the longest wait".to_owned();
        let help = "write { queue = \"1s\", length = 200, then = \"shed\" }".to_owned();
        problems.absent(&given.span, &given.span, message, help);
    }
    set(&table.queue, |time| &time.0.0, &mut timeout);
    set(&table.length, |whole| &whole.0, &mut length);
    set::<_, Then>(&table.then, |word| &word.0.0, &mut then);
    WhenFull::Queue { timeout, length, then }
}

fn ejection(
    given: Option<&TableOrFalse<file::Ejection>>,
    problems: &mut Problems,
) -> Option<Ejection> {
    let mut ejection = Ejection::default();
    let table = match given {
        None => return Some(ejection),
        Some(TableOrFalse::False) => return None,
        Some(TableOrFalse::Table(table)) => table,
    };
    set(&table.errors, |whole| &whole.0, &mut ejection.errors);
    set(&table.time, |time| &time.0.0, &mut ejection.time);
    set(&table.time_max, |time| &time.0.0, &mut ejection.time_max);
    set(&table.share_max, |share| &share.0.0, &mut ejection.share_max);
    set(&table.silence, |time| &time.0.0, &mut ejection.silence);
    let excess = table.excess_5xx.get().map_or(ejection.excess_5xx, |share| Some(share.0.0));
    ejection.excess_5xx = excess.filter(|share| *share < Ratio::ONE);
    if ejection.time_max < ejection.time {
        let at: Span = table.time_max.place_or(&table.time.place_or(&(0..0)));
        let (time, time_max) = (ejection.time, ejection.time_max);
        let message = format!("`time_max` ({time_max}) is below `time` ({time})");
        problems.error(&at, message, "too short", format!("write time_max = \"{time}\" or more"));
    }
    Some(ejection)
}

fn retry(given: Option<&file::Retry>) -> Retry {
    let mut retry = Retry::default();
    if let Some(given) = given {
        set(&given.attempts, |whole| &whole.0, &mut retry.attempts);
        set(&given.budget, |share| &share.0.0, &mut retry.budget);
        set(&given.min_rate, |rate| &rate.0.0, &mut retry.min_rate);
        let repeats = |word: &Text<Word<Repeated>>| matches!(word.0.0, Repeated::ServerErrors);
        retry.on_5xx = given.on.get().is_some_and(|on| on.iter().any(repeats));
    }
    retry
}

fn timeouts(given: Option<&file::ServerTimeouts>) -> ServerTimeouts {
    let mut timeouts = ServerTimeouts::default();
    if let Some(given) = given {
        let or_off = |time: &TimeOrOff| time.0.0;
        set(&given.connect, |time| &time.0.0, &mut timeouts.connect);
        timeouts.head = given.head.get().map_or(timeouts.head, or_off);
        timeouts.idle = given.idle.get().map_or(timeouts.idle, or_off);
        timeouts.keep_alive = given.keep_alive.get().map_or(timeouts.keep_alive, or_off);
    }
    timeouts
}

/// Refuses `send_proxy` on connections that many requests share: the header names one client.
fn check_shared(given: &file::Service, service: &Service, problems: &mut Problems) {
    let Some(send_proxy) = given.send_proxy.at() else { return };
    if service.http_version == HttpVersion::Http2 {
        let message = "`send_proxy` with http_version = \"2\"".to_owned();
        let help = "leave it out: servers are told by X-Forwarded-For".to_owned();
        problems.error(&send_proxy.span, message, "clients share connections", help);
    }
}

/// Refuses `prewarm` with `send_proxy`: there is no client yet when the connection is opened.
fn check_prewarm(given: &file::Service, service: &Service, problems: &mut Problems) {
    let Some(prewarm) = given.prewarm.at().filter(|_| service.prewarm > 0) else { return };
    if service.send_proxy.is_some() {
        let message = "`prewarm` with `send_proxy`".to_owned();
        let help = "leave one of them out: the header names the client of a connection".to_owned();
        problems.error(&prewarm.span, message, "opened before there is a client", help);
    }
}

/// The expected wait is computed from what a group may be given, so some group has to say it.
fn check_soonest(given: &file::Service, service: &Service, problems: &mut Problems) {
    let Some(overflow) = given.overflow.at() else { return };
    let limits = |c: &loadline_core::fleet::Capacity| {
        c.auto == Some(true) || c.max_rate.is_some() || c.max_in_flight.is_some()
    };
    let limited = service.groups.iter().any(|group| {
        let template = group.discovery.as_ref().map(|it| &it.template);
        let mut servers = group.servers.iter().chain(template);
        limits(&group.capacity) || servers.any(|server| limits(&server.capacity))
    });
    if service.overflow != Overflow::Soonest || limited || service.groups.is_empty() {
        return;
    }
    let tables = given.group.get().into_iter().flatten();
    if tables.into_iter().any(|group| problems.is_damaged(&group.span)) {
        return;
    }
    let message = "`soonest` needs `max_in_flight` or `max_rate` on a group".to_owned();
    let help = "say how many requests a group works on at a time: max_in_flight = 6".to_owned();
    problems.error(&overflow.span, message, "no group has either", help);
}
