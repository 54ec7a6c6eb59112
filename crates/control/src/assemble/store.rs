//! Groups whose responses come from a store of objects, and what a service with one cannot have.

use std::{collections::BTreeSet, sync::Arc};

use loadline_core::fleet::{
    Access, Bucket, Discovery, Family, HttpVersion, ListPlace, Protocol, Server, ServerTls,
    Service, Source, Store, StorePlace,
};
use loadline_spanned::{At, Key, Problems, Span, Text};

use super::{group::resolved, set};
use crate::{
    file::{self, CredentialSource::Anonymous},
    resolve::Resolve,
    value::{
        address::Place,
        either::TextOr,
        label::Name,
        store::{Provider, StoreEndpoint, StoreUrl},
    },
};

/// The servers of a group with `store`, or where they are listed; none where it has none.
pub(super) fn servers(
    given: &file::Group,
    defaults: &Server,
    resolver: &dyn Resolve,
    problems: &mut Problems,
) -> Option<(Vec<Server>, Option<Discovery>)> {
    let entry = given.store.at()?;
    let others = [given.servers.at().map(|at| &at.span), given.discover.at().map(|at| &at.span)];
    for other in others.into_iter().flatten() {
        let message = "servers beside `store`".to_owned();
        let help = "leave one of them out, or give the servers a group of their own".to_owned();
        problems.error(other, message, "a group has either", help);
    }
    let absent = file::Store::default();
    let (url, table) = match &entry.value {
        TextOr::Text(url) => (url, &absent),
        TextOr::Table(table) => {
            let Some(url) = table.url.get() else {
                let help = "add it: { url = \"file:///srv/www\" }".to_owned();
                let message = "a store without `url`".to_owned();
                problems.absent(&entry.span, &entry.span, message, help);
                return None;
            };
            (&url.0, table)
        }
    };
    let (place, endpoint) = place((url, &entry.span), table, problems)?;
    let mut store = Store::at(place);
    set(&table.index, |name| &name.0.0, &mut store.index);
    store.error_page = table.error_page.get().map(|path| path.0.0.clone());
    set(&table.precompressed, |on| on, &mut store.precompressed);
    let (capacity, max_connections) = (defaults.capacity, defaults.max_connections);
    let Some(endpoint) = endpoint else {
        let server = Server::of_files(store);
        return Some((vec![Server { capacity, max_connections, ..server }], None));
    };
    let template = Server { store: Some(Arc::new(store)), ..defaults.clone() };
    Some(match &endpoint.place {
        // The addresses of a large store change from minute to minute.
        Place::Name(name, port) if name.contains('.') => {
            let (name, port, family) = (name.clone(), *port, Family::default());
            let place = ListPlace::Addresses { name, port, family };
            (vec![], Some(Discovery { source: Source { place, allow_empty: false }, template }))
        }
        place => {
            let address = resolved(place, &entry.span, resolver, problems)?;
            let host = match place {
                Place::Name(host, _) => Some(host.clone()),
                Place::Address(_) => None,
            };
            (vec![Server { address, host, ..template }], None)
        }
    })
}

/// Where the objects are, and where a bucket is reached; none where that is not known.
fn place(
    (url, span): (&StoreUrl, &Span),
    table: &file::Store,
    problems: &mut Problems,
) -> Option<(StorePlace, Option<StoreEndpoint>)> {
    let (provider, name, prefix) = match url {
        StoreUrl::Bucket { provider, name, prefix } => (*provider, name, prefix),
        StoreUrl::Files(path) => {
            refuse_of_buckets(table, problems);
            return Some((StorePlace::Files(path.clone()), None));
        }
    };
    let account = account(provider, table, span, problems)?;
    if let Some(given) = table.precompressed.at().filter(|it| it.value) {
        let message = "`precompressed` of a bucket".to_owned();
        problems.error(&given.span, message, "for files alone", "leave it out".to_owned());
    }
    let usual = if provider == Provider::Google { "auto" } else { "us-east-1" };
    let region = table.region.get().map_or(usual, |region| &region.0.0).to_owned();
    let host = match (&account, provider) {
        (Some(account), _) => format!("{account}.blob.core.windows.net"),
        (None, Provider::Google) => "storage.googleapis.com".to_owned(),
        (None, _) => format!("s3.{region}.amazonaws.com"),
    };
    let usual = StoreEndpoint { is_secure: true, place: Place::Name(host, 443) };
    let endpoint = table.endpoint.get().map_or(usual, |endpoint| endpoint.0.clone());
    let (authority, is_secure) = (endpoint.authority(), endpoint.is_secure);
    // An emulator of Azure has the account in its paths, where its name does not begin with it.
    let in_path = account.as_ref().filter(|it| !authority.starts_with(&format!("{it}.")));
    let in_path = in_path.map_or_else(String::new, |account| format!("/{account}"));
    let base = format!("{in_path}/{name}{}", Bucket::encoded(prefix.as_bytes()));
    let anonymous = table.credentials.get().is_some_and(|word| word.0.0 == Anonymous);
    let profile = table.profile.get().map(|profile| profile.0.0.clone());
    let access = match (&account, anonymous) {
        (_, true) => Access::Anonymous,
        (Some(account), false) => Access::Azure { account: account.clone() },
        (None, false) => Access::Found { profile },
    };
    let bucket = Bucket { authority, is_secure, base, region, account, access };
    Some((StorePlace::Bucket(bucket), Some(endpoint)))
}

/// The account of a store, which one of Azure needs and no other has; none where it is missing.
fn account(
    provider: Provider,
    table: &file::Store,
    span: &Span,
    problems: &mut Problems,
) -> Option<Option<String>> {
    if provider == Provider::Azure {
        let Some(account) = table.account.at() else {
            let help = "add it: { url = \"az://container\", account = \"shop\" }".to_owned();
            let message = "an `az://` store without `account`".to_owned();
            problems.absent(span, span, message, help);
            return None;
        };
        refuse([("region", &table.region), ("profile", &table.profile)], "Azure", problems);
        let name = &account.value.0.0;
        let is_small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_account = (3..=24).contains(&name.len()) && name.bytes().all(is_small);
        // An emulator may have others.
        if !is_account && !table.endpoint.given() {
            let message = format!("`{name}` is no storage account");
            let help = "an account of Azure has 3 to 24 small letters and digits".to_owned();
            problems.error(&account.span, message, "this account", help);
        }
        return Some(Some(name.clone()));
    }
    refuse([("account", &table.account)], "a bucket", problems);
    Some(None)
}

/// Refuses keys that a store of this kind has no use for.
fn refuse<const N: usize>(
    keys: [(&str, &Key<Text<Name>>); N],
    kind: &str,
    problems: &mut Problems,
) {
    for (key, span) in keys.into_iter().filter_map(|(key, it)| Some((key, &it.at()?.span))) {
        let (message, help) = (format!("`{key}` of {kind}"), "leave it out".to_owned());
        problems.error(span, message, "for other stores", help);
    }
}

/// Warns of keys that only a bucket has a use for.
fn refuse_of_buckets(table: &file::Store, problems: &mut Problems) {
    let places: [(&str, Option<&Span>); 5] = [
        ("endpoint", table.endpoint.at().map(|at| &at.span)),
        ("account", table.account.at().map(|at| &at.span)),
        ("region", table.region.at().map(|at| &at.span)),
        ("credentials", table.credentials.at().map(|at| &at.span)),
        ("profile", table.profile.at().map(|at| &at.span)),
    ];
    for (key, span) in places.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        let message = format!("`{key}` of files");
        problems.error(span, message, "for buckets alone", "leave it out".to_owned());
    }
}

/// The servers of a service, and what servers on its lists are like.
fn all_servers(service: &Service) -> impl Iterator<Item = &Server> {
    service.groups.iter().flat_map(|group| {
        group.servers.iter().chain(group.discovery.as_ref().map(|it| &it.template))
    })
}

/// The stores of a service.
fn stores(service: &Service) -> impl Iterator<Item = &Store> {
    all_servers(service).filter_map(|server| server.store.as_deref())
}

/// Whether requests of the service may go to a store.
fn has_store(service: &Service) -> bool {
    stores(service).next().is_some()
}

/// Lets connections to the stores of a service have TLS where their URLs say so.
pub(super) fn secure(given: &At<file::Service>, service: &mut Service, problems: &mut Problems) {
    let buckets = || stores(service).filter_map(|store| store.place.bucket());
    let secure: BTreeSet<String> =
        buckets().filter(|it| it.is_secure).map(|it| it.authority.clone()).collect();
    let Some(authority) = secure.first() else { return };
    let is_bucket_over_tls = |server: &Server| {
        server.store.as_ref().and_then(|it| it.place.bucket()).is_some_and(|it| it.is_secure)
    };
    let is_files =
        |server: &Server| server.store.as_ref().is_some_and(|it| it.place.bucket().is_none());
    let has_others =
        all_servers(service).any(|server| !is_bucket_over_tls(server) && !is_files(server));
    if secure.len() > 1 || (has_others && !given.value.tls.given()) {
        let message = "one service speaks TLS to all its servers, and asks for one name".to_owned();
        let help = "give each store, and the servers, a service of its own".to_owned();
        problems.error(&given.span, message, "stores and servers that differ in that", help);
    }
    let host = authority.rsplit_once(':').map_or(&**authority, |(host, _)| host).to_owned();
    let tls = service.tls.get_or_insert_with(ServerTls::default);
    tls.name.get_or_insert(host.trim_matches(['[', ']']).to_owned());
}

/// Refuses settings that a group with a store cannot have.
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
