//! Upstreams of nginx, and what `proxy_pass` names, as services.

use super::{
    Import,
    lex::Directive,
    listener::is_zero,
    scope::Scope,
    values::{least_size, time},
};
use crate::{
    model::{Service, Table},
    write::{inline, list, text},
};

/// Why an upstream, or what names it, is left out.
pub(super) const NO_SERVER: &str = "it has no server with an address and a port, or at a socket";

/// Writes the service of an `upstream` block, unless it has no server that can be one.
pub(super) fn upstream(import: &mut Import<'_>, block: &Directive) {
    let name = free_name(import, crate::service_name(block.arg(0)));
    let mut service = Service { name, ..Service::default() };
    service.table.set("policy", text("round-robin"));
    for directive in block.block() {
        match directive.name() {
            "server" => {
                let mut entry = server(import, directive);
                if service.servers.iter().any(|other| other.is_same_address(&entry)) {
                    let why = "the address is in the group already: `weight` there gives it more";
                    entry = Table::default();
                    entry.remark(import.lines.lost(import.files, directive.at(), why));
                }
                service.servers.push(entry);
            }
            "least_conn" => service.table.set("policy", text("least-requests")),
            "random" => service.table.set("policy", text("power-of-two")),
            "ip_hash" => hashed(import, directive, "$remote_addr", &mut service.table),
            "hash" => hashed(import, directive, directive.arg(0), &mut service.table),
            "keepalive_timeout" => {
                if let Some(time) = time(directive.arg(0)) {
                    service.table.set("timeouts.keep_alive", text(&time));
                }
            }
            "keepalive" | "zone" | "keepalive_requests" => {}
            _ => import.lose(directive, &mut service.table),
        }
    }
    let at = block.at();
    if !scale_weights(&mut service.servers) {
        let why = "weights are 1000 at most: they are in proportion, and rounded";
        service.table.remark(import.lines.differs(import.files, at, why));
    }
    if service.servers.iter().all(|server| server.keys.is_empty()) {
        let remarks = service.servers.into_iter().flat_map(|server| server.remarks);
        import.made.top.remarks.extend(remarks);
        import.lost_upstreams.insert(block.arg(0).to_owned());
        let remark = import.lines.lost(import.files, at, NO_SERVER);
        return import.made.top.remark(remark);
    }
    import.upstreams.insert(block.arg(0).to_owned(), service.clone());
    import.made.services.push(service);
}

/// Makes weights fit where one is above the most there is, in proportion; false where they had to
/// be rounded. A server without one has 1, and 0 is one that is down.
fn scale_weights(servers: &mut [Table]) -> bool {
    let weight = |server: &Table| server.get("weight").map_or(1, |it| it.parse().unwrap_or(1));
    let weights: Vec<u64> = servers
        .iter()
        .map(|server| if server.keys.is_empty() { 0 } else { weight(server) })
        .collect();
    let most = weights.iter().copied().max().unwrap_or(0);
    if most <= MOST_WEIGHT {
        return true;
    }
    let common = weights.iter().copied().fold(0, common_factor);
    let is_exact = most / common <= MOST_WEIGHT;
    let scaled = |weight: u64| match is_exact {
        true => weight / common,
        false => {
            let (part, all) = (u128::from(weight) * u128::from(MOST_WEIGHT), u128::from(most));
            (((part + all / 2) / all) as u64).max(1)
        }
    };
    for (server, weight) in servers.iter_mut().zip(weights).filter(|(_, weight)| *weight > 0) {
        server.set("weight", scaled(weight).to_string());
    }
    is_exact
}

/// The largest factor of both (Euclid).
fn common_factor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn hashed(import: &mut Import<'_>, directive: &Directive, key: &str, table: &mut Table) {
    table.set("policy", text("maglev"));
    let header = key.strip_prefix("$http_").map(|name| name.replace('_', "-"));
    match key {
        "$remote_addr" | "$binary_remote_addr" => {}
        "$request_uri" | "$uri" | "$scheme$proxy_host$request_uri" => {
            table.set("hash", text("path"));
        }
        _ => match header {
            Some(header) if !header.contains('$') => {
                table.set("hash", inline(&[("header".to_owned(), text(&header))]));
            }
            _ => {
                table.set("policy", text("round-robin"));
                let why = "a hash of the client's address, the path or a header: round robin";
                let remark = import.lines.lost(import.files, directive.at(), why);
                return table.remark(remark);
            }
        },
    }
    let why = "the hash is another one: a key may go to another server than with nginx";
    table.remark(import.lines.differs(import.files, directive.at(), why));
}

fn server(import: &mut Import<'_>, directive: &Directive) -> Table {
    let mut entry = Table::default();
    let written = directive.arg(0);
    let Some(address) = address(written, 80) else {
        entry.remark(import.lines.lost(import.files, directive.at(), crate::NO_ADDRESS));
        return entry;
    };
    entry.set("address", text(&address));
    let mut differs = Vec::new();
    for option in directive.args().into_iter().skip(1) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number = value.parse::<u64>();
        match (name, number) {
            ("weight", Ok(weight)) => entry.set("weight", weight.to_string()),
            ("max_conns", Ok(most)) if most > 0 => entry.set("max_in_flight", most.to_string()),
            ("backup", _) => entry.set("priority", "1"),
            ("down", _) => entry.set("weight", "0"),
            ("max_fails" | "fail_timeout", _) => {
                differs.push(format!("`ejection` of the service does what `{name}` did"));
            }
            (other, _) => differs.push(format!("nothing corresponds to `{other}`")),
        }
    }
    if !differs.is_empty() {
        let why = differs.join(", ");
        entry.remark(import.lines.differs(import.files, directive.at(), &why));
    }
    entry
}

/// The address of a server with its port, or at a socket.
fn address(written: &str, port: u16) -> Option<String> {
    if let Some(path) = written.strip_prefix(UNIX).filter(|path| !path.contains('$')) {
        return crate::socket(path);
    }
    if written.is_empty() || written.contains(['$', '/']) {
        return None;
    }
    let has_port = match written.rsplit_once(':') {
        Some((_, digits)) if !written.ends_with(']') => {
            digits.parse::<u16>().is_ok_and(|it| it > 0)
        }
        _ => false,
    };
    let is_named = written.rsplit_once(':').is_some() && !written.ends_with(']');
    match (has_port, is_named) {
        (true, _) => Some(written.to_owned()),
        (false, true) => None,
        (false, false) => Some(format!("{written}:{port}")),
    }
}

/// Begins the address of a socket.
const UNIX: &str = "unix:";

/// What a `proxy_pass` or `grpc_pass` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) tls: bool,
    /// Host and port, the name of an upstream, or a socket.
    pub(super) host: String,
    /// What takes the place of the path of the location.
    pub(super) path: Option<String>,
}

impl Target {
    /// Reads the argument of `proxy_pass`.
    ///
    /// # Errors
    /// What of it has no counterpart.
    pub(super) fn read(written: &str) -> Result<Self, String> {
        let (scheme, rest) = written.split_once("://").unwrap_or(("http", written));
        let rest = rest.strip_suffix("$request_uri").unwrap_or(rest);
        let end = match rest.strip_prefix(UNIX) {
            Some(socket) => socket.find(':').map(|at| UNIX.len() + at),
            None => rest.find('/'),
        };
        let (host, path) = rest.split_at(end.unwrap_or(rest.len()));
        let path = path.trim_start_matches(':');
        if host.contains('$') {
            return Err("a service has a name of its own, not that of a variable".to_owned());
        }
        if path.contains('$') {
            let why = "its path has a variable; `rewrite` of a route changes the path by an \
                       expression";
            return Err(why.to_owned());
        }
        if host.is_empty() {
            return Err(crate::NO_ADDRESS.to_owned());
        }
        let tls = matches!(scheme, "https" | "grpcs");
        let path = (!path.is_empty()).then(|| path.to_owned());
        Ok(Self { tls, host: host.to_owned(), path })
    }

    /// Its port, as `$proxy_port` has it; a socket has none.
    pub(super) fn port(&self) -> Option<String> {
        let usual = if self.tls { "443" } else { "80" };
        let is_port = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let own = self.host.rsplit_once(':').map(|(_, port)| port).filter(|port| is_port(port));
        (!self.host.starts_with(UNIX)).then(|| own.unwrap_or(usual).to_owned())
    }

    /// The host that nginx sends to it (`$proxy_host`).
    pub(super) fn proxy_host(&self) -> &str {
        if self.host.starts_with(UNIX) { "localhost" } else { &self.host }
    }
}

/// A service for what `proxy_pass` names, with the settings of the place where it does.
#[derive(Debug)]
pub(super) struct Known {
    host: String,
    tls: bool,
    said: Table,
    service: String,
}

/// The name of the service for a target with the settings `said`, which is made if it does not
/// exist. Other settings make another service.
pub(super) fn service(
    import: &mut Import<'_>,
    directive: &Directive,
    target: &Target,
    said: Table,
) -> Option<String> {
    let same = |it: &&Known| it.host == target.host && it.tls == target.tls;
    let there = import.targets.iter().filter(same).find(|it| it.said.keys == said.keys);
    if let Some(there) = there {
        return Some(there.service.clone());
    }
    let first = import.targets.iter().find(same).map(|it| it.service.clone());
    if import.lost_upstreams.contains(&target.host) {
        return None;
    }
    let upstream = import.upstreams.get(&target.host);
    let mut made = match upstream {
        Some(there) => there.clone(),
        None => {
            let mut server = Table::default();
            let port = if target.tls { 443 } else { 80 };
            server.set("address", text(&address(&target.host, port)?));
            Service { servers: vec![server], ..Service::default() }
        }
    };
    said.keys.iter().for_each(|(key, value)| made.table.set(key, value.as_str()));
    let host = upstream.map_or_else(|| crate::service_name(&target.host), |it| it.name.clone());
    let mut name = if target.tls { format!("{host}-https") } else { host };
    // The block itself became a service that nobody has said anything about yet.
    let written = import.made.services.iter_mut().find(|it| it.name == name);
    if let Some(there) = written.filter(|_| first.is_none() && upstream.is_some() && !target.tls) {
        *there = made;
    } else {
        made.table.remarks.clear();
        if let Some(first) = first {
            made.table.remark(format!("The servers of `{first}`, with other settings."));
        }
        let is_limited = made.servers.iter().any(|it| it.get("max_in_flight").is_some());
        if is_limited && upstream.is_some() {
            let why = "`max_conns` of its servers is counted for each service of them";
            made.table.remark(import.lines.differs(import.files, directive.at(), why));
        }
        name = free_name(import, name);
        made.name.clone_from(&name);
        import.made.services.push(made);
    }
    let (host, tls) = (target.host.clone(), target.tls);
    import.targets.push(Known { host, tls, said, service: name.clone() });
    Some(name)
}

/// A name like this that no service has yet.
pub(super) fn free_name(import: &Import<'_>, mut name: String) -> String {
    while import.made.services.iter().any(|it| it.name == name) {
        name.push_str("-2");
    }
    name
}

/// What is said of the service of a target where it is named.
pub(super) fn said(target: &Target, scope: &Scope<'_>, is_grpc: bool) -> Table {
    let mut said = Table::default();
    settings(target, scope, is_grpc, &mut said);
    said
}

fn settings(target: &Target, scope: &Scope<'_>, is_grpc: bool, said: &mut Table) {
    let kind = if is_grpc { "grpc" } else { "proxy" };
    let named = |name: &str| format!("{kind}_{name}");
    let times = [
        ("connect_timeout", "timeouts.connect"),
        ("read_timeout", "timeouts.head"),
        ("read_timeout", "timeouts.idle"),
    ];
    for (name, key) in times {
        let time = scope.value(&named(name)).and_then(time);
        // Only this one cannot be switched off.
        if let Some(time) = time.filter(|it| key != "timeouts.connect" || !is_zero(it)) {
            said.set(key, text(&time));
        }
    }
    if is_grpc {
        said.set("http_version", text("2"));
    }
    if target.tls {
        if scope.value(&named("ssl_verify")) == Some("on") {
            if let Some(file) = scope.value(&named("ssl_trusted_certificate")) {
                said.set("tls.authorities", text(file));
            }
        } else {
            // What nginx does unless it is told otherwise.
            said.set("tls.verify", "false");
        }
        if let Some(name) = scope.value(&named("ssl_name")).filter(|name| !name.contains('$')) {
            said.set("tls.name", text(without_port(name)));
        }
    }
    compression(scope, said);
}

/// The name of a server without its port, as nginx takes it for TLS.
fn without_port(name: &str) -> &str {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    match name.rsplit_once(':') {
        Some((host, port)) if is_port(port) && !host.contains(':') => host,
        _ => name,
    }
}

/// Tells what of the settings of a service nginx does otherwise.
pub(super) fn tell_settings(import: &Import<'_>, scope: &Scope<'_>, table: &mut Table) {
    let timeouts = ["proxy_connect_timeout", "grpc_connect_timeout"];
    let last = timeouts.iter().filter_map(|name| scope.nearest(name).last().copied());
    for directive in last.filter(|it| time(it.arg(0)).is_some_and(|time| is_zero(&time))) {
        let why = "a server has 3s to be connected with: `timeouts.connect` is above zero";
        table.remark(import.lines.differs(import.files, directive.at(), why));
    }
}

/// Tells what nginx compresses otherwise, once.
pub(super) fn tell_compression(import: &mut Import<'_>, scope: &Scope<'_>, table: &mut Table) {
    let Some(directive) = scope.nearest("gzip").last().copied() else { return };
    if directive.arg(0) != "on" {
        return;
    }
    let least = scope.nearest("gzip_min_length").last().copied();
    if let Some(least) = least.filter(|it| least_size(it.arg(0)).is_none()) {
        let why = "`compress.min_size` is a size, 1GiB at most";
        table.remark(import.lines.lost(import.files, least.at(), why));
    }
    if !import.told_gzip {
        import.told_gzip = true;
        let size = match least {
            Some(_) => "",
            None => {
                "bodies of 1kB are compressed, in nginx of 20 bytes (`compress.min_size`); and "
            }
        };
        let why = format!(
            "{size}none of requests with a cookie or a password that another site may cause, where \
             it leaves out those that came by a proxy (docs/compression.md)"
        );
        table.remark(import.lines.differs(import.files, directive.at(), &why));
    }
}

/// What is compressed.
pub(super) fn compression(scope: &Scope<'_>, said: &mut Table) {
    if scope.value("gzip") == Some("on") {
        said.set("compress.algorithms", list(&["gzip".to_owned()]));
        let types: Vec<String> = scope
            .nearest("gzip_types")
            .iter()
            .flat_map(|it| it.args())
            .map(str::to_owned)
            .collect();
        let mut types: Vec<String> = types.into_iter().filter(|it| it != "text/html").collect();
        types.insert(0, "text/html".to_owned());
        said.set("compress.types", list(&types));
        if let Some(least) = scope.value("gzip_min_length").and_then(least_size) {
            said.set("compress.min_size", text(&least));
        }
    }
}

/// The highest weight that a server of ours may have.
const MOST_WEIGHT: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_a_host_and_maybe_a_path() {
        let read = |text: &str| Target::read(text).map(|it| (it.tls, it.host, it.path));
        assert_eq!(read("http://web"), Ok((false, "web".to_owned(), None)));
        assert_eq!(
            read("https://10.0.0.1:8443/x/"),
            Ok((true, "10.0.0.1:8443".to_owned(), Some("/x/".to_owned())))
        );
        assert_eq!(read("http://web$request_uri"), Ok((false, "web".to_owned(), None)));
        assert!(read("http://$backend").is_err());
    }

    #[test]
    fn a_socket_ends_where_the_path_begins() {
        let read = |text: &str| Target::read(text).map(|it| (it.host, it.path));
        let socket = || "unix:/run/x".to_owned();
        assert_eq!(read("http://unix:/run/x"), Ok((socket(), None)));
        assert_eq!(read("http://unix:/run/x:/a/"), Ok((socket(), Some("/a/".to_owned()))));
    }

    #[test]
    fn addresses_have_a_port() {
        assert_eq!(address("web", 80).as_deref(), Some("web:80"));
        assert_eq!(address("[::1]", 80).as_deref(), Some("[::1]:80"));
        assert_eq!(address("10.0.0.1:81", 80).as_deref(), Some("10.0.0.1:81"));
        assert_eq!(address("unix:/run/x", 80).as_deref(), Some("unix:/run/x"));
        assert_eq!((address("unix:run/x", 80), address("unix:/run/$x", 80)), (None, None));
        assert_eq!(address("10.0.0.1:0", 80), None);
    }
}
