//! Groups whose responses come from a store of objects, and what a service with one cannot have.

use loadline_core::fleet::{HttpVersion, Protocol, Server, Service, Store, StorePlace};
use loadline_spanned::{At, Problems, Span};

use super::set;
use crate::{
    file,
    value::{either::TextOr, store::StoreUrl},
};

/// The servers of a group with `store`: none where it has none, or where that is no use.
pub(super) fn servers(
    given: &file::Group,
    defaults: &Server,
    problems: &mut Problems,
) -> Option<Vec<Server>> {
    let entry = given.store.at()?;
    let others = [given.servers.at().map(|at| &at.span), given.discover.at().map(|at| &at.span)];
    for other in others.into_iter().flatten() {
        let message = "servers beside `store`".to_owned();
        let help = "leave one of them out, or give the servers a group of their own".to_owned();
        problems.error(other, message, "a group has either", help);
    }
    let store = store(entry, problems)?;
    let server = Server::of_files(store);
    let (capacity, max_connections) = (defaults.capacity, defaults.max_connections);
    Some(vec![Server { capacity, max_connections, ..server }])
}

fn store(entry: &At<TextOr<StoreUrl, file::Store>>, problems: &mut Problems) -> Option<Store> {
    let table = match &entry.value {
        TextOr::Text(url) => return Some(Store::at(place(url))),
        TextOr::Table(table) => table,
    };
    let Some(url) = table.url.get() else {
        let help = "add it: { url = \"file:///srv/www\" }".to_owned();
        problems.absent(&entry.span, &entry.span, "a store without `url`".to_owned(), help);
        return None;
    };
    let mut store = Store::at(place(&url.0));
    set(&table.index, |name| &name.0.0, &mut store.index);
    Some(store)
}

fn place(url: &StoreUrl) -> StorePlace {
    match url {
        StoreUrl::Files(path) => StorePlace::Files(path.clone()),
    }
}

/// Whether requests of the service may go to a store.
fn has_store(service: &Service) -> bool {
    service.groups.iter().flat_map(|group| &group.servers).any(|server| server.store.is_some())
}

/// Refuses what is for servers that speak for themselves.
pub(super) fn check(given: &file::Service, service: &Service, problems: &mut Problems) {
    if !has_store(service) {
        return;
    }
    if let Some(health) = given.health.at() {
        let message = "`health` with a group that has `store`".to_owned();
        let help = "leave it out: a store is judged by what it answers to requests".to_owned();
        problems.error(&health.span, message, "nothing to ask", help);
    }
    let places: [(&str, Option<&Span>); 3] = [
        (
            "http_version = \"2\"",
            given.http_version.at().map(|at| &at.span).filter(|_| is_http2(service)),
        ),
        ("send_proxy", given.send_proxy.at().map(|at| &at.span)),
        ("prewarm", given.prewarm.at().map(|at| &at.span).filter(|_| service.prewarm > 0)),
    ];
    for (key, span) in places.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        let message = format!("`{key}` with a group that has `store`");
        problems.error(span, message, "for servers alone", "leave it out".to_owned());
    }
}

fn is_http2(service: &Service) -> bool {
    service.http_version == HttpVersion::Http2
}

/// Refuses what does not speak HTTP: objects are responses to requests.
pub(super) fn refuse_bytes(
    (protocol, used): (Protocol, impl Iterator<Item = usize>),
    span: &Span,
    services: &[Service],
    problems: &mut Problems,
) {
    if protocol.is_http() {
        return;
    }
    for service in used.filter_map(|index| services.get(index)).filter(|it| has_store(it)) {
        let message = format!("`{}` has a group with `store`, which needs HTTP", service.name);
        let help = "say protocol = \"http\" or \"https\"".to_owned();
        problems.error(span, message, "this service", help);
    }
}
