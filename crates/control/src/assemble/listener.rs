//! Listeners: an address each, and the service behind it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use loadline_core::{
    fleet::{
        ClientTimeouts, HeadLimits, Http2Limits, HttpVersion, Listener, Protocol, Service,
        forwarding::{self, Datapath, Frontend},
    },
    rules::Authentication,
};
use loadline_spanned::{At, Named, Problems, Span, Text};

use super::{
    acme, authentication, frontend, maps::Maps, pages, routes, set, shared_routes::SharedRoutes,
    sources::Sources, stream, tls, unused,
};
use crate::{
    file::{self, File, Forward, Spoken},
    suggest,
    value::{
        address::{canonical, overlap},
        label::Name,
    },
};

/// The services that listeners and routes may name, the maps of which routes have variables, the
/// lists of networks that routes name, and the routes that listeners share.
pub(super) struct Services<'a> {
    file: &'a At<File>,
    list: &'a [Service],
    names: Vec<&'a str>,
    indices: BTreeMap<&'a str, usize>,
    pub(super) maps: Maps,
    pub(super) sources: Sources,
    pub(super) shared_routes: SharedRoutes,
}

impl<'a> Services<'a> {
    fn new(file: &'a At<File>, services: &'a [Service], problems: &mut Problems) -> Self {
        let names: Vec<&str> = services.iter().map(|service| &*service.name).collect();
        let indices = names.iter().copied().zip(0..).collect();
        let maps = Maps::new(file, problems);
        let (sources, shared_routes) = (Sources::default(), SharedRoutes::default());
        Self { file, list: services, names, indices, maps, sources, shared_routes }
    }

    /// The index of the service with the name at `span`; an error where there is none.
    pub(super) fn find(&self, name: &str, span: &Span, problems: &mut Problems) -> usize {
        if let Some(index) = self.indices.get(name) {
            return *index;
        }
        let table_is_damaged =
            self.file.value.service.at().is_some_and(|table| problems.is_damaged(&table.span));
        if !self.list.is_empty() && !table_is_damaged && !problems.is_damaged(&self.file.span) {
            let message = format!("there is no service `{name}`");
            let help = suggest::known_among(problems, name, &self.names);
            problems.error(span, message, "this service", help);
        }
        0
    }
}

/// The listeners of the file: those of the proxy, and those whose packets are forwarded. Warns
/// about services that none of them names.
pub(super) fn listeners(
    file: &At<File>,
    services: &[Service],
    datapath: Option<&Datapath>,
    problems: &mut Problems,
) -> (Vec<Listener>, Vec<Frontend>) {
    let given = file.value.listener.at();
    let place = file.value.listener.place_or(&(0..0));
    let none = given.is_none_or(|list| list.value.is_empty());
    if none && !problems.is_damaged(&place) {
        let add = "add one: [[listener]] bind = \":8080\", service = \"web\"";
        let help = unpublished(file).map_or_else(|| add.to_owned(), |why| format!("{add}; {why}"));
        let message = "no listener: nothing can come in".to_owned();
        problems.absent(&file.span, &place, message, help);
    }
    let known = Services::new(file, services, problems);
    let context = frontend::Context { services, l4: &file.value.l4, datapath };
    let (mut listeners, mut frontends) = (Vec::new(), Vec::new());
    let (mut above, mut issuers, mut linted) = (Above::default(), Vec::new(), BTreeSet::new());
    for entry in given.into_iter().flat_map(|list| &list.value) {
        let service = service_index(entry, &known, problems);
        let binds = binds(entry, problems);
        if let Some(Forward::By(method)) = entry.value.forward.get().map(|word| word.0.0) {
            for bind in binds {
                let new = frontend::frontend(entry, method, (&bind, service), &context, problems);
                frontend::check_taken(&bind, &new, (&above.binds, &frontends), problems);
                frontends.push(new);
            }
            continue;
        }
        let first = listener(entry, (binds[0].value, service), &known, problems);
        routes::warn_of_shadowed(entry, &first.routes, &mut linted, problems);
        acme::refuse_two_accounts(&mut issuers, &first, &entry.span, problems);
        for bind in binds {
            check_bind(&bind, (&above.binds, &frontends), problems);
            warn_of_clear(&bind, &first, problems);
            warn_of_udp(&bind, &first, &above, problems);
            above.add(bind.value, &first);
            listeners.push(Listener { bind: bind.value, ..first.clone() });
        }
    }
    warn_unused(file, services, (&listeners, &frontends), problems);
    unused::warn_of_services(file, services, (&listeners, &frontends), problems);
    known.maps.warn_unused(&file.value, problems);
    (listeners, frontends)
}

/// What the listeners above are bound to.
#[derive(Default)]
struct Above {
    /// As they are the same in both versions of IP.
    binds: BTreeSet<SocketAddr>,
    /// Those with HTTP/3, by port.
    of_http3: BTreeMap<u16, Vec<SocketAddr>>,
}

impl Above {
    fn add(&mut self, bind: SocketAddr, listener: &Listener) {
        self.binds.insert(canonical(bind));
        if listener.serves_http3() {
            self.of_http3.entry(bind.port()).or_default().push(bind);
        }
    }
}

/// Where else a missing key may come from.
pub(super) fn unpublished(file: &At<File>) -> Option<&'static str> {
    let why = "or publish a configuration that has it: loadline cluster publish FILE";
    file.value.cluster.given().then_some(why)
}

/// The addresses of a listener, at least one.
fn binds(entry: &At<file::Listener>, problems: &mut Problems) -> Vec<At<SocketAddr>> {
    let Some(given) = entry.value.bind.at() else {
        let help = "add where to listen: bind = \":8080\"".to_owned();
        problems.absent(&entry.span, &entry.span, "a listener without `bind`".to_owned(), help);
        return vec![At { value: NOWHERE, span: entry.span.clone() }];
    };
    let each = given.value.each(&given.span);
    each.map(|(bind, span)| At { value: bind.0, span: span.clone() }).collect()
}

fn listener(
    entry: &At<file::Listener>,
    (bind, service): (SocketAddr, usize),
    services: &Services<'_>,
    problems: &mut Problems,
) -> Listener {
    let given = &entry.value;
    let mut listener = Listener {
        timeouts: timeouts(given.timeouts.get()),
        limits: limits(given.limits.get()),
        max_body: given.max_body.get().map(|size| size.0.0),
        routes_only: !given.service.given(),
        error_pages: pages::error_pages(&given.error_pages, problems),
        ..Listener::new(bind, service)
    };
    if let Some(Spoken::Proxied(protocol)) = given.protocol.get().map(|word| word.0.0) {
        listener.protocol = protocol;
    }
    frontend::refuse_udp(entry, problems);
    listener.tls = tls::listener(entry, listener.protocol, problems);
    listener.authentication = authentication::of_listener(given, &listener, services, problems);
    set(&given.underscore_headers, |word| &word.0.0, &mut listener.underscore_headers);
    listener.routes = routes::routes(entry, &listener, services, problems);
    if let Some(tls) = &mut listener.tls {
        let served = (listener.protocol, &listener.routes);
        tls.acme = acme::acme(entry, served, &services.file.value, problems);
    }
    let find = |name: &At<Text<Name>>, problems: &mut Problems| {
        services.find(&name.value.0.0, &name.span, problems)
    };
    listener.names = stream::names(entry, listener.protocol, find, problems);
    unused::warn_of_listener(entry, listener.protocol, problems);
    stream::refuse_of_http(&listener, entry, services.list, problems);
    set(&given.accept_proxy, |on| on, &mut listener.accept_proxy);
    set(&given.max_connections, |whole| &whole.0, &mut listener.max_connections);
    listener.max_connections_per_client =
        given.max_connections_per_client.get().map(|whole| whole.0);
    set(&given.forwarded, |word| &word.0.0, &mut listener.forwarded);
    let trusted = given.trusted_proxies.get().map(|all| all.iter().map(|it| it.0).collect());
    listener.trusted_proxies = trusted.unwrap_or_default();
    listener.http_version = given.http_version.get().map(|word| word.0.0);
    set(&given.http3, |on| on, &mut listener.http3);
    warn_of_http3(given, &listener, problems);
    tls::refuse_early_data(given, &listener, problems);
    warn_of_suites(given, &listener, problems);
    set(&given.quic_congestion, |word| &word.0.0, &mut listener.quic_congestion);
    listener.http2 = http2(given.http2.get());
    warn_of_versions(given, &listener, problems);
    listener
}

/// Warns of what is for a version of HTTP that is not spoken.
fn warn_of_versions(given: &file::Listener, listener: &Listener, problems: &mut Problems) {
    if !listener.protocol.is_http() {
        return;
    }
    if let Some(at) = given.quic_congestion.at().filter(|_| !listener.serves_http3()) {
        let help = "it is for HTTP/3: leave it out".to_owned();
        problems.warning(&at.span, "`quic_congestion` without HTTP/3", "no effect", help);
    }
    let is_old = listener.http_version == Some(HttpVersion::Http11);
    if let Some(at) = given.http2.at().filter(|_| is_old) {
        let help = "leave it out, or `http_version`".to_owned();
        problems.warning(&at.span, "`http2` with http_version = \"1.1\"", "no effect", help);
    }
}

/// HTTP/3 that is asked for where there is none.
fn warn_of_http3(given: &file::Listener, listener: &Listener, problems: &mut Problems) {
    let asked = given.http3.at().filter(|at| at.value && listener.protocol.is_http());
    let Some(asked) = asked.filter(|_| !listener.serves_http3()) else { return };
    let (message, help) = match listener.protocol {
        Protocol::Http => ("no HTTP/3 without TLS", "say protocol = \"https\", or leave it out"),
        _ if listener.accept_proxy => {
            ("no HTTP/3 with `accept_proxy`", "over QUIC there is no PROXY header: leave one out")
        }
        _ => ("no HTTP/3 with `http_version`", "one version alone is another: leave one out"),
    };
    problems.warning(&asked.span, message, "no effect", help);
}

/// Warns of HTTP in clear at the port of HTTPS.
fn warn_of_clear(bind: &At<SocketAddr>, listener: &Listener, problems: &mut Problems) {
    if listener.protocol == Protocol::Http && bind.value.port() == HTTPS_PORT {
        let message = "HTTP without TLS at the port of HTTPS".to_owned();
        let help = "say protocol = \"https\" and tls = { certificates = [...] } or tls = { acme = \
                    \"you@example.com\" }";
        problems.warning(&bind.span, message, "in clear", help);
    }
}

/// Warns of HTTP/3 at a port of which another listener has that of UDP. `[::]` is left version 6
/// where one of version 4 comes first.
fn warn_of_udp(bind: &At<SocketAddr>, listener: &Listener, above: &Above, problems: &mut Problems) {
    let address = bind.value;
    let takes = |other: &&SocketAddr| {
        let is_left_v6 = address.is_ipv6() && other.is_ipv4();
        overlap(**other, address) && **other != address && !is_left_v6
    };
    let mut others = above.of_http3.get(&address.port()).into_iter().flatten();
    let Some(other) = others.find(takes).filter(|_| listener.serves_http3()) else { return };
    let message = format!("no HTTP/3 at `{address}`: the listener of `{other}` has its UDP port");
    let help = "say http3 = false here, or give it a port of its own".to_owned();
    problems.warning(&bind.span, message, "the same port", help);
}

/// Without this suite there is no QUIC (RFC 9001, section 5.2).
fn warn_of_suites(given: &file::Listener, listener: &Listener, problems: &mut Problems) {
    let suites = given.tls.get().and_then(|tls| tls.suites.at());
    let Some(suites) = suites.filter(|_| listener.serves_http3()) else { return };
    if !suites.value.iter().any(|suite| suite.0.0 == QUIC_SUITE) {
        let message = format!("no HTTP/3 without {QUIC_SUITE}");
        let help = "add it, or say http3 = false".to_owned();
        problems.warning(&suites.span, message, "these alone", help);
    }
}

fn service_index(
    entry: &At<file::Listener>,
    services: &Services<'_>,
    problems: &mut Problems,
) -> usize {
    let Some(wanted) = entry.value.service.at() else {
        if entry.value.routes.given() {
            // What no route matches is not found, and gets to no service.
            return 0;
        }
        let message = "a listener without `service`".to_owned();
        let help = "add where its traffic goes: service = \"web\"".to_owned();
        problems.absent(&entry.span, &entry.span, message, help);
        return 0;
    };
    services.find(&wanted.value.0.0, &wanted.span, problems)
}

fn timeouts(given: Option<&file::ClientTimeouts>) -> ClientTimeouts {
    let mut timeouts = ClientTimeouts::default();
    if let Some(given) = given {
        set(&given.head, |time| &time.0.0, &mut timeouts.head);
        set(&given.idle, |time| &time.0.0, &mut timeouts.idle);
        set(&given.keep_alive, |time| &time.0.0, &mut timeouts.keep_alive);
        set(&given.body_rate, |rate| &rate.0.0, &mut timeouts.body_rate);
    }
    timeouts
}

fn limits(given: Option<&file::HeadLimits>) -> HeadLimits {
    let mut limits = HeadLimits::default();
    if let Some(given) = given {
        set(&given.size, |size| &size.0.0, &mut limits.size);
        set(&given.fields, |fields| &fields.0, &mut limits.fields);
    }
    limits
}

fn http2(given: Option<&file::Http2Limits>) -> Http2Limits {
    let mut limits = Http2Limits::default();
    if let Some(given) = given {
        set(&given.streams, |streams| &streams.0, &mut limits.streams);
        set(&given.window, |size| &size.0.0, &mut limits.window);
        set(&given.connection_window, |size| &size.0.0, &mut limits.connection_window);
        set(&given.resets, |rate| &rate.0.0, &mut limits.resets);
    }
    limits
}

fn check_bind(
    bind: &At<SocketAddr>,
    (before, frontends): (&BTreeSet<SocketAddr>, &[Frontend]),
    problems: &mut Problems,
) {
    let address = bind.value;
    let same = canonical(address);
    let forwarded = |other: &Frontend| {
        other.protocol == forwarding::Protocol::Tcp && canonical(other.address) == same
    };
    // Port 0 asks the kernel for a free port, each time another one.
    let taken = before.contains(&same) || frontends.iter().any(forwarded);
    if taken && address.port() != 0 {
        let message = format!("`{address}` is bound by a listener above");
        let help = "give each listener its own address or port".to_owned();
        problems.error(&bind.span, message, "the same address", help);
    }
}

fn warn_unused(
    file: &At<File>,
    services: &[Service],
    (listeners, frontends): (&[Listener], &[Frontend]),
    problems: &mut Problems,
) {
    let by_listener = |it: &Listener| {
        let named = it.routes.services().chain(it.names.services());
        let asked = it.authentication.as_ref().and_then(Authentication::service);
        named.chain(asked).chain([it.service]).collect::<Vec<_>>()
    };
    let used = listeners.iter().flat_map(by_listener);
    let used: BTreeSet<usize> = used.chain(frontends.iter().map(|it| it.service)).collect();
    let names = file.value.service.get().into_iter().flat_map(Named::iter);
    for (index, (name, _)) in names.enumerate().filter(|(index, _)| !used.contains(index)) {
        let message = format!("no listener names the service `{}`", services[index].name);
        let help = format!("let a listener say service = \"{}\"", name.value);
        problems.warning(&name.span, message, "never used", help);
    }
}

const HTTPS_PORT: u16 = 443;

/// What the first packets of QUIC are protected by.
const QUIC_SUITE: &str = "TLS13_AES_128_GCM_SHA256";

/// Stands in for an address that is missing; the fleet is thrown away.
const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
