//! `reverse_proxy` of Caddy as a service.

use loadline_core::rules::is_framing;

use super::{
    Import,
    lex::Directive,
    values::{duration, positive},
};
use crate::{
    model::{Service, Table},
    steps::Edit,
    write::{inline, list, text},
};

/// Who is asked by a `forward_auth` with these upstreams, as a route says it.
///
/// # Errors
/// Why nobody is.
pub(super) fn forward_auth(
    import: &mut Import<'_>,
    directive: &Directive,
    upstreams: &[&str],
    table: &mut Table,
) -> Result<String, String> {
    let own = ["uri", "copy_headers"];
    let (name, edits) = service(import, directive, (upstreams, &own))?;
    if !edits.is_empty() {
        return Err("what the service is asked has the headers of the request".to_owned());
    }
    let mut keys = vec![("service".to_owned(), text(&name))];
    let uri = directive.block().iter().find(|it| it.name() == "uri").map(|it| it.arg(0));
    if let Some(uri) = uri.filter(|uri| uri.contains('{')) {
        return Err(format!("the path `{uri}` has a variable"));
    }
    keys.extend(uri.map(|uri| ("path".to_owned(), text(uri))));
    let mut copied: Vec<String> = directive.block().iter().flat_map(copied).collect();
    if copied.iter().any(|name| name.contains('>')) {
        return Err("headers keep their names where they are copied".to_owned());
    }
    let is_reserved = |name: &str| is_framing(name) || name.eq_ignore_ascii_case("host");
    for inner in directive.block() {
        let reserved = self::copied(inner).into_iter().filter(|name| is_reserved(name));
        let names = reserved.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        if !names.is_empty() {
            let why = format!("without {names}: servers would see another message than was sent");
            table.remark(import.lines.differs(import.files, inner.at(), &why));
        }
    }
    copied.retain(|name| !is_reserved(name));
    if !copied.is_empty() {
        keys.push(("copy_headers".to_owned(), list(&copied)));
    }
    Ok(inline(&keys))
}

/// The names of `copy_headers`, behind it and in its block.
pub(super) fn copied(directive: &Directive) -> Vec<String> {
    if directive.name() != "copy_headers" {
        return Vec::new();
    }
    let inner = directive.block().iter().map(Directive::name);
    directive.args().into_iter().chain(inner).map(str::to_owned).collect()
}

/// Writes the service of a `reverse_proxy` with these upstreams; its name, and changes of headers.
/// What begins with one of `own` is not the service's.
///
/// # Errors
/// Why there is none.
pub(super) fn service(
    import: &mut Import<'_>,
    directive: &Directive,
    (upstreams, own): (&[&str], &[&str]),
) -> Result<(String, Vec<Edit>), String> {
    let mut service = Service::default();
    let mut edits = Vec::new();
    service.table.set("policy", text("random"));
    let (to, lines): (Vec<_>, Vec<_>) = directive.block().iter().partition(|it| it.name() == "to");
    let to = to.iter().flat_map(|it| it.args());
    let written: Vec<&str> = upstreams.iter().copied().chain(to).collect();
    for inner in lines.into_iter().filter(|it| !own.contains(&it.name())) {
        match inner.name() {
            "lb_retries" => retries(import, inner, &mut service.table),
            "transport" if inner.arg(0) == "http" => {
                transport(import, inner, &mut service.table);
            }
            _ if option(inner, &written, &mut service.table, &mut edits) => {
                super::tell_variables(import, inner, &mut service.table);
            }
            _ => import.lose_all(inner, &mut service.table),
        }
    }
    for upstream in &written {
        add(&mut service, upstream)?;
    }
    if service.servers.is_empty() && service.group.keys.is_empty() {
        return Err("it names no server".to_owned());
    }
    let has_health = service.table.keys.iter().any(|(key, _)| key == "health.http");
    if !has_health {
        service.table.keys.retain(|(key, _)| !key.starts_with("health."));
    }
    service.table.keys.extend(import.encode.keys.iter().cloned());
    Ok((named(import, service, &written), edits))
}

/// The name of this service among those made: that of an equal one, or a new name.
fn named(import: &mut Import<'_>, mut service: Service, written: &[&str]) -> String {
    let is_same = |other: &&Service| {
        other.table.keys == service.table.keys
            && other.group.keys == service.group.keys
            && other.servers.iter().map(|it| &it.keys).eq(service.servers.iter().map(|it| &it.keys))
    };
    if let Some(at) = import.made.services.iter().position(|it| is_same(&it)) {
        let there = &mut import.made.services[at];
        service.table.remarks.into_iter().for_each(|remark| there.table.remark(remark));
        return there.name.clone();
    }
    let first = written.first().copied().unwrap_or_default();
    let bare = first.rsplit("//").next().unwrap_or(first);
    let mut name = crate::service_name(bare.trim_start_matches(':'));
    while import.made.services.iter().any(|other| other.name == name) {
        name.push_str("-2");
    }
    service.name.clone_from(&name);
    import.made.services.push(service);
    name
}

fn add(service: &mut Service, upstream: &str) -> Result<(), String> {
    let (scheme, rest) = upstream.split_once("://").unwrap_or(("", upstream));
    let socket = upstream.split_once('/').filter(|(kind, _)| is_socket(kind));
    let found = match socket {
        Some((_, path)) if path.contains('{') => None,
        Some((_, path)) => crate::socket(path).map(|path| vec![path]),
        None if rest.contains(['{', '/']) => None,
        None => Some(addresses(upstream)),
    };
    let Some(found) = found else {
        return Err(format!("{}, not `{upstream}`", crate::NO_ADDRESS));
    };
    match (scheme, socket) {
        ("https", _) => service.table.set("tls.min_version", text("1.2")),
        ("h2c", _) | (_, Some(("unix+h2c", _))) => service.table.set("http_version", text("2")),
        _ => {}
    }
    for address in found {
        let mut server = Table::default();
        server.set("address", text(&address));
        service.servers.push(server);
    }
    Ok(())
}

/// Whether an address with this before its first slash is one of a socket.
fn is_socket(kind: &str) -> bool {
    matches!(kind, "unix" | "unix+h2c")
}

/// Hosts and ports of an upstream, which may have a range of ports.
fn addresses(upstream: &str) -> Vec<String> {
    let range = upstream.rsplit_once(':').and_then(|(host, ports)| {
        let (low, high) = ports.split_once('-')?;
        Some((host, low.parse::<u16>().ok()?, high.parse::<u16>().ok()?))
    });
    match range {
        Some((host, low, high)) => {
            (low..=high).map(|port| address(&format!("{host}:{port}"))).collect()
        }
        None => vec![address(upstream)],
    }
}

/// Host and port of an upstream.
fn address(upstream: &str) -> String {
    let (scheme, rest) = upstream.split_once("://").unwrap_or(("", upstream));
    let rest = if rest.starts_with(':') { format!("localhost{rest}") } else { rest.to_owned() };
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if scheme == "https" { 443 } else { 80 };
    if has_port { rest } else { format!("{rest}:{port}") }
}

/// Follows one line of the block; false where nothing corresponds.
fn option(inner: &Directive, upstreams: &[&str], table: &mut Table, edits: &mut Vec<Edit>) -> bool {
    let value = inner.arg(0);
    match inner.name() {
        "lb_policy" => policy(inner, table),
        "health_uri" => set(table, "health.http", Some(text(value))),
        "health_interval" => set(table, "health.interval", time(positive(value))),
        "health_timeout" => set(table, "health.timeout", time(positive(value))),
        "health_passes" => set(table, "health.rise", count(value)),
        "health_fails" => set(table, "health.fall", count(value)),
        "header_up" | "header_down" => {
            let change = match inner.name() {
                "header_up" => to_server(inner, upstreams),
                _ => change("answer_headers", &inner.args()),
            };
            let is_there = change.is_some();
            edits.extend(change);
            is_there
        }
        "flush_interval" => true,
        _ => false,
    }
}

/// Sets a key where there is a value for it; whether there is.
fn set(table: &mut Table, key: &str, value: Option<String>) -> bool {
    let is_there = value.is_some();
    value.into_iter().for_each(|value| table.set(key, value));
    is_there
}

fn time(value: Option<String>) -> Option<String> {
    value.map(|value| text(&value))
}

/// How many checks in a row decide.
fn count(value: &str) -> Option<String> {
    value.parse::<u64>().ok().map(|it| it.clamp(1, 100).to_string())
}

/// How often a request is sent again.
fn retries(import: &Import<'_>, inner: &Directive, table: &mut Table) {
    let Ok(retries) = inner.arg(0).parse::<u64>() else {
        let why = format!("`{}` is no whole number", inner.arg(0));
        return table.remark(import.lines.lost(import.files, inner.at(), &why));
    };
    table.set("retry.attempts", retries.min(MOST_RETRIES).to_string());
    if retries > MOST_RETRIES {
        let why = format!("a request is sent again {MOST_RETRIES} times at most");
        table.remark(import.lines.differs(import.files, inner.at(), &why));
    }
}

/// What `retry.attempts` may be.
const MOST_RETRIES: u64 = 3;

fn policy(inner: &Directive, table: &mut Table) -> bool {
    let policy = match inner.arg(0) {
        "random" => "random",
        "random_choose" => "power-of-two",
        "round_robin" | "weighted_round_robin" => "round-robin",
        "least_conn" => "least-requests",
        "ip_hash" | "client_ip_hash" | "uri_hash" | "header" => "maglev",
        "first" => "round-robin",
        _ => return false,
    };
    table.set("policy", text(policy));
    match inner.arg(0) {
        "uri_hash" => table.set("hash", text("path")),
        "header" => table.set("hash", inline(&[("header".to_owned(), text(inner.arg(1)))])),
        "first" => return false,
        _ => {}
    }
    true
}

/// The lines of a `transport http`, each by itself.
fn transport(import: &mut Import<'_>, directive: &Directive, table: &mut Table) {
    for line in directive.block() {
        let is_read = match line.name() {
            "tls_trusted_ca_certs" | "tls_trust_pool" => authorities(import, line, table),
            _ => of_transport(line, table),
        };
        if is_read {
            continue;
        }
        import.lose_all(line, table);
        // Whatever it says of TLS, there is TLS.
        if line.name().starts_with("tls") {
            table.set("tls.min_version", text("1.2"));
        }
    }
}

/// Follows one line of a `transport http`; false where nothing corresponds.
fn of_transport(line: &Directive, table: &mut Table) -> bool {
    let value = line.arg(0);
    let plain = (!value.contains('{')).then(|| text(value));
    match line.name() {
        "tls" => set(table, "tls.min_version", Some(text("1.2"))),
        "tls_insecure_skip_verify" => set(table, "tls.verify", Some("false".to_owned())),
        "tls_server_name" => set(table, "tls.name", plain),
        "dial_timeout" => set(table, "timeouts.connect", time(positive(value))),
        "response_header_timeout" => set(table, "timeouts.head", time(duration(value))),
        "read_timeout" => set(table, "timeouts.idle", time(duration(value))),
        "keepalive" => set(table, "timeouts.keep_alive", time(positive(value))),
        "proxy_protocol" if matches!(value, "v1" | "v2") => set(table, "send_proxy", plain),
        "versions" if line.args() == ["h2c"] => set(table, "http_version", Some(text("2"))),
        "versions" | "compression" | "keepalive_idle_conns" => true,
        _ => false,
    }
}

/// The files of CA certificates that a line names, of which a service has one; false where it names
/// none.
fn authorities(import: &Import<'_>, line: &Directive, table: &mut Table) -> bool {
    let args = line.args();
    let mut files = match (line.name(), args.as_slice()) {
        ("tls_trust_pool", ["file", more @ ..]) => more.to_vec(),
        ("tls_trust_pool", _) => return false,
        (_, all) => all.to_vec(),
    };
    files
        .extend(line.block().iter().filter(|it| it.name() == "pem_file").flat_map(Directive::args));
    let Some(first) = files.first() else { return false };
    table.set("tls.authorities", text(first));
    if files.len() > 1 {
        let why = "`tls.authorities` is one file: put the certificates of all of them into it";
        table.remark(import.lines.differs(import.files, line.at(), why));
    }
    true
}

/// A change of what is sent to servers; where there is one, its address has a name.
fn to_server(inner: &Directive, upstreams: &[&str]) -> Option<Edit> {
    let is_socket = |one: &str| one.split_once('/').is_some_and(|(kind, _)| is_socket(kind));
    let address = match upstreams {
        [one] if !is_socket(one) && addresses(one).len() == 1 => address(one),
        _ => String::new(),
    };
    let args = inner.args();
    let is_named = |word: &str| UPSTREAM.contains(&word) && !address.is_empty();
    let words: Vec<&str> =
        args.iter().map(|word| if is_named(word) { address.as_str() } else { word }).collect();
    change("request_headers", &words)
}

const UPSTREAM: [&str; 2] = ["{upstream_hostport}", "{http.reverse_proxy.upstream.hostport}"];

/// A change of a header out of its words: `Name value`, `+Name value`, `-Name`.
pub(super) fn change(table: &'static str, words: &[&str]) -> Option<Edit> {
    let request = table == "request_headers";
    let (name, value) = (words.first().copied()?, words.get(1).copied().unwrap_or_default());
    let (kind, bare) = match name.split_at_checked(1) {
        Some(("+", bare)) => ("add", bare),
        Some(("-", bare)) => ("remove", bare),
        Some((">", bare)) => ("set", bare),
        // Only where a response has none: nothing says that.
        Some(("?", _)) => return None,
        _ => ("set", name),
    };
    let key = match (kind, request) {
        ("add", true) => "request_headers.add",
        ("remove", true) => "request_headers.remove",
        (_, true) => "request_headers.set",
        ("add", false) => "answer_headers.add",
        ("remove", false) => "answer_headers.remove",
        (_, false) => "answer_headers.set",
    };
    let is_token = !bare.is_empty()
        && bare.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
    let is_host = bare.eq_ignore_ascii_case("host") && key != "request_headers.set";
    if !is_token || is_host || is_framing(bare) || words.len() > 2 {
        return None;
    }
    let value = super::template(value)?;
    Some(Edit::Header(key, bare.to_owned(), value))
}

/// Algorithms of `encode` for all services.
pub(super) fn encode(algorithms: &[&str], table: &mut Table) {
    let known: Vec<String> = algorithms
        .iter()
        .filter(|it| ["zstd", "gzip", "br"].contains(it))
        .map(|it| (*it).to_owned())
        .collect();
    let all = if known.is_empty() { vec!["zstd".to_owned(), "gzip".to_owned()] } else { known };
    table.set("compress.algorithms", list(&all));
}
