//! Configurations of HAProxy.
//!
//! ```text
//! lines --lex--> sections --defaults--> proxies --+--backend--> services
//!                                                 +--frontend-> listeners, steps --> routes
//! ```

mod acl;
mod backend;
mod bind;
mod branches;
mod changed;
mod format;
mod frontend;
mod lex;
mod list;
mod proxy;
mod reasons;
mod rules;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use self::{
    acl::{Acls, is_or},
    bind::Bases,
    lex::{Line, Section},
    proxy::{Defaults, Proxy},
    reasons::reason,
};
use crate::{
    files::Files,
    model::{Configuration, Lines, PROTECTED, Table, is_guard},
    write::{VARIABLE, text},
};

pub(crate) use acl::is_host_name;

/// What is read so far, and what of ours it makes.
struct Import<'a> {
    files: &'a mut Files,
    lines: &'a Lines,
    sections: &'a [Section],
    defaults: &'a [Defaults<'a>],
    /// Names of sections and ACLs that are left out, since it is not known whether HAProxy reads
    /// them.
    conditional: BTreeSet<String>,
    /// ACLs of which not all lines may be known, by where their section begins.
    conditional_acls: BTreeMap<usize, BTreeSet<String>>,
    /// Whether a `mode` is left out, since it is not known whether HAProxy reads it.
    is_mode_conditional: bool,
    made: Configuration,
    /// Backends that became a service.
    services: BTreeSet<String>,
    /// Remarks on rules of backends, by backend.
    remarks: BTreeMap<String, Vec<String>>,
    bases: Bases,
}

/// Whether a text looks like one: its first directive begins a section.
pub(crate) fn is_one(text: &str) -> bool {
    let is_line = |line: &&str| !line.is_empty() && !line.starts_with(['#', '.']);
    let mut lines = text.lines().map(str::trim).filter(is_line);
    let first = lines.next().unwrap_or_default();
    let is_section = first.split_whitespace().next().is_some_and(|it| lex::SECTIONS.contains(&it));
    is_section && !first.ends_with(['{', ';'])
}

/// Reads the file that was added last.
pub(crate) fn import(files: &mut Files, lines: &mut Lines) -> Configuration {
    let (sections, conditional) = lex::sections(files, lines);
    let defaults_of_all = inherited(&sections);
    let mut import = Import {
        files,
        lines,
        sections: &sections,
        defaults: &defaults_of_all,
        conditional: names(&conditional),
        conditional_acls: conditional_acls(&sections, &conditional),
        is_mode_conditional: conditional.iter().any(|line| line.word(0) == "mode"),
        made: Configuration::default(),
        services: BTreeSet::new(),
        remarks: BTreeMap::new(),
        bases: Bases::default(),
    };
    for line in &conditional {
        let remark = import.lines.lost(import.files, line.at(), CONDITIONAL);
        import.made.top.remark(remark);
    }
    for section in &sections {
        check_defaults(&mut import, section);
        match section.kind() {
            "global" => global(&mut import, section),
            "defaults" => defaults(&mut import, section),
            "frontend" | "backend" | "listen" => check(&mut import, section),
            "cache" => cache(&mut import, section),
            kind => {
                let why = format!("nothing corresponds to a section `{kind}`");
                for line in std::iter::once(&section.head).chain(&section.lines) {
                    let remark = import.lines.lost(import.files, line.at(), &why);
                    import.made.top.remark(remark);
                }
            }
        }
    }
    proxies(&mut import);
    import.made
}

/// What sections and ACLs among these lines are called.
fn names(lines: &[Line]) -> BTreeSet<String> {
    let is_named = |line: &&Line| line.word(0) == "acl" || lex::SECTIONS.contains(&line.word(0));
    lines.iter().filter(is_named).map(|line| line.word(1).to_owned()).collect()
}

/// ACLs of sections of which lines are left out, by where the section begins.
fn conditional_acls(
    sections: &[Section],
    conditional: &[Line],
) -> BTreeMap<usize, BTreeSet<String>> {
    let mut acls: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    let mut left_out = 0;
    for line in conditional {
        if lex::SECTIONS.contains(&line.word(0)) {
            left_out = line.at();
        }
        let before = sections.partition_point(|it| it.head.at() < line.at());
        let section = sections.iter().take(before).next_back();
        let section = section.filter(|it| line.word(0) == "acl" && it.head.at() >= left_out);
        if let Some(section) = section {
            acls.entry(section.head.at()).or_default().insert(line.word(1).to_owned());
        }
    }
    acls
}

/// Why lines within `.if` are left out.
const CONDITIONAL: &str = "whether HAProxy reads it depends on `.if`, which is not known here: \
                           write the lines that hold without it before the import";

/// Sections of defaults, each with that from which it has more lines.
fn inherited(sections: &[Section]) -> Vec<Defaults<'_>> {
    let mut all: Vec<Defaults<'_>> = Vec::new();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for section in sections.iter().filter(|it| it.kind() == "defaults") {
        let parent = section.defaults().and_then(|name| named.get(name).copied());
        named.entry(section.name()).or_insert(all.len());
        all.push(Defaults { section, parent });
    }
    all
}

fn proxies(import: &mut Import<'_>) {
    let sections = import.sections;
    for section in sections {
        let Some(proxy) = import.of(section) else { continue };
        let is_listen = section.kind() == "listen";
        if section.kind() != "backend" && !is_listen {
            continue;
        }
        let port = is_listen.then(|| only_port(proxy)).flatten();
        if backend::backend(import, proxy, port) {
            import.services.insert(section.name().to_owned());
        }
    }
    for section in sections {
        let Some(proxy) = import.of(section) else { continue };
        if section.kind() == "backend" {
            continue;
        }
        if !stats(import, proxy) {
            frontend::frontend(import, proxy);
        }
    }
    for section in sections {
        tell_unread(import, section);
    }
}

/// The port of the only `bind` line.
fn only_port(proxy: Proxy<'_>) -> Option<u16> {
    let mut binds = proxy.lines("bind");
    let (line, None) = (binds.next()?, binds.next()) else { return None };
    bind::bind(line, &Bases::default()).ok()?.port
}

/// A frontend for nothing but statistics becomes the admin interface; others get a hint.
fn stats(import: &mut Import<'_>, proxy: Proxy<'_>) -> bool {
    let mut lines = proxy.lines("stats");
    let Some(first) = lines.next() else { return false };
    let is_all = proxy.value(&["default_backend"]).is_none()
        && proxy.lines("use_backend").next().is_none()
        && !import.services.contains(proxy.name());
    if is_all && import.made.admin.get("bind").is_none() {
        let port = only_port(proxy).unwrap_or(9090);
        import.made.admin.set("bind", text(&format!("127.0.0.1:{port}")));
        let why = "the dashboard and the API listen on the loopback interface alone, without a \
                   password: put a listener with TLS before it, or use an SSH tunnel";
        import.made.admin.remark(import.lines.differs(import.files, first.at(), why));
        let is_closed = |line: &&Line| {
            line.begins(&["stats", "auth"])
                || line.begins(&["stats", "http-request"])
                || is_guard(&line.from(0).join(" "))
        };
        for line in proxy.section.lines.iter().filter(is_closed) {
            let why = format!("{PROTECTED}: the dashboard asks nobody who it is");
            import.made.admin.remark(import.lines.lost(import.files, line.at(), &why));
        }
        return true;
    }
    let why = "the dashboard has an address of its own: [admin] bind = \"127.0.0.1:9090\"";
    for line in std::iter::once(first).chain(lines) {
        import.made.admin.remark(import.lines.lost(import.files, line.at(), why));
    }
    is_all
}

/// Tells of the lines of a proxy that nobody reads.
fn tell_unread(import: &mut Import<'_>, section: &Section) {
    let kind = section.kind();
    if !matches!(kind, "frontend" | "backend" | "listen") {
        return;
    }
    let unread: Vec<&Line> = section.lines.iter().filter(|line| !is_read(kind, line)).collect();
    let unread: Vec<&Line> = unread.into_iter().filter(|line| !is_logged(import, line)).collect();
    let mut table = Table::default();
    backend::tell_unread(import, &unread, &mut table);
    let name = crate::service_name(section.name());
    let rules = import.remarks.remove(section.name()).unwrap_or_default();
    let is_backend = kind == "backend";
    let listener = import.made.listeners.iter_mut().find(|it| it.label == section.name());
    let service = import.made.services.iter_mut().find(|service| service.name == name);
    let tables = (listener.map(|it| &mut it.table), service.map(|it| &mut it.table));
    let place = match tables {
        (Some(listener), _) if !is_backend => listener,
        (_, Some(service)) => service,
        _ => &mut import.made.top,
    };
    table.remarks.into_iter().chain(rules).for_each(|remark| place.remark(remark));
}

fn is_read(kind: &str, line: &Line) -> bool {
    if reasons::is_from_environment(line) {
        return false;
    }
    let of_frontend = match line.word(0) {
        "bind"
        | "use_backend"
        | "default_backend"
        | "maxconn"
        | "monitor-uri"
        | "stats"
        | "mode"
        | "acl"
        | "http-request"
        | "http-response"
        | "http-after-response"
        | "redirect"
        | "description" => true,
        "option" => line.word(1) == "forwardfor",
        "timeout" => ["client", "http-request", "http-keep-alive"].contains(&line.word(1)),
        _ => false,
    };
    let of_backend = kind != "frontend" && backend::is_read(line);
    // What only the other kind of proxy obeys has no meaning here; HAProxy warns of it.
    of_backend || of_frontend && kind != "backend"
}

fn global(import: &mut Import<'_>, section: &Section) {
    for line in &section.lines {
        let value = line.word(1);
        match line.word(0) {
            "maxconn" => number(import, line, "max_connections", 1, 10_000_000),
            "nbthread" => number(import, line, "threads", 0, 1024),
            "crt-base" => value.clone_into(&mut import.bases.crt),
            "ca-base" => value.clone_into(&mut import.bases.ca),
            "log" if import.made.edge.get("access_log").is_none() => log(import, line),
            _ => {
                let remark = import.lines.lost(import.files, line.at(), reason(line));
                import.made.edge.remark(remark);
            }
        }
    }
}

fn number(import: &mut Import<'_>, line: &Line, key: &str, least: u64, most: u64) {
    match line.word(1).parse::<u64>() {
        Ok(number) => import.made.edge.set(key, number.clamp(least, most).to_string()),
        Err(_) if line.word(1).contains(VARIABLE) => {
            import.made.edge.set(key, text(line.word(1)));
        }
        Err(_) => {
            let message = format!("`{}` is no whole number", line.word(1));
            import.files.error(&line.span(1), message, "write a number, such as 10000");
        }
    }
}

/// The first destination of `global` is that of the access log.
fn log(import: &mut Import<'_>, line: &Line) {
    let to = match line.word(1) {
        "/dev/log" => "syslog".to_owned(),
        "stdout" => "stdout".to_owned(),
        path if path.starts_with('/') => format!("syslog:{path}"),
        address => match address.parse::<std::net::IpAddr>() {
            Ok(ip) => format!("syslog://{}", std::net::SocketAddr::new(ip, 514)),
            Err(_) if address.parse::<std::net::SocketAddr>().is_ok() => {
                format!("syslog://{address}")
            }
            Err(_) => {
                let remark = import.lines.lost(import.files, line.at(), reason(line));
                return import.made.edge.remark(remark);
            }
        },
    };
    import.made.edge.set("access_log", text(&to));
    let why = "a line for each request, in a format of its own";
    import.made.edge.remark(import.lines.differs(import.files, line.at(), why));
}

/// What defaults say is told once, not with each proxy that has them.
fn defaults(import: &mut Import<'_>, section: &Section) {
    for line in &section.lines {
        let is_rule = line.word(0).starts_with("http-") && line.word(0) != "http-check";
        if is_rule {
            let why = "rules are those of each proxy: write them there before the import";
            let remark = import.lines.lost(import.files, line.at(), why);
            import.made.top.remark(remark);
            continue;
        }
        let is_known = is_read("listen", line) || line.word(0) == "no";
        if !is_known && !is_logged(import, line) {
            let why = reason(line);
            let remark = import.lines.lost(import.files, line.at(), why);
            import.made.top.remark(remark);
        }
    }
}

/// Whether a line asks for the log that there is.
fn is_logged(import: &Import<'_>, line: &Line) -> bool {
    const OPTIONS: [&str; 2] = ["httplog", "tcplog"];
    let asks = line.begins(&["log", "global"])
        || line.word(0) == "option" && OPTIONS.contains(&line.word(1));
    asks && import.made.edge.get("access_log").is_some()
}

fn cache(import: &mut Import<'_>, section: &Section) {
    for line in &section.lines {
        let number = line.word(1).parse::<u64>().unwrap_or(0);
        match line.word(0) {
            "total-max-size" if number > 0 => {
                import.made.cache.set("memory", text(&format!("{number}MiB")));
            }
            "max-object-size" if number > 0 => {
                import.made.cache.set("max_object", text(&format!("{number}B")));
            }
            _ => {
                let why = "loadline stores what responses allow, for as long as they say";
                let remark = import.lines.lost(import.files, line.at(), why);
                import.made.cache.remark(remark);
            }
        }
    }
}

/// Finds a name of defaults that is none.
fn check_defaults(import: &mut Import<'_>, section: &Section) {
    let Some(name) = section.defaults() else { return };
    let is_it =
        |it: &Defaults<'_>| it.section.name() == name && it.section.head.at() < section.head.at();
    if !import.conditional.contains(name) && !import.defaults.iter().any(is_it) {
        let message = format!("there are no defaults `{name}` before it");
        let help = "name a `defaults` section that stands above";
        import.files.error(&section.head.span(0), message, help);
    }
}

/// Finds what makes a proxy unreadable.
fn check(import: &mut Import<'_>, section: &Section) {
    let Some(proxy) = import.of(section) else { return };
    if section.name().is_empty() {
        let message = format!("a `{}` without a name", section.kind());
        return import.files.error(&section.head.span(0), message, "write its name behind it");
    }
    let acls = import.acls(proxy);
    for line in &section.lines {
        if line.word(0) == "acl" && line.words.len() < 3 {
            let help = "write `acl NAME CRITERION PATTERN`";
            import.files.error(&line.span(0), "an acl without a criterion", help);
        }
        let (action, condition) = rules::split(line);
        let takes = ["use_backend", "http-request", "http-response", "redirect"];
        if takes.contains(&line.word(0)) {
            if action.len() < 2 {
                let message = format!("`{}` without an argument", line.word(0));
                import.files.error(&line.span(0), message, "say what it does");
            }
            conditions(import, condition, &acls);
        }
        let to = match line.word(0) {
            "use_backend" | "default_backend" => line.word(1),
            _ => continue,
        };
        let is_there = import.proxy(to, &["backend", "listen"]).is_some() || to.contains('%');
        if !to.is_empty() && !is_there && !import.conditional.contains(to) {
            let message = format!("there is no backend `{to}`");
            import.files.error(&line.span(1), message, "name a `backend` of this file");
        }
    }
}

/// Finds names of conditions that are none, and braces that do not close.
fn conditions(import: &mut Import<'_>, words: &[lex::Word], acls: &Acls) {
    let mut open = None;
    for word in words.iter().skip(1) {
        let bare = word.text.trim_start_matches('!');
        match (bare, &open) {
            ("{", None) => open = Some(word.span.clone()),
            ("}", Some(_)) => open = None,
            ("", _) | (_, Some(_)) => {}
            (or, None) if is_or(or) => {}
            (name, None) if acls.has(name) || import.conditional.contains(name) => {}
            (name, None) => {
                let message = format!("there is no acl `{name}`");
                import.files.error(&word.span, message, "define it with `acl` before");
            }
        }
    }
    if let Some(span) = open {
        import.files.error(&span, "a condition that does not close", "end it with ` }`");
    }
}

impl<'a> Import<'a> {
    /// A section as a proxy, with the defaults that hold for it; none of another kind.
    fn of(&self, section: &'a Section) -> Option<Proxy<'a>> {
        if !matches!(section.kind(), "frontend" | "backend" | "listen") {
            return None;
        }
        let is_before = |it: &&Defaults<'_>| it.section.head.at() < section.head.at();
        let mut defaults = self.defaults.iter().take_while(is_before);
        let defaults = match section.defaults() {
            Some(name) => defaults.find(|it| it.section.name() == name),
            None => defaults.last(),
        };
        Some(Proxy { section, defaults: defaults.copied(), all_defaults: self.defaults })
    }

    /// The proxy of this name, of one of these kinds.
    fn proxy(&self, name: &str, kinds: &[&str]) -> Option<Proxy<'a>> {
        let is_it = |section: &&Section| section.name() == name && kinds.contains(&section.kind());
        self.of(self.sections.iter().find(is_it)?)
    }

    fn acls(&self, proxy: Proxy<'_>) -> Acls {
        let conditional = self.conditional_acls.get(&proxy.section.head.at());
        let mut acls = Acls::without(conditional.cloned().unwrap_or_default());
        for line in proxy.lines("acl").filter(|line| line.words.len() > 2) {
            acls.add(&line.words);
        }
        acls
    }
}
