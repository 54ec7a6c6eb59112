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
    write::{self, VARIABLE, inline, text, text_with_variable},
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
    let mut defaults: Vec<_> = proxy.of_defaults().collect();
    defaults.reverse();
    for line in defaults.into_iter().chain(proxy.lines("default-server")) {
        if line.word(0) == "default-server" {
            given = read(import, line, 1, &given);
        }
    }
    let mut all = Vec::new();
    for line in &proxy.section.lines {
        match line.word(0) {
            "server" => all.push((line, read(import, line, 3, &given))),
            "server-template" => all.push((line, read(import, line, 4, &given))),
            _ => {}
        }
    }
    all.iter_mut().for_each(|(line, options)| options.settle(line));
    let is_checked = all.iter().any(|(_, options)| options.is_checked);
    let mut said = servers(import, all, port, &mut service);
    if proxy.last(&["option", "allbackups"]).is_none() {
        one_backup_at_a_time(&mut service.servers);
    }
    let is_listed = service.group.get("discover").is_some();
    if !is_listed && service.servers.iter().all(|server| server.keys.is_empty()) {
        let remarks = service.servers.into_iter().flat_map(|server| server.remarks);
        import.made.top.remarks.extend(remarks);
        return false;
    }
    if !proxy.is_http() {
        said.keys.retain(|(key, _)| key != "http_version");
    }
    settings(import, proxy, is_checked, &mut service);
    finish(&mut service, said, is_checked);
    import.made.services.push(service);
    true
}

/// Adds the servers, or the list that a template names; what they say of their service.
fn servers(
    import: &mut Import<'_>,
    all: Vec<(&Line, Options)>,
    port: Option<u16>,
    service: &mut Service,
) -> Table {
    let is_template = |line: &Line| line.word(0) == "server-template";
    let template = all.iter().position(|(line, _)| is_template(line));
    let Some((_, first)) = all.get(template.unwrap_or(0)) else { return Table::default() };
    let checked = all.iter().map(|(_, options)| options).find(|options| options.is_checked);
    let checked = checked.filter(|_| !first.is_checked).unwrap_or(first).clone();
    let mut said = checked.clone();
    said.service.clone_from(&first.service);
    said.service.keys.retain(|(key, _)| !key.starts_with("health."));
    let of_checks = |(key, _): &&(String, String)| key.starts_with("health.");
    said.service.keys.extend(checked.service.keys.iter().filter(of_checks).cloned());
    for (index, (line, mut options)) in all.into_iter().enumerate() {
        if template == Some(index) {
            list(import, line, options, service);
            continue;
        }
        let mut entry = Table::default();
        if template.is_some() {
            let why = "a group has a list (`server-template`) or servers, not both";
            service.group.remark(import.lines.lost(import.files, line.at(), why));
        } else if let Some(why) = other_way(&options, &said) {
            entry.remark(import.lines.lost(import.files, line.at(), &why));
        } else {
            options.lost.extend(differing(&options, &said));
            entry = server(import, line, options, port);
        }
        if service.servers.iter().any(|other| other.is_same_address(&entry)) {
            entry = Table::default();
            entry.remark(import.lines.lost(import.files, line.at(), TWICE));
        }
        service.servers.push(entry);
    }
    if template.is_some() {
        service.servers.clear();
    }
    said.service
}

/// HAProxy uses the first backup that is there, and the next one only without it.
fn one_backup_at_a_time(servers: &mut [Table]) {
    let backups = servers.iter_mut().filter(|server| server.get("priority").is_some());
    for (index, backup) in backups.enumerate() {
        backup.set("priority", (index + 1).to_string());
    }
}

/// Keys that say how a server is spoken to.
fn is_way(key: &str) -> bool {
    key.starts_with("tls.") || matches!(key, "http_version" | "send_proxy")
}

/// Keys whose values differ, or that only one of both has.
fn unequal<'a>(one: &'a Options, other: &'a Options) -> Vec<&'a str> {
    let keys = one.service.keys.iter().chain(&other.service.keys).map(|(key, _)| key.as_str());
    let mut keys: Vec<&str> =
        keys.filter(|key| one.service.get(key) != other.service.get(key)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Why a server cannot be spoken to as the others of its service are.
fn other_way(options: &Options, said: &Options) -> Option<String> {
    let key = unequal(options, said).into_iter().find(|key| is_way(key))?;
    let key = key.split('.').next().unwrap_or(key);
    Some(format!("it needs a service of its own: `{key}` is one for all servers of a service"))
}

/// Settings of a server that differ from those kept for its service.
fn differing(options: &Options, said: &Options) -> Vec<String> {
    let mut differing = Vec::new();
    if said.is_checked && !options.is_checked {
        differing.push("all servers of a service are checked".to_owned());
    }
    for key in unequal(options, said).into_iter().filter(|key| !is_way(key)) {
        let is_asked = options.is_checked || !key.starts_with("health.");
        let value = said.service.get(key).unwrap_or("its default");
        if is_asked {
            differing.push(format!("`{key}` is one for the whole service: {value}"));
        }
    }
    differing
}

/// What servers say of checks is without meaning where none is checked. Unless they are told
/// otherwise, checks of HAProxy come every two seconds, and may take as long.
fn finish(service: &mut Service, said: Table, is_checked: bool) {
    for (key, value) in said.keys {
        if is_checked || !key.starts_with("health.") {
            service.table.set(&key, value);
        }
    }
    service.table.remarks.extend(said.remarks);
    if is_checked {
        let interval = service.table.get("health.interval").unwrap_or("\"2s\"").to_owned();
        if service.table.get("health.timeout").is_none() {
            service.table.set("health.timeout", interval.as_str());
        }
        service.table.set("health.interval", interval);
    }
    let tls = service.table.keys.iter().filter(|(key, _)| key.starts_with("tls.")).count();
    // It only says that there is TLS; another key does so too.
    if tls > 1 {
        service.table.keys.retain(|(key, _)| key != "tls.min_version");
    }
}

fn read(import: &mut Import<'_>, line: &Line, first: usize, given: &Options) -> Options {
    let bases = import.bases.clone();
    match options(line, first, given, &bases) {
        Ok(options) => options,
        Err((index, why)) => {
            import.files.error(&line.span(index), why, "see the manual of HAProxy, section 5.2");
            given.clone()
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

/// The list of servers that a template names.
fn list(import: &mut Import<'_>, line: &Line, options: Options, service: &mut Service) {
    let place = line.word(3);
    let (kind, name) = match place.rsplit_once(':') {
        Some((name, _)) if name.starts_with('_') => ("srv", name),
        Some(_) => ("dns", place),
        None if place.starts_with('_') => ("srv", place),
        None => {
            let message = "a template of servers without a name and a port";
            let help = "write `server-template PREFIX NUMBER NAME:PORT`";
            return import.files.error(&line.span(3), message, help);
        }
    };
    service.group.set("discover", inline(&[(kind.to_owned(), text(name))]));
    let mut lost = options.lost;
    for (key, value) in options.server.keys {
        match key.as_str() {
            "max_in_flight" => service.group.set("per_server.max_in_flight", value),
            _ => lost.push(format!("servers of a list have no `{key}` of their own")),
        }
    }
    if !lost.is_empty() {
        let why = lost.join(", ");
        service.group.remark(import.lines.differs(import.files, line.at(), &why));
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
    // Bytes that mean nothing have no head.
    let said = durations.into_iter().filter(|(_, key)| *key != "timeouts.head" || proxy.is_http());
    for (name, key) in said {
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
    if let Some(line) = proxy.last(&["retries"])
        && let Ok(retries) = line.word(1).parse::<u64>()
    {
        service.table.set("retry.attempts", retries.min(3).to_string());
        if retries > 3 {
            let why = "a request is sent again 3 times at most";
            service.table.remark(import.lines.differs(import.files, line.at(), why));
        }
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
            let mut cookie =
                vec![("cookie".to_owned(), text(line.word(1))), ("key".to_owned(), key)];
            let is_secure = words.contains(&"secure");
            cookie.extend(is_secure.then(|| ("secure".to_owned(), "true".to_owned())));
            service.table.set("sticky", inline(&cookie));
            let mut why =
                "loadline derives the value of the cookie from the secret `key`; sessions \
                           of HAProxy's cookies begin anew"
                    .to_owned();
            if words.contains(&"indirect") {
                why += "; servers see the cookie, which `indirect` hides from them";
            }
            for word in words.iter().filter(|word| OF_COOKIE.contains(word)) {
                why += &format!("; nothing corresponds to `{word}`");
            }
            service.table.remark(import.lines.differs(import.files, line.at(), &why));
        } else {
            let why = "a cookie of the application keeps no session; `sticky` sets one of its own";
            service.table.remark(import.lines.lost(import.files, line.at(), why));
        }
    }
    if let Some(line) = proxy.last(&["compression", "algo"]) {
        service.table.set("compress.algorithms", write::list(&["gzip".to_owned()]));
        let types =
            proxy.last(&["compression", "type"]).map(|line| line.from(2)).unwrap_or_default();
        let types: Vec<_> = types
            .iter()
            .map(|it| if it.ends_with('/') { format!("{it}*") } else { (*it).to_owned() })
            .collect();
        if types.is_empty() {
            let why = "text and what is like it is compressed; `compress.types` names other types";
            service.table.remark(import.lines.differs(import.files, line.at(), why));
        } else {
            service.table.set("compress.types", write::list(&types));
        }
    }
}

/// Words of `cookie` without a counterpart.
const OF_COOKIE: [&str; 7] =
    ["attr", "domain", "dynamic", "maxidle", "maxlife", "postonly", "preserve"];

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
    let is_path = name == "uri" || name == "hash" && line.word(2) == "path";
    match name {
        "uri" => table.set("hash", text("path")),
        "hash" if line.word(2) != "src" => table.set("hash", text("path")),
        "hdr" => table.set("hash", inline(&[("header".to_owned(), text(argument))])),
        _ => {}
    }
    if policy == "maglev" {
        let why = match is_path && !line.from(2).contains(&"whole") {
            true => "the hash is another one, and one of the path with its query",
            false => "the hash is another one: a key may go to another server than with HAProxy",
        };
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
    let mut differs = Vec::new();
    if !path.starts_with(['/', VARIABLE]) {
        differs.push(format!("the check asks for `/`, not for `{path}`"));
        path = "/";
    }
    table.set("health.http", text(path));
    if let Some(host) = host.filter(|host| !host.is_empty()) {
        table.set("health.host", text(host.split_whitespace().next().unwrap_or(host)));
    }
    if method != "GET" {
        differs.push(format!("the check is a GET, not {method}"));
    }
    if !differs.is_empty() {
        let why = differs.join("; ");
        table.remark(import.lines.differs(import.files, line.at(), &why));
    }
}

/// Whether a line of a backend is read here; the others are told with their reason.
pub(super) fn is_read(line: &Line) -> bool {
    const OPTIONS: [&str; 8] = [
        "allbackups", "httpchk", "smtpchk", "ldap-check", "ssl-hello-chk", "redispatch",
        "forwardfor", "tcp-check",
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
