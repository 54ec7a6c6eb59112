//! Servers of nginx as listeners: which of them share an address, and who is asked first there.

use super::{
    Import, VirtualHost,
    lex::Directive,
    location,
    order::{self, Location, Name},
    scope::Scope,
    values::{self, size, time},
};
use crate::{
    condition::When,
    model::{Listener, PROTECTED, Table},
    steps::{self, Act, End, Step},
    write::{inline, list, text},
};

/// What nginx allows of a body unless it is told otherwise.
const BODY: &str = "1MiB";

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
    accept_proxy: bool,
}

/// Directives of `http` and `server` that are read somewhere.
pub(super) fn is_read(name: &str) -> bool {
    const READ: [&str; 46] = [
        "internal",
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
        "gzip_types",
        "proxy_connect_timeout",
        "proxy_read_timeout",
        "grpc_read_timeout",
        "proxy_ssl_verify",
        "proxy_ssl_trusted_certificate",
        "proxy_ssl_name",
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
        add(addresses, ":80".to_owned(), index, &[]);
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
            Some((bind, _)) => add(addresses, bind, index, options),
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

fn add(addresses: &mut Vec<Address>, bind: String, server: usize, options: &[&str]) {
    let has = |name: &str| options.contains(&name);
    let there = addresses.iter().position(|address| address.bind == bind);
    let at = there.unwrap_or_else(|| {
        let (tls, accept_proxy) = (false, false);
        addresses.push(Address { bind, servers: Vec::new(), tls, accept_proxy });
        addresses.len() - 1
    });
    let address = &mut addresses[at];
    address.tls |= has("ssl");
    address.accept_proxy |= has("proxy_protocol");
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
    let port = address.bind.rsplit(':').next().unwrap_or_default();
    listener.label = first.map_or_else(
        || format!("port-{port}"),
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
            max_body: max_body.clone(),
            block: server.scope.own(),
        };
        let mut of_vhost = vhost_steps(import, &vhost, &server.scope, &mut tables[index]);
        if rank.0 != 9 {
            let lost = steps::confine(&mut of_vhost, &when, &[]);
            remark_all(import, lost, &mut tables[index]);
        }
        steps.extend(of_vhost);
    }
    let made = steps::routes(&steps);
    listener.routes = made.routes;
    for index in &address.servers {
        let table = std::mem::take(&mut tables[*index]);
        table.remarks.into_iter().for_each(|remark| listener.table.remark(remark));
    }
    let mut table = Table::default();
    remark_all(import, made.lost, &mut table);
    table.remarks.into_iter().for_each(|remark| listener.table.remark(remark));
    settle(&mut listener);
    listener
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

fn remark_all(import: &Import<'_>, lost: Vec<(usize, String)>, table: &mut Table) {
    for (at, why) in lost {
        table.remark(import.lines.lost(import.files, at, &why));
    }
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
    if address.accept_proxy {
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
    let Some(trusted) = last("set_real_ip_from") else { return };
    let header = last("real_ip_header");
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

/// The steps of a server: its own rewrites, then its locations.
fn vhost_steps(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    table: &mut Table,
) -> Vec<Step> {
    let mut steps = location::rewrites(import, vhost, scope, None, table);
    // A change of the path before the location is chosen would choose another one.
    let is_change = |step: &Step| matches!(step.act, Act::Edit(_));
    for step in steps.iter().filter(|step| is_change(step)) {
        let why = "a path is rewritten after the route is chosen: write it on the routes";
        table.remark(import.lines.lost(import.files, step.rule, why));
    }
    steps.retain(|step| !is_change(step));
    steps.extend(located(import, vhost, scope, table));
    let is_all =
        |it: &Directive| it.name() == "location" && matches!(it.args()[..], ["/"] | ["^~", "/"]);
    if !scope.own().iter().any(is_all) {
        steps.extend(location::content(import, vhost, scope, "/", false, table));
    }
    let (_, mut lost) = order::locations(scope.own());
    lost.retain(|(it, _)| is_named(it) && !import.reached.contains(&it.at()));
    left_out(import, lost, table);
    steps
}

fn is_named(location: &Directive) -> bool {
    location.arg(0).starts_with('@')
}

/// Tells of locations that are left out, with all that is within them.
fn left_out(import: &mut Import<'_>, lost: Vec<(&Directive, String)>, table: &mut Table) {
    for (directive, why) in lost {
        table.remark(import.lines.lost(import.files, directive.at(), &why));
        import.lose_within(directive, "its location is left out", table);
    }
}

/// Tells of directives of a location that nobody reads.
pub(super) fn tell_unread(import: &mut Import<'_>, scope: &Scope<'_>, table: &mut Table) {
    for directive in scope.own() {
        if !is_read(directive.name()) && !is_pass(directive.name()) {
            import.lose_all(directive, table);
        }
    }
}

fn located(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    table: &mut Table,
) -> Vec<Step> {
    let (found, mut lost) = order::locations(scope.own());
    lost.retain(|(it, _)| !is_named(it));
    left_out(import, lost, table);
    let (mut exact, mut steps) = (Vec::new(), Vec::new());
    let prefixes: Vec<String> = found.iter().map(|it| it.prefix.clone()).collect();
    for Location { directive, when, prefix, .. } in found {
        let inner = scope.with(directive.block());
        tell_unread(import, &inner, table);
        exact.extend(redirected(&inner, directive, &prefix, &prefixes));
        let mut own = match location::internal(import, &inner, table) {
            Some(closed) => [located(import, vhost, &inner, table), vec![closed]].concat(),
            None => {
                let mut own = location::rewrites(import, vhost, &inner, Some(directive), table);
                let is_rewritten = own.iter().any(|step| matches!(step.act, Act::Edit(_)));
                own.extend(located(import, vhost, &inner, table));
                own.extend(location::content(import, vhost, &inner, &prefix, is_rewritten, table));
                own
            }
        };
        let lost = steps::confine(&mut own, &when, &[]);
        remark_all(import, lost, table);
        if directive.arg(0).starts_with('=') {
            exact.splice(0..0, own);
        } else {
            steps.extend(own);
        }
    }
    exact.extend(steps);
    exact
}

/// Directives that say who answers; `content` tells of those that have no counterpart.
fn is_pass(name: &str) -> bool {
    name.ends_with("_pass")
}

/// nginx sends `/a` to `/a/` where the location `/a/` has a server, unless there is one of `/a`;
/// and where `/a` is a directory of an alias.
fn redirected(
    inner: &Scope<'_>,
    directive: &Directive,
    prefix: &str,
    prefixes: &[String],
) -> Option<Step> {
    let is_passed = inner.own().iter().any(|it| is_pass(it.name()));
    let is_prefix = directive.words.len() == 2 || directive.arg(0) == "^~";
    let alias = inner.own().iter().find(|it| it.name() == "alias");
    let is_folder = !is_passed && alias.is_some_and(location::is_folder);
    let bare = match prefix.strip_suffix('/') {
        Some(bare) => Some(bare).filter(|_| is_passed && !prefixes.iter().any(|it| it == bare))?,
        None => Some(prefix).filter(|_| is_folder)?,
    };
    // No path of a request has these.
    if bare.is_empty() || !is_prefix || bare.contains(['?', '#']) {
        return None;
    }
    let change = inline(&[("path".to_owned(), text(&format!("{bare}/")))]);
    let keys = [("rewrite".to_owned(), change), ("status".to_owned(), "301".to_owned())];
    let end = End::key("redirect", inline(&keys));
    let mut step = Step::always(directive.at(), Act::End(end));
    step.yes = When::path(vec![crate::condition::Path::Exact(bare.to_owned())]);
    Some(step)
}
