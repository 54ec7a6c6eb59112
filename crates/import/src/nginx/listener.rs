//! Servers of nginx as listeners: which of them share an address, and who is asked first there.

use super::{
    Import, VirtualHost, choice,
    lex::Directive,
    limit,
    order::{self, Name},
    scope::Scope,
    values::{self, size, time},
};
use crate::{
    condition::When,
    model::{Listener, PROTECTED, Table},
    steps::{self, Step},
    write::{inline, list, text},
};

/// What nginx allows of a body unless it is told otherwise.
pub(super) const BODY: &str = "1MiB";

/// A `server` block.
struct Server<'a> {
    directive: &'a Directive,
    scope: Scope<'a>,
    names: Vec<&'a str>,
}

/// An address, and the servers that listen there; the first is the default one.
struct Address {
    bind: String,
    servers: Vec<usize>,
    tls: bool,
    /// Where it is said that a connection begins with the PROXY protocol.
    accept_proxy: Option<usize>,
}

impl Address {
    fn port(&self) -> &str {
        self.bind.rsplit(':').next().unwrap_or_default()
    }
}

/// Directives of `http` and `server` that are read somewhere.
pub(super) fn is_read(name: &str) -> bool {
    const READ: [&str; 52] = [
        "internal",
        "break",
        "ssl",
        "underscores_in_headers",
        "server",
        "upstream",
        "limit_req_zone",
        "limit_req",
        "proxy_cache_path",
        "location",
        "listen",
        "server_name",
        "return",
        "rewrite",
        "if",
        "root",
        "index",
        "try_files",
        "alias",
        "allow",
        "deny",
        "proxy_pass",
        "grpc_pass",
        "proxy_set_header",
        "grpc_set_header",
        "add_header",
        "client_max_body_size",
        "proxy_cache",
        "gzip",
        "gzip_min_length",
        "gzip_types",
        "proxy_connect_timeout",
        "proxy_read_timeout",
        "grpc_connect_timeout",
        "grpc_read_timeout",
        "proxy_ssl_verify",
        "proxy_ssl_trusted_certificate",
        "proxy_ssl_name",
        "grpc_ssl_verify",
        "grpc_ssl_trusted_certificate",
        "grpc_ssl_name",
        "keepalive_timeout",
        "client_header_timeout",
        "send_timeout",
        "ssl_certificate",
        "ssl_certificate_key",
        "ssl_client_certificate",
        "ssl_verify_client",
        "set_real_ip_from",
        "real_ip_header",
        "proxy_send_timeout",
        "client_body_timeout",
    ];
    READ.contains(&name) || super::reasons::is_needless(name)
}

/// Writes the listeners of all servers of `http`.
pub(super) fn listeners(import: &mut Import<'_>, http: &Scope<'_>) {
    let blocks = http.own().iter().filter(|it| it.name() == "server");
    let servers: Vec<Server<'_>> = blocks
        .map(|directive| {
            let scope = http.with(directive.block());
            let names = scope.own().iter().filter(|it| it.name() == "server_name");
            Server { directive, names: names.flat_map(|it| it.args()).collect(), scope }
        })
        .collect();
    let mut addresses: Vec<Address> = Vec::new();
    let mut tables: Vec<Table> = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let mut table = Table::default();
        listen(import, server, index, &mut addresses, &mut table);
        for directive in server.scope.own() {
            if !is_read(directive.name()) {
                import.lose_all(directive, &mut table);
            }
        }
        tables.push(table);
    }
    // `ssl on` of the default server is for all of an address.
    for address in &mut addresses {
        address.tls |= is_tls(&servers[address.servers[0]].scope);
    }
    let mut first: Vec<Listener> = Vec::new();
    for address in &addresses {
        let made = listener(import, address, &servers, &mut tables);
        // The same over IPv4 and IPv6 is one.
        let same = first.iter_mut().find(|other| {
            other.routes == made.routes
                && other.service == made.service
                && other.table.keys == made.table.keys
        });
        match same {
            Some(other) => other.bind.extend(made.bind),
            None => first.push(made),
        }
    }
    import.made.listeners.extend(first);
    let mut shared = Table::default();
    limit::tell_shared(import, &mut shared);
    import.made.top.remarks.extend(shared.remarks);
    import.made.top.remarks.extend(tables.into_iter().flat_map(|table| table.remarks));
}

fn listen(
    import: &mut Import<'_>,
    server: &Server<'_>,
    index: usize,
    addresses: &mut Vec<Address>,
    table: &mut Table,
) {
    let own: Vec<_> = server.scope.own().iter().filter(|it| it.name() == "listen").collect();
    if own.is_empty() {
        add(addresses, ":80".to_owned(), index, server.directive);
    }
    let is_https = own.iter().any(|it| it.args().contains(&"ssl") && !it.args().contains(&"quic"))
        || is_tls(&server.scope);
    for directive in own {
        let args = directive.args();
        let options = args.get(1..).unwrap_or_default();
        if options.contains(&"quic") {
            // HTTP/3 is beside HTTPS.
            if !is_https {
                let why = "HTTP/3 is spoken beside HTTPS: the server has no `listen` with `ssl`";
                table.remark(import.lines.lost(import.files, directive.at(), why));
            }
            continue;
        }
        match values::listen(directive.arg(0)) {
            Some((bind, _)) => add(addresses, bind, index, directive),
            None => {
                let why = "a listener has an IP address and a port";
                table.remark(import.lines.lost(import.files, directive.at(), why));
            }
        }
    }
}

/// Whether all addresses of a server have TLS.
fn is_tls(scope: &Scope<'_>) -> bool {
    scope.value("ssl") == Some("on")
}

/// Adds a server to an address, as a `listen` says; the block of the server says nothing of it.
fn add(addresses: &mut Vec<Address>, bind: String, server: usize, listen: &Directive) {
    let options = listen.args();
    let has = |name: &str| options.iter().skip(1).any(|it| *it == name);
    let there = addresses.iter().position(|address| address.bind == bind);
    let at = there.unwrap_or_else(|| {
        let (tls, accept_proxy) = (false, None);
        addresses.push(Address { bind, servers: Vec::new(), tls, accept_proxy });
        addresses.len() - 1
    });
    let address = &mut addresses[at];
    address.tls |= has("ssl");
    address.accept_proxy = address.accept_proxy.or(has("proxy_protocol").then(|| listen.at()));
    if has("default_server") || has("default") {
        address.servers.insert(0, server);
    } else {
        address.servers.push(server);
    }
}

fn listener(
    import: &mut Import<'_>,
    address: &Address,
    servers: &[Server<'_>],
    tables: &mut [Table],
) -> Listener {
    let default = &servers[address.servers[0]];
    let mut listener = Listener { bind: vec![address.bind.clone()], ..Listener::default() };
    let first = default.names.iter().find(|name| order::names(name).is_ok_and(|it| !it.is_empty()));
    listener.label = first.map_or_else(
        || format!("port-{}", address.port()),
        |name| crate::service_name(name.trim_start_matches(['*', '.', '~', '^'])),
    );
    if address.tls {
        listener.label += "-tls";
    }
    settings(address, servers, &mut listener.table);
    tell_settings(import, address, servers, &mut listener.table);
    if address.tls && listener.table.get("tls.certificates").is_none() {
        let why = "there is no certificate for it: the listener is left out";
        let remark = import.lines.lost(import.files, default.directive.at(), why);
        listener.table.remark(remark);
        listener.bind.clear();
    }
    let max_body = listener.table.get("max_body").unwrap_or_default().trim_matches('"').to_owned();
    let made = steps::routes(&of_servers(import, address, servers, &max_body, tables));
    listener.routes = made.routes;
    for index in &address.servers {
        let table = std::mem::take(&mut tables[*index]);
        table.remarks.into_iter().for_each(|remark| listener.table.remark(remark));
    }
    for (at, why) in std::mem::take(&mut import.unsaid).into_iter().chain(made.lost) {
        let remark = match made.followed.contains(&at) {
            true => import.lines.partly(import.files, at, &why),
            false => import.lines.lost(import.files, at, &why),
        };
        listener.table.remark(remark);
    }
    settle(&mut listener);
    listener
}

/// The steps of the servers of an address, in the order in which their names are asked for.
fn of_servers(
    import: &mut Import<'_>,
    address: &Address,
    servers: &[Server<'_>],
    max_body: &str,
    tables: &mut [Table],
) -> Vec<Step> {
    let mut ranked: Vec<((u8, usize), usize, When)> = Vec::new();
    for (place, index) in address.servers.iter().enumerate() {
        for name in names(import, &servers[*index], &mut tables[*index]) {
            ranked.push((name.rank, *index, name.when));
        }
        // What no name matches.
        if place == 0 {
            ranked.push(((9, 0), *index, When::default()));
        }
    }
    let has_patterns = ranked.iter().any(|(rank, ..)| (1..9).contains(&rank.0));
    let default = address.servers[0];
    ranked.retain(|(rank, index, _)| *index != default || rank.0 == 9 || has_patterns);
    ranked.sort_by_key(|(rank, ..)| *rank);
    let mut steps = Vec::new();
    for (rank, index, when) in merged(ranked) {
        let server = &servers[index];
        let vhost = VirtualHost {
            at: server.directive.at(),
            names: server.names.clone(),
            tls: address.tls,
            port: address.port(),
            max_body: max_body.to_owned(),
            block: server.scope.own(),
        };
        let mut of_vhost = choice::of_server(import, &vhost, &server.scope, &mut tables[index]);
        if rank.0 != 9 {
            let lost = steps::confine(&mut of_vhost, &when, &[]);
            import.unsaid.extend(lost);
        }
        steps.extend(of_vhost);
    }
    steps
}

/// Names of a server that rank the same are one condition.
fn merged(ranked: Vec<((u8, usize), usize, When)>) -> Vec<((u8, usize), usize, When)> {
    let mut all: Vec<((u8, usize), usize, When)> = Vec::new();
    for (rank, index, when) in ranked {
        let same = all.iter_mut().find(|(other, at, _)| *other == rank && *at == index);
        match (same, when.hosts.clone()) {
            (Some((_, _, there)), Some(more)) if there.hosts.is_some() => {
                there.hosts.get_or_insert_default().extend(more);
            }
            _ => all.push((rank, index, when)),
        }
    }
    all
}

/// The last route takes what is left; where it is a service without changes, it needs no route.
fn settle(listener: &mut Listener) {
    let is_plain = |route: &mut steps::Route| {
        route.when.is_always() && route.edits.is_empty() && route.end.is_service
    };
    if let Some(last) = listener.routes.pop_if(is_plain) {
        last.end.keys[0].1.trim_matches('"').clone_into(&mut listener.service);
    }
}

fn names(import: &mut Import<'_>, server: &Server<'_>, table: &mut Table) -> Vec<Name> {
    let mut all = Vec::new();
    for directive in server.scope.own().iter().filter(|it| it.name() == "server_name") {
        for name in directive.args() {
            match order::names(name) {
                Ok(names) => all.extend(names),
                Err(why) => table.remark(import.lines.lost(import.files, directive.at(), &why)),
            }
        }
    }
    all
}

fn settings(address: &Address, servers: &[Server<'_>], table: &mut Table) {
    let scope = &servers[address.servers[0]].scope;
    table.set("protocol", text(if address.tls { "https" } else { "http" }));
    if address.tls {
        certificates(address, servers, table);
        if !has_http3(address, servers) {
            table.set("http3", "false");
        }
    }
    if address.accept_proxy.is_some() {
        table.set("accept_proxy", "true");
    }
    let trusted: Vec<String> =
        scope.nearest("set_real_ip_from").iter().map(|it| it.arg(0).to_owned()).collect();
    if !trusted.is_empty() {
        table.set("trusted_proxies", list(&trusted));
    }
    if scope.value("underscores_in_headers") == Some("on") {
        table.set("underscore_headers", text("keep"));
    }
    let most = scope.value("client_max_body_size").and_then(size);
    match most.as_deref() {
        Some("0") => {}
        Some(most) => table.set("max_body", text(most)),
        None => table.set("max_body", text(BODY)),
    }
    let times = [
        ("client_header_timeout", "timeouts.head"),
        ("keepalive_timeout", "timeouts.keep_alive"),
        ("client_body_timeout", "timeouts.idle"),
        ("send_timeout", "timeouts.idle"),
    ];
    for (name, key) in times {
        if let Some(time) = scope.value(name).and_then(time) {
            // 0 means no connection is kept there, and no limit here.
            let is_at_once = key == "timeouts.keep_alive" && is_zero(&time);
            table.set(key, text(if is_at_once { "1s" } else { &time }));
        }
    }
}

/// Whether HTTP/3 is spoken at the port of an address.
fn has_http3(address: &Address, servers: &[Server<'_>]) -> bool {
    let port = |bind: &str| bind.rsplit(':').next().unwrap_or_default().to_owned();
    let is_here = |it: &Directive| {
        let bind = values::listen(it.arg(0)).filter(|_| it.args().contains(&"quic"));
        it.name() == "listen" && bind.is_some_and(|(bind, _)| port(&bind) == port(&address.bind))
    };
    let scopes: Vec<&Scope<'_>> =
        address.servers.iter().map(|index| &servers[*index].scope).collect();
    scopes.iter().flat_map(|scope| scope.own()).any(is_here)
        && scopes.iter().all(|scope| scope.value("http3") != Some("off"))
}

fn certificates(address: &Address, servers: &[Server<'_>], table: &mut Table) {
    let mut files: Vec<String> = Vec::new();
    for index in &address.servers {
        let scope = &servers[*index].scope;
        let chains = scope.nearest("ssl_certificate");
        let keys = scope.nearest("ssl_certificate_key");
        for (chain, key) in chains.iter().zip(&keys) {
            let pair =
                [("chain".to_owned(), text(chain.arg(0))), ("key".to_owned(), text(key.arg(0)))];
            let pair = inline(&pair);
            if !files.contains(&pair) {
                files.push(pair);
            }
        }
    }
    if !files.is_empty() {
        table.set("tls.certificates", format!("[{}]", files.join(", ")));
    }
    let scope = &servers[address.servers[0]].scope;
    let protocols: Vec<&str> =
        scope.nearest("ssl_protocols").iter().flat_map(|it| it.args()).collect();
    if protocols == ["TLSv1.3"] {
        table.set("tls.min_version", text("1.3"));
    }
    if let Some((verify, file)) = of_clients(scope).filter(|(_, file)| !file.is_empty()) {
        table.set("tls.client_authorities", text(file));
        if verify == "optional" {
            table.set("tls.client_required", "false");
        }
    }
}

/// Whether clients have to have a certificate, and the file of those who may sign it.
fn of_clients<'a>(scope: &Scope<'a>) -> Option<(&'a str, &'a str)> {
    let verify = scope.value("ssl_verify_client").filter(|it| matches!(*it, "on" | "optional"))?;
    Some((verify, scope.value("ssl_client_certificate").unwrap_or_default()))
}

/// Tells what of the settings of a listener nginx does otherwise.
fn tell_settings(
    import: &Import<'_>,
    address: &Address,
    servers: &[Server<'_>],
    table: &mut Table,
) {
    let default = &servers[address.servers[0]].scope;
    if address.tls {
        tell_clients(import, address, servers, table);
    }
    let last = |name: &str| default.nearest(name).last().copied();
    if let Some(directive) = last("keepalive_timeout")
        && time(directive.arg(0)).is_some_and(|time| is_zero(&time))
    {
        let why = "a connection is closed a second after a response, not at once";
        table.remark(import.lines.differs(import.files, directive.at(), why));
    }
    let header = last("real_ip_header");
    let is_of_proxy = header.is_some_and(|it| it.arg(0).eq_ignore_ascii_case("proxy_protocol"));
    let trusted = last("set_real_ip_from");
    if let Some(at) = address.accept_proxy.filter(|_| trusted.is_none() || !is_of_proxy) {
        let why = "the client is the one in the header of the PROXY protocol, for `allow`, `deny`, \
                   limits and headers too, where nginx takes whoever connects for it";
        table.remark(import.lines.differs(import.files, at, why));
    }
    let Some(trusted) = trusted else { return };
    // What nginx reads unless it is told otherwise.
    let name = header.map_or("X-Real-IP", |it| it.arg(0));
    let is_read = |known: &&str| name.eq_ignore_ascii_case(known);
    if !["x-forwarded-for", "proxy_protocol"].iter().any(is_read) {
        let why = format!("the client is the one in X-Forwarded-For or Forwarded, not in {name}");
        let at = header.unwrap_or(trusted).at();
        table.remark(import.lines.differs(import.files, at, &why));
    }
}

/// Who has to have a certificate is settled before the name of a server is asked for.
fn tell_clients(import: &Import<'_>, address: &Address, servers: &[Server<'_>], table: &mut Table) {
    let default = of_clients(&servers[address.servers[0]].scope);
    for index in &address.servers {
        let (scope, at) = (&servers[*index].scope, servers[*index].directive.at());
        let remark = match of_clients(scope) {
            Some((_, "")) => Err("clients are verified with an `ssl_client_certificate` alone"),
            own if own == default => continue,
            Some(_) => Err("clients are asked for certificates as the default server says"),
            None => Ok("clients need a certificate as those of the default server do"),
        };
        let directive = scope.nearest("ssl_verify_client").last().copied();
        let remark = match remark {
            Ok(why) => import.lines.differs(import.files, at, why),
            Err(why) => {
                let at = directive.map_or(at, Directive::at);
                import.lines.lost(import.files, at, &format!("{PROTECTED}: {why}"))
            }
        };
        table.remark(remark);
    }
}

/// Whether a time as our file writes it is none.
pub(super) fn is_zero(time: &str) -> bool {
    time.trim_start_matches('0').chars().all(|c| c.is_ascii_alphabetic())
}
