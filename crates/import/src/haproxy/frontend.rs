//! Frontends of HAProxy as listeners with their routes.

use super::{
    Import,
    acl::{Acls, Context, Term},
    bind::{Bind, Tls, bind},
    changed::{CHANGED, Changed},
    format::duration,
    lex::Line,
    proxy::Proxy,
    rules,
};
use crate::{
    condition::{Host, Path, When},
    model::{Listener, PROTECTED, Service, Table, is_guard},
    steps::{self, Act, Edit, End, Step},
    write::{VARIABLE, list, text},
};

/// Binds that differ in nothing but their addresses.
struct Group {
    addresses: Vec<String>,
    port: Option<u16>,
    tls: Option<Tls>,
    accept_proxy: bool,
    quic: bool,
}

/// Writes the listeners of a frontend.
pub(super) fn frontend(import: &mut Import<'_>, proxy: Proxy<'_>) {
    let mut table = Table::default();
    let groups = groups(import, proxy, &mut table);
    let is_first = groups.is_empty();
    let mut remarks = vec![std::mem::take(&mut table)];
    for group in &groups {
        let mut listener = listener(proxy, group);
        if proxy.is_http() {
            routes(import, proxy, group, &mut listener);
        } else {
            stream(import, proxy, group, &mut listener);
        }
        if let Some(first) = remarks.pop() {
            let later = std::mem::replace(&mut listener.table.remarks, first.remarks);
            later.into_iter().for_each(|remark| listener.table.remark(remark));
        }
        import.made.listeners.push(listener);
    }
    if is_first {
        let remarks = remarks.into_iter().flat_map(|table| table.remarks);
        import.made.top.remarks.extend(remarks);
    }
}

fn groups(import: &mut Import<'_>, proxy: Proxy<'_>, table: &mut Table) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut quic = Vec::new();
    for line in proxy.lines("bind") {
        let bases = import.bases.clone();
        let bind = match bind(line, &bases) {
            Ok(bind) => bind,
            Err((index, why)) => {
                let help = "write `bind ADDRESS:PORT`";
                import.files.error(&line.span(index), why, help);
                continue;
            }
        };
        if !bind.quic.is_empty() {
            quic.push((line, bind.quic.clone()));
        }
        if bind.addresses.is_empty() && bind.lost.is_empty() {
            continue;
        }
        // HTTP/3 alone is no listener: it has the certificates of HTTPS.
        let is_listener = !bind.addresses.is_empty() || bind.quic.is_empty();
        if is_listener && bind.tls.as_ref().is_some_and(|tls| tls.certificates.is_empty()) {
            let why = "there is no certificate for it: the listener is left out";
            let why = [bind.lost.join(", ").as_str(), why].join("; ");
            table.remark(import.lines.lost(import.files, line.at(), why.trim_start_matches("; ")));
            continue;
        }
        if !bind.lost.is_empty() {
            let why = bind.lost.join(", ");
            let remark = match bind.addresses.is_empty() && is_listener {
                true => import.lines.lost(import.files, line.at(), &why),
                false => import.lines.differs(import.files, line.at(), &why),
            };
            table.remark(remark);
        }
        let refused = add(import, bind, &mut groups);
        if !refused.is_empty() {
            let why = left_out(proxy, &refused);
            table.remark(import.lines.lost(import.files, line.at(), &why));
        }
    }
    for (line, ports) in quic {
        if !add_quic(&ports, &mut groups) {
            let why = "HTTP/3 is beside HTTPS: write a `bind ... ssl` of the same port, too";
            table.remark(import.lines.lost(import.files, line.at(), why));
        }
    }
    groups
}

/// Has HTTP/3 spoken where there is HTTPS at one of the ports; false where there is none.
fn add_quic(ports: &[u16], groups: &mut [Group]) -> bool {
    let is_port = |address: &str| ports.iter().any(|port| address.ends_with(&format!(":{port}")));
    let mut is_there = false;
    for group in groups.iter_mut().filter(|group| group.tls.is_some()) {
        let is_here = group.addresses.iter().any(|address| is_port(address));
        group.quic |= is_here;
        is_there |= is_here;
    }
    is_there
}

/// Why a section is not there at addresses that another bind has.
fn left_out(proxy: Proxy<'_>, refused: &[String]) -> String {
    let is_closed = proxy.section.lines.iter().any(|line| is_guard(&line.from(0).join(" ")));
    let begin = if is_closed { format!("{PROTECTED}: ") } else { String::new() };
    let addresses: Vec<_> = refused.iter().map(|address| format!("`{address}`")).collect();
    format!("{begin}{} is bound above: this section is left out there", addresses.join(", "))
}

/// Adds a bind to that which differs in addresses alone. An address is bound once: given back are
/// those that have another bind already.
fn add(import: &Import<'_>, bind: Bind, groups: &mut Vec<Group>) -> Vec<String> {
    let Bind { addresses, port, tls, accept_proxy, .. } = bind;
    let is_same = |group: &Group| group.tls == tls && group.accept_proxy == accept_proxy;
    let of_same = groups.iter().filter(|it| is_same(it)).flat_map(|it| &it.addresses);
    let there: Vec<String> = of_same.cloned().collect();
    let others = groups.iter().flat_map(|it| &it.addresses);
    let others = others.chain(import.made.listeners.iter().flat_map(|it| &it.bind));
    let taken: Vec<String> = others.cloned().collect();
    let new = addresses.into_iter().filter(|address| !there.contains(address));
    let (refused, addresses): (Vec<_>, Vec<_>) = new.partition(|it| taken.contains(it));
    if addresses.is_empty() {
        return refused;
    }
    let same = groups.iter_mut().find(|group| is_same(group));
    match same {
        Some(group) => {
            group.addresses.extend(addresses);
            group.port = group.port.filter(|own| Some(*own) == port);
        }
        None => groups.push(Group { addresses, port, tls, accept_proxy, quic: false }),
    }
    refused
}

fn listener(proxy: Proxy<'_>, group: &Group) -> Listener {
    let mut table = Table::default();
    let protocol = match (proxy.is_http(), &group.tls) {
        (true, None) => "http",
        (true, Some(_)) => "https",
        (false, None) => "tcp",
        (false, Some(_)) => "tls",
    };
    table.set("protocol", text(protocol));
    if let Some(tls) = &group.tls {
        table.set("tls.certificates", list(&tls.certificates));
        if let Some(authorities) = &tls.authorities {
            table.set("tls.client_authorities", text(authorities));
        }
        if tls.is_optional {
            table.set("tls.client_required", "false");
        }
        if let Some(version) = tls.min_version {
            table.set("tls.min_version", text(version));
        }
        if proxy.is_http() && !group.quic {
            table.set("http3", "false");
        }
    }
    if group.accept_proxy {
        table.set("accept_proxy", "true");
    }
    match proxy.value(&["maxconn"]).map(|most| (most, most.parse::<u64>())) {
        Some((_, Ok(most))) => table.set("max_connections", most.clamp(1, 1_000_000).to_string()),
        Some((most, Err(_))) if most.contains(VARIABLE) => table.set("max_connections", text(most)),
        _ => {}
    }
    let times = [
        ("client", "timeouts.idle"),
        ("http-request", "timeouts.head"),
        ("http-keep-alive", "timeouts.keep_alive"),
    ];
    // Only between two requests is a connection kept alive.
    let said = times.into_iter().filter(|(_, key)| !key.ends_with("keep_alive") || proxy.is_http());
    for (name, key) in said {
        if let Some(time) = proxy.value(&["timeout", name]).and_then(duration) {
            table.set(key, text(&time));
        }
    }
    let label = proxy.name().to_owned();
    Listener { bind: group.addresses.clone(), table, label, ..Listener::default() }
}

/// The service of a frontend in which no rule decides.
fn default_backend<'a>(proxy: Proxy<'a>) -> &'a str {
    let named = proxy.value(&["default_backend"]);
    named.unwrap_or(if proxy.section.kind() == "listen" { proxy.name() } else { "" })
}

fn stream(import: &mut Import<'_>, proxy: Proxy<'_>, group: &Group, listener: &mut Listener) {
    let acls = import.acls(proxy);
    let context = Context { tls: group.tls.is_some(), port: group.port };
    for line in proxy.lines("use_backend") {
        let names = server_names(line, &acls, context).filter(|_| group.tls.is_none());
        match names.filter(|_| import.services.contains(line.word(1))) {
            _ if is_computed(line) => {
                listener.table.remark(import.lines.lost(import.files, line.at(), COMPUTED));
            }
            Some(names) => {
                listener.table.set("protocol", text("tls-passthrough"));
                let service = crate::service_name(line.word(1));
                listener.names.extend(names.into_iter().map(|name| (name, service.clone())));
            }
            None => {
                let why = "without HTTP a service is chosen by the server name (SNI) alone";
                listener.table.remark(import.lines.lost(import.files, line.at(), why));
            }
        }
    }
    let rules = ["http-request", "http-response", "http-after-response", "redirect"];
    let mode = proxy.value(&["mode"]);
    let is_tcp = !import.is_mode_conditional && matches!(mode, None | Some("tcp"));
    for line in proxy.section.lines.iter().filter(|line| rules.contains(&line.word(0))) {
        let remark = if is_tcp {
            let why = "without `mode http` HAProxy ignores it too";
            import.lines.differs(import.files, line.at(), why)
        } else {
            let why = "rules need `mode http`, which is not known here to be in force";
            import.lines.lost(import.files, line.at(), why)
        };
        listener.table.remark(remark);
    }
    let default = default_backend(proxy);
    if import.services.contains(default) {
        listener.service = crate::service_name(default);
    } else if !listener.names.is_empty() {
        listener.service = nobody(import);
    } else {
        let why = "there is no server for it";
        let remark = import.lines.lost(import.files, proxy.section.head.at(), why);
        listener.table.remark(remark);
        listener.bind.clear();
    }
}

/// The service of connections that HAProxy closes.
fn nobody(import: &mut Import<'_>) -> String {
    let services = &mut import.made.services;
    let is_it = |service: &&Service| service.table.remarks.iter().any(|it| it == NOBODY);
    if let Some(there) = services.iter().find(is_it) {
        return there.name.clone();
    }
    let mut service = Service { name: "none".to_owned(), ..Service::default() };
    while services.iter().any(|it| it.name == service.name) {
        service.name.push_str("-2");
    }
    service.table.remark(NOBODY.to_owned());
    let mut server = Table::default();
    server.set("address", text("127.0.0.1:9"));
    service.servers.push(server);
    let name = service.name.clone();
    services.push(service);
    name
}

const NOBODY: &str = "Connections that no rule takes come here, where nobody listens: HAProxy \
                      closes them, too.";

/// Whether HAProxy finds the backend by variables of the request.
fn is_computed(line: &Line) -> bool {
    line.word(1).contains('%')
}

const COMPUTED: &str = "a route names its service, without variables: write a route for each";

/// The server names that lead to a backend, where nothing else is asked.
fn server_names(line: &Line, acls: &Acls, context: Context) -> Option<Vec<String>> {
    let terms = acls.terms(rules::split(line).1, context).ok()?;
    let mut names = Vec::new();
    for term in terms {
        let hosts = term.yes.hosts.clone()?;
        if !term.no.is_empty() || term.yes != When::host(hosts.clone()) {
            return None;
        }
        names.extend(hosts.into_iter().map(|host| match host {
            Host::Exact(name) => name,
            Host::Under(domain) => format!("*.{domain}"),
        }));
    }
    (!names.is_empty()).then_some(names)
}

fn routes(import: &mut Import<'_>, proxy: Proxy<'_>, group: &Group, listener: &mut Listener) {
    let context = Context { tls: group.tls.is_some(), port: group.port };
    let (mut to_services, mut lost) = (Vec::new(), Vec::new());
    let mut acls = import.acls(proxy);
    let mut table = Table::default();
    let mut steps = monitor(proxy);
    steps.extend(requests(import, proxy, context, &mut acls, &mut table));
    let is_changed = change_of_path(proxy).is_some();
    // What backends have of the same defaults is done already.
    let forwarded = proxy.last(&["option", "forwardfor"]).map(Line::at);
    for line in proxy.lines("use_backend") {
        if is_computed(line) {
            listener.table.remark(import.lines.lost(import.files, line.at(), COMPUTED));
            continue;
        }
        for term in terms(import, line, &acls, context, &mut listener.table) {
            let place = (line.at(), is_changed);
            let mut steps = to_service(import, line.word(1), place, context, &acls.changed);
            steps.retain(|step| Some(step.rule) != forwarded);
            lost.extend(steps::confine(&mut steps, &term.yes, &term.no));
            to_services.extend(steps);
        }
    }
    tell_changed_paths(import, proxy, (context, false), &mut listener.table);
    table.remarks.into_iter().for_each(|remark| listener.table.remark(remark));
    let default = default_backend(proxy);
    let at = proxy.last(&["default_backend"]).map_or(proxy.section.head.at(), Line::at);
    to_services.extend(to_service(import, default, (at, is_changed), context, &acls.changed));
    steps.extend(to_services);
    finish(import, &steps, lost, listener);
}

/// The terms of the condition of a rule. Without any it is left out; if that is since the condition
/// cannot be said, it is told.
fn terms(
    import: &Import<'_>,
    line: &Line,
    acls: &Acls,
    context: Context,
    table: &mut Table,
) -> Vec<Term> {
    let condition = rules::split(line).1;
    let mut found = acls.terms(condition, context);
    // Whom a client's own header lets in is worse than who is refused.
    let is_strict = is_guard(&line.from(0).join(" ")) || line.word(1) == "allow";
    if found.as_ref().is_err_and(|why| why == CHANGED) && !is_strict {
        let why =
            "the header is asked for as the client sent it, not as an earlier rule changes it";
        table.remark(import.lines.differs(import.files, line.at(), why));
        found = acls.as_sent().terms(condition, context);
    }
    if context.tls && acls.ask_for(&["ssl_fc_sni"], condition) {
        let why = "the host is asked for, which a client may have other than the server name (SNI)";
        table.remark(import.lines.differs(import.files, line.at(), why));
    }
    if found.iter().flatten().any(Term::finds_cookie) {
        let why =
            "a cookie without a value is there, too: HAProxy does not find it where it is last";
        table.remark(import.lines.differs(import.files, line.at(), why));
    }
    found.unwrap_or_else(|why| {
        table.remark(import.lines.lost(import.files, line.at(), &why));
        Vec::new()
    })
}

/// The first rule that changes the path.
fn change_of_path<'a>(proxy: Proxy<'a>) -> Option<&'a Line> {
    let changes = ["set-path", "set-uri", "replace-path", "replace-uri", "set-pathq"];
    proxy.lines("http-request").find(|line| changes.contains(&line.word(1)))
}

/// Rules behind a change of the path see the path as it came, where HAProxy sees the new one.
/// `is_changed` is whether it has been changed before.
fn tell_changed_paths(
    import: &Import<'_>,
    proxy: Proxy<'_>,
    (context, is_changed): (Context, bool),
    table: &mut Table,
) {
    let change = change_of_path(proxy);
    if change.is_none() && !is_changed {
        return;
    }
    let acls = import.acls(proxy);
    let rules = ["http-request", "redirect", "use_backend"];
    for line in proxy.section.lines.iter().filter(|line| rules.contains(&line.word(0))) {
        let is_behind = is_changed
            || line.word(0) != "http-request"
            || change.is_some_and(|change| line.at() > change.at());
        if !is_behind {
            continue;
        }
        let is_asked = acls.ask_for(&["path", "url"], rules::split(line).1);
        let asked = is_asked
            .then_some("the path is asked for as it came, not as an earlier rule changes it");
        let why: Vec<_> = asked.into_iter().chain(rules::of_sent_path(line, context)).collect();
        if !why.is_empty() {
            table.remark(import.lines.differs(import.files, line.at(), &why.join("; ")));
        }
    }
}

/// `monitor-uri` is answered before any rule.
fn monitor(proxy: Proxy<'_>) -> Vec<Step> {
    let Some(line) = proxy.last(&["monitor-uri"]) else { return Vec::new() };
    let answer = End::answer(vec![("body".to_owned(), text("OK"))], Vec::new());
    let mut step = Step::always(line.at(), Act::End(answer));
    step.yes = When::path(vec![Path::Exact(line.word(1).to_owned())]);
    vec![step]
}

/// What happens to requests for a backend: its own rules, then its service. The line that leads to
/// it is at `at`, whether the path has been changed before is `is_changed`, and what of the headers
/// has, `changed`.
fn to_service(
    import: &mut Import<'_>,
    name: &str,
    (at, is_changed): (usize, bool),
    context: Context,
    changed: &Changed,
) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(proxy) = import.proxy(name, &["backend", "listen"]) {
        let mut table = Table::default();
        if proxy.section.kind() == "backend" {
            let mut acls = import.acls(proxy);
            acls.changed = changed.in_backend();
            steps = requests(import, proxy, context, &mut acls, &mut table);
            tell_changed_paths(import, proxy, (context, is_changed), &mut table);
        }
        import.remarks.entry(name.to_owned()).or_default().extend(table.remarks);
    }
    let end = if import.services.contains(name) {
        End::service(&crate::service_name(name))
    } else {
        End::key("deny", "503".to_owned())
    };
    steps.push(Step::always(at, Act::End(end)));
    steps
}

/// The rules of a proxy, in the order in which HAProxy asks them. `acls` follow what they change.
fn requests(
    import: &Import<'_>,
    proxy: Proxy<'_>,
    context: Context,
    acls: &mut Acls,
    table: &mut Table,
) -> Vec<Step> {
    let mut steps: Vec<Step> = forwarded(import, proxy, table).into_iter().collect();
    let mut later = Table::default();
    for line in proxy.lines("http-request") {
        steps.extend(rule(import, line, acls, context, &mut later));
        let (action, condition) = rules::split(line);
        let terms = acls.terms(condition, context);
        acls.changed.follow(action, &terms);
    }
    let redirects: Vec<Step> =
        proxy.lines("redirect").flat_map(|line| rule(import, line, acls, context, table)).collect();
    later.remarks.into_iter().for_each(|remark| table.remark(remark));
    // What is allowed is asked none of the other rules of its kind.
    let count = steps.len();
    for (index, step) in steps.iter_mut().enumerate() {
        if let Act::Skip(skipped) = &mut step.act {
            *skipped = count - index - 1;
        }
    }
    steps.extend(responses(import, proxy, (&*acls, context), table));
    steps.extend(redirects);
    steps
}

/// What a proxy changes of responses. They come from its backend, so that the rules of that are
/// first.
fn responses(
    import: &Import<'_>,
    proxy: Proxy<'_>,
    (acls, context): (&Acls, Context),
    table: &mut Table,
) -> Vec<Step> {
    let is_of_backend = proxy.section.kind() == "backend";
    let mut steps = Vec::new();
    for line in proxy.lines("http-response").chain(proxy.lines("http-after-response")) {
        let mut terms = acls.terms(rules::split(line).1, context).ok();
        if terms.iter().flatten().any(Term::is_always) {
            terms = Some(vec![Term::default()]);
        }
        // What depends on the connection alone is known before there is a response.
        let terms = terms.filter(|all| all.iter().all(Term::is_of_connection));
        match rules::response(line, terms.is_some()) {
            _ if terms.as_ref().is_some_and(Vec::is_empty) => {}
            Ok(edit) => {
                if line.word(0) == "http-after-response" {
                    let why = "responses of loadline itself do not have it";
                    table.remark(import.lines.differs(import.files, line.at(), why));
                }
                let act = |edit| if is_of_backend { Act::Edit(edit) } else { Act::Late(edit) };
                if let Some(edit) = edit {
                    steps.extend(rules::steps(line, &act(edit), terms.unwrap_or_default()));
                }
            }
            Err(why) => table.remark(import.lines.lost(import.files, line.at(), &why)),
        }
    }
    steps
}

/// The header of `option forwardfor` where it is not the one that loadline sets.
fn forwarded(import: &Import<'_>, proxy: Proxy<'_>, table: &mut Table) -> Option<Step> {
    let line = proxy.last(&["option", "forwardfor"])?;
    let words = line.from(2);
    if words.iter().any(|word| matches!(*word, "except" | "if-none")) {
        let why = "servers are told the client in any case; `trusted_proxies` tell who it is";
        table.remark(import.lines.differs(import.files, line.at(), why));
    }
    let name = words.iter().position(|word| *word == "header").and_then(|at| words.get(at + 1))?;
    if name.eq_ignore_ascii_case("x-forwarded-for") {
        return None;
    }
    let value = "$client_address".to_owned();
    let edit = Edit::Header("request_headers.add", (*name).to_owned(), value);
    Some(Step::always(line.at(), Act::Edit(edit)))
}

fn rule(
    import: &Import<'_>,
    line: &Line,
    acls: &Acls,
    context: Context,
    table: &mut Table,
) -> Vec<Step> {
    if line.begins(&["http-request", "allow"]) {
        return rules::steps(line, &Act::Skip(0), terms(import, line, acls, context, table));
    }
    let read = match rules::action(line, context) {
        Ok(read) => read,
        Err(why) => {
            table.remark(import.lines.lost(import.files, line.at(), &why));
            return Vec::new();
        }
    };
    if let Some(why) = read.differs {
        table.remark(import.lines.differs(import.files, line.at(), why));
    }
    let Some(act) = read.act else { return Vec::new() };
    rules::steps(line, &act, terms(import, line, acls, context, table))
}

/// Makes routes of the steps; `lost` could not even be asked with what leads to their backend. The
/// last one takes everything; where it is a service without changes, it needs no route.
fn finish(
    import: &Import<'_>,
    steps: &[Step],
    lost: Vec<(usize, String)>,
    listener: &mut Listener,
) {
    let made = steps::routes(steps);
    for (at, why) in lost.into_iter().chain(made.lost) {
        let remark = match made.followed.contains(&at) {
            true => import.lines.partly(import.files, at, &why),
            false => import.lines.lost(import.files, at, &why),
        };
        listener.table.remark(remark);
    }
    listener.routes = made.routes;
    let is_plain = |route: &mut steps::Route| {
        route.when.is_always() && route.edits.is_empty() && route.end.is_service
    };
    if let Some(last) = listener.routes.pop_if(is_plain) {
        let service = last.end.keys[0].1.trim_matches('"');
        service.clone_into(&mut listener.service);
    }
}
