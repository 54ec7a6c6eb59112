//! Backends of HAProxy as services.

use super::{
    Import,
    format::duration,
    lex::Line,
    proxy::Proxy,
    reasons::reason,
    server::{Options, address, options},
};
use crate::{
    model::{Service, Table},
    write::{inline, list, text, text_with_variable},
};

/// The secret that stands in the file until somebody writes another.
const STICKY_KEY: &str = "${LOADLINE_STICKY_KEY:-write-a-secret-of-your-own}";

/// Why a server is left out whose address another one has.
const TWICE: &str = "the address is in the group already: `weight` there gives it more";

/// Writes the service of a backend, unless it has no server that can be one. `port` is that of
/// servers which say none.
pub(super) fn backend(import: &mut Import<'_>, proxy: Proxy<'_>, port: Option<u16>) -> bool {
    let mut service = Service { name: crate::service_name(proxy.name()), ..Service::default() };
    let mut given = Options::default();
    let defaults = proxy.defaults.into_iter().flat_map(|it| it.lines.iter());
    for line in defaults.chain(proxy.lines("default-server")) {
        if line.word(0) == "default-server" {
            given = read(import, line, 1, &given);
        }
    }
    let mut is_checked = false;
    let mut checked = Table::default();
    for line in proxy.section.lines.iter() {
        match line.word(0) {
            "server" => {
                let options = read(import, line, 3, &given);
                is_checked |= options.is_checked;
                merge(import, line, &options.service, &mut checked);
                let mut entry = server(import, line, options, port);
                if service.servers.iter().any(|other| other.is_same_address(&entry)) {
                    entry = Table::default();
                    entry.remark(import.lines.lost(import.files, line.at(), TWICE));
                }
                service.servers.push(entry);
            }
            "server-template" => template(import, line, &given, &mut service),
            _ => {}
        }
    }
    let is_listed = service.group.get("discover").is_some();
    if is_listed {
        service.servers.clear();
    }
    if !is_listed && service.servers.iter().all(|server| server.keys.is_empty()) {
        let remarks = service.servers.into_iter().flat_map(|server| server.remarks);
        import.made.top.remarks.extend(remarks);
        return false;
    }
    if checked.get("http_version").is_some() && !proxy.is_http() {
        checked.keys.retain(|(key, _)| key != "http_version");
    }
    settings(import, proxy, is_checked, &mut service);
    finish(&mut service, checked, is_checked);
    import.made.services.push(service);
    true
}

/// What servers say of checks is without meaning where none is checked.
fn finish(service: &mut Service, said: Table, is_checked: bool) {
    for (key, value) in said.keys {
        if is_checked || !key.starts_with("health.") {
            service.table.set(&key, value);
        }
    }
    service.table.remarks.extend(said.remarks);
    let tls = service.table.keys.iter().filter(|(key, _)| key.starts_with("tls.")).count();
    // It only says that there is TLS; another key does so too.
    if tls > 1 {
        service.table.keys.retain(|(key, _)| key != "tls.min_version");
    }
}

fn read(import: &mut Import<'_>, line: &Line, first: usize, given: &Options) -> Options {
    let base = import.ca_base.clone();
    match options(line, first, given, &base) {
        Ok(options) => options,
        Err((index, why)) => {
            import.files.error(&line.span(index), why, "see the manual of HAProxy, section 5.2");
            given.clone()
        }
    }
}

/// Takes what a server says of its service, unless another server said something else.
fn merge(import: &Import<'_>, line: &Line, said: &Table, service: &mut Table) {
    for (key, value) in &said.keys {
        match service.get(key) {
            None => service.set(key, value.as_str()),
            Some(other) if other == value => {}
            Some(other) => {
                let why = format!("`{key}` is one for the whole service: {other}");
                service.remark(import.lines.differs(import.files, line.at(), &why));
            }
        }
    }
}

fn server(import: &mut Import<'_>, line: &Line, options: Options, port: Option<u16>) -> Table {
    let mut entry = Table::default();
    if line.word(2).is_empty() {
        let message = format!("`{}` without a name and an address", line.word(0));
        import.files.error(&line.span(0), message, "write `server NAME ADDRESS:PORT`");
        return entry;
    }
    match address(line.word(2), port) {
        Ok(address) => {
            entry.set("address", text(&address));
            entry.keys.extend(options.server.keys);
        }
        Err(why) => entry.remark(import.lines.lost(import.files, line.at(), &why)),
    }
    if !options.lost.is_empty() && !entry.keys.is_empty() {
        let why = options.lost.join(", ");
        entry.remark(import.lines.differs(import.files, line.at(), &why));
    }
    entry
}

fn template(import: &mut Import<'_>, line: &Line, given: &Options, service: &mut Service) {
    let options = read(import, line, 4, given);
    let place = line.word(3);
    let name = place.rsplit_once(':');
    match name {
        Some((name, _)) if name.starts_with('_') => {
            service.group.set("discover", inline(&[("srv".to_owned(), text(name))]));
        }
        Some(_) => service.group.set("discover", inline(&[("dns".to_owned(), text(place))])),
        None if place.starts_with('_') => {
            service.group.set("discover", inline(&[("srv".to_owned(), text(place))]));
        }
        None => {
            let message = "a template of servers without a name and a port";
            import.files.error(
                &line.span(3),
                message,
                "write `server-template PREFIX NUMBER NAME:PORT`",
            );
        }
    }
    for (key, value) in options.service.keys {
        service.table.set(&key, value);
    }
    if options.is_checked {
        service.table.set("health.tcp", "true");
    }
}

/// What is said of the backend as a whole.
fn settings(import: &mut Import<'_>, proxy: Proxy<'_>, is_checked: bool, service: &mut Service) {
    if let Some(line) = proxy.last(&["balance"]) {
        balance(import, line, &mut service.table);
    } else {
        service.table.set("policy", text("round-robin"));
    }
    if is_checked {
        checks(import, proxy, &mut service.table);
    }
    let durations =
        [("connect", "timeouts.connect"), ("server", "timeouts.head"), ("server", "timeouts.idle")];
    for (name, key) in durations {
        if let Some(time) = proxy.value(&["timeout", name]).and_then(duration) {
            service.table.set(key, text(&time));
        }
    }
    if let Some(time) = proxy.value(&["timeout", "check"]).and_then(duration)
        && is_checked
    {
        service.table.set("health.timeout", text(&time));
    }
    if let Some(time) = proxy.value(&["timeout", "queue"]).and_then(duration)
        && !time.starts_with('0')
    {
        service.table.set("when_full", inline(&[("queue".to_owned(), text(&time))]));
    }
    if let Some(retries) = proxy.value(&["retries"]).and_then(|it| it.parse::<u64>().ok()) {
        service.table.set("retry.attempts", retries.min(3).to_string());
    }
    if proxy.is_http() {
        of_http(import, proxy, service);
    }
}

fn of_http(import: &mut Import<'_>, proxy: Proxy<'_>, service: &mut Service) {
    if let Some(line) = proxy.last(&["cookie"]) {
        let words = line.from(2);
        if words.contains(&"insert") {
            let key = text_with_variable(STICKY_KEY);
            let cookie = [("cookie".to_owned(), text(line.word(1))), ("key".to_owned(), key)];
            service.table.set("sticky", inline(&cookie));
            let why = "loadline derives the value of the cookie from the secret `key`; sessions of \
                       HAProxy's cookies begin anew";
            service.table.remark(import.lines.differs(import.files, line.at(), why));
        } else {
            let why = "a cookie of the application keeps no session; `sticky` sets one of its own";
            service.table.remark(import.lines.lost(import.files, line.at(), why));
        }
    }
    if proxy.last(&["compression", "algo"]).is_some() {
        service.table.set("compress.algorithms", list(&["gzip".to_owned()]));
        let types =
            proxy.last(&["compression", "type"]).map(|line| line.from(2)).unwrap_or_default();
        let types: Vec<_> = types
            .iter()
            .map(|it| if it.ends_with('/') { format!("{it}*") } else { (*it).to_owned() })
            .collect();
        if !types.is_empty() {
            service.table.set("compress.types", list(&types));
        }
    }
}

fn balance(import: &Import<'_>, line: &Line, table: &mut Table) {
    let (name, argument) = line.word(1).split_once('(').unwrap_or((line.word(1), ""));
    let argument = argument.trim_end_matches(')');
    let policy = match name {
        "roundrobin" | "static-rr" => "round-robin",
        "leastconn" => "least-requests",
        "random" if argument == "1" => "random",
        "random" => "power-of-two",
        "source" | "uri" | "hdr" => "maglev",
        "hash" if matches!(line.word(2), "src" | "path" | "pathq") => "maglev",
        _ => {
            let why = "no policy corresponds: round robin";
            table.remark(import.lines.lost(import.files, line.at(), why));
            "round-robin"
        }
    };
    table.set("policy", text(policy));
    match name {
        "uri" => table.set("hash", text("path")),
        "hash" if line.word(2) != "src" => table.set("hash", text("path")),
        "hdr" => table.set("hash", inline(&[("header".to_owned(), text(argument))])),
        _ => {}
    }
    if policy == "maglev" {
        let why = "the hash is another one: a key may go to another server than with HAProxy";
        table.remark(import.lines.differs(import.files, line.at(), why));
    }
}

fn checks(import: &Import<'_>, proxy: Proxy<'_>, table: &mut Table) {
    let Some(line) = proxy.last(&["option", "httpchk"]) else {
        let advisors = [("smtpchk", "smtp"), ("ldap-check", "ldap"), ("ssl-hello-chk", "tls")];
        let found = advisors.iter().find(|(name, _)| proxy.last(&["option", name]).is_some());
        match found {
            Some((_, advisor)) => table.set("health.advisor", text(advisor)),
            None => table.set("health.tcp", "true"),
        }
        return;
    };
    let words = line.from(2);
    let mut path = match words.as_slice() {
        [] => "/",
        [path] => path,
        [_, path, ..] => path,
    };
    let mut method = if words.len() > 1 { words[0] } else { "OPTIONS" };
    let mut host =
        words.iter().find_map(|word| word.split_once("Host:")).map(|(_, host)| host.trim());
    if let Some(send) = proxy.last(&["http-check", "send"]) {
        let words = send.from(2);
        for (index, word) in words.iter().enumerate() {
            let value = words.get(index + 1).copied().unwrap_or_default();
            match *word {
                "meth" => method = value,
                "uri" => path = value,
                "hdr" if value.eq_ignore_ascii_case("host") => host = words.get(index + 2).copied(),
                _ => {}
            }
        }
    }
    table.set("health.http", text(path));
    if let Some(host) = host.filter(|host| !host.is_empty()) {
        table.set("health.host", text(host.split_whitespace().next().unwrap_or(host)));
    }
    if method != "GET" {
        let why = format!("the check is a GET, not {method}");
        table.remark(import.lines.differs(import.files, line.at(), &why));
    }
}

/// Whether a line of a backend is read here; the others are told with their reason.
pub(super) fn is_read(line: &Line) -> bool {
    const OPTIONS: [&str; 7] = [
        "httpchk",
        "smtpchk",
        "ldap-check",
        "ssl-hello-chk",
        "redispatch",
        "forwardfor",
        "tcp-check",
    ];
    match line.word(0) {
        "server"
        | "default-server"
        | "server-template"
        | "balance"
        | "cookie"
        | "retries"
        | "mode"
        | "acl"
        | "http-request"
        | "http-response"
        | "http-after-response"
        | "redirect"
        | "description"
        | "compression" => true,
        "option" => OPTIONS.contains(&line.word(1)),
        "timeout" => ["connect", "server", "check", "queue"].contains(&line.word(1)),
        "http-check" => line.word(1) == "send",
        "hash-type" => false,
        _ => false,
    }
}

/// Tells the lines that are read nowhere.
pub(super) fn tell_unread(import: &Import<'_>, lines: &[&Line], table: &mut Table) {
    for line in lines {
        let why = if line.begins(&["http-check", "expect"]) {
            "a status of 2xx or 3xx passes; nothing else is asked of the response"
        } else {
            reason(line)
        };
        table.remark(import.lines.lost(import.files, line.at(), why));
    }
}
